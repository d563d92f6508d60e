"""Batches of tensors."""

import torch

from prunus.tasks.settings import DataSettings
from prunus.tasks.torch.data import load_data


def test_batches_are_tensors():
    data = load_data(DataSettings(kind="digits", channels=1))
    for images, labels in (next(iter(data.test)), next(data.train.shuffled(0, 0))):
        assert (images.dtype, images.shape) == (torch.float32, (32, 1, 8, 8))
        assert (labels.dtype, labels.shape) == (torch.int64, (32,))

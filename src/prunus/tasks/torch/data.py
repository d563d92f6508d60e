"""The data of a settings file, as tensors."""

from __future__ import annotations

import torch

from prunus.tasks import data
from prunus.tasks.data import Data
from prunus.tasks.settings import DataSettings

__all__ = ["load_data"]


def load_data(settings: DataSettings) -> Data:
    """Return loaders that give (images, labels) as tensors on the CPU."""
    return data.load_data(settings, torch.from_numpy)

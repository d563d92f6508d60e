"""A small network, its data, and an analysis of it: for tests of whatever an analysis does."""

from __future__ import annotations

import pytest
from torch import nn

import prunus

from .backends.torch.nets import image
from .naive import batches

__all__ = ["CELLS", "DATA", "IMAGE", "RATIOS", "analyze", "interrupted", "squares", "table"]

RATIOS = (0.3, 0.6)
DATA = batches(7, 7, 3)
IMAGE = image()
CELLS = 4
"""Of the network `Chain`, at these ratios."""


def squares(output, batch):
    return (output - nn.functional.one_hot(batch[1], 5)).square().mean(1)


def analyze(model, work, path, **options):
    options = {"ratios": RATIOS, "verify": False, **options}
    return prunus.analyze(model, IMAGE, work, study=path, **options)


def table(study):
    return {cell.key: cell.metric for cell in study.cells}


def interrupted(model, metric, path, data=DATA, error=KeyboardInterrupt, **options):
    with pytest.raises(error):
        analyze(model, prunus.Evaluation(data, metric), path, **options)

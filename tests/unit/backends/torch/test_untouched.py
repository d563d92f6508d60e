"""A run of the user's model leaves no trace."""

import contextlib
import random

import numpy as np
import pytest
import torch
from torch import nn

from prunus.backends.torch.untouched import evaluating

from .nets import fingerprint, image


class Busy(nn.Module):
    """Sets, counts, collects and draws in `forward`."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 1)
        self.norm = nn.BatchNorm2d(4)
        self.register_buffer("seen", torch.zeros(()))
        self.register_buffer("last", torch.zeros(1))
        self.calls, self.kept, self.table = 0, [], {"old": 1}

    def forward(self, x):
        self.calls += 1
        self.seen += 1
        self.last = x.mean()[None]
        self.features = self.conv(x)
        self.kept.append(self.features)
        self.table["new"] = x
        self.table.pop("old", None)
        self.noise = torch.rand(3), random.random(), np.random.rand()
        return self.norm(self.features)


@pytest.mark.parametrize("fails", [False, True])
def test_everything_is_as_it_was(fails):
    model = Busy().train()
    model.norm.eval()
    kept, table = model.kept, model.table
    before = fingerprint(model)
    outcome = pytest.raises(KeyError, match="later") if fails else contextlib.nullcontext()
    with outcome, evaluating(model):
        assert not any(module.training for module in model.modules())
        model(image())
        model(image())
        assert model.calls == 2
        if fails:
            raise KeyError("later")
    after = fingerprint(model)
    # A buffer that was counted in holds its value again, one write later.
    assert after[1:] == before[1:]
    assert model.kept is kept
    assert model.kept == []
    assert model.table is table
    assert model.table == {"old": 1}
    assert not hasattr(model, "features")


def test_a_graph_that_waits_for_backward_is_not_disturbed():
    model = nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4)).eval()
    loss = model(image()).sum()
    with evaluating(model):
        model(image())
    loss.backward()
    assert model[0].weight.grad is not None

"""A guess from gradients: what it is, and that it follows what is measured."""

import pytest
import torch
from torch import nn

from prunus.backends.torch.backend import TorchBackend
from prunus.backends.torch.first_look import SIZE, first_look
from prunus.backends.torch.trace import stored_tensors
from prunus.core.engine.table import table_of
from prunus.core.graph.channels import close
from prunus.core.graph.groups import find_groups


def built(model, x, ratios=(0.25, 0.5)):
    backend = TorchBackend()
    traced = backend.trace(model, x)
    groups = find_groups(close(traced.graph, None, traced.pinned))
    return stored_tensors(model)[0], table_of(groups, ratios, None, backend.weights(traced)).cuts


def test_one_look_is_minus_weight_times_gradient_and_half_its_square():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4, bias=False), nn.Linear(4, 1, bias=False)).double()
    x = torch.randn(5, 3, dtype=torch.float64)
    stored, cuts = built(model, x)

    def loss():
        return model(x).square().mean()

    loss().backward()
    found = first_look(stored, cuts, [loss])
    for key, cut in cuts.items():
        weight = model[1].weight
        lost = list(cut.by_name()["1.weight"][1])
        u = -float((weight * weight.grad).detach()[:, lost].sum())
        assert found[key] == pytest.approx(u + 0.5 * u * u)


def test_several_looks_tell_the_variance_of_one_sample():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 1)).double()
    stored, cuts = built(model, torch.randn(2, 3, dtype=torch.float64))
    xs = [torch.randn(SIZE, 3, dtype=torch.float64) for _ in range(6)]
    found = first_look(stored, cuts, [lambda x=x: model(x).square().mean() for x in xs])
    for key, cut in cuts.items():
        lost = list(cut.by_name()["1.weight"][1])
        changes = []
        for x in xs:
            (gradient,) = torch.autograd.grad(model(x).square().mean(), [model[1].weight])
            changes.append(-float((model[1].weight * gradient).detach()[:, lost].sum()))
        u = torch.tensor(changes, dtype=torch.float64)
        mean, variance = float(u.mean()), float(u.var(correction=0))
        assert found[key] == pytest.approx(mean + 0.5 * (SIZE * variance + mean**2))


def test_small_weights_are_guessed_to_matter_little():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 1), nn.ReLU())
    model.append(nn.Conv2d(8, 2, 1))
    with torch.no_grad():
        model[2].weight *= 1e-4  # what reads the first layer's channels
    x = torch.randn(4, 3, 6, 6)
    stored, cuts = built(model, x)
    found = first_look(stored, cuts, [lambda: (model(x) - 3).square().mean()])
    first = [abs(value) for key, value in found.items() if key.group == "0.weight"]
    second = [abs(value) for key, value in found.items() if key.group == "2.weight"]
    assert max(first) < 1e-2 * max(second)


def test_channels_that_no_weight_reads_count_where_they_are_made():
    class Averages(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Conv2d(3, 4, 1)

        def forward(self, x):
            return self.a(x).square().mean(1)

    model, x = Averages(), torch.randn(2, 3, 4, 4)
    stored, cuts = built(model, x)
    found = first_look(stored, cuts, [lambda: model(x).mean()])
    assert all(value != 0 for value in found.values())


def test_without_cells_nothing_runs():
    assert first_look({}, {}, [lambda: pytest.fail("it ran")]) == {}

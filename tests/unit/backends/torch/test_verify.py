"""What verification says where the comparison is not a plain one."""

import random

import pytest
import torch
from torch import nn

import prunus

from .nets import Chain, image


class Ends(nn.Module):
    """Something in front of and behind a chain."""

    def __init__(self, end, start=lambda x: x):
        super().__init__()
        self.chain, self.end, self.start = Chain(), end, start

    def forward(self, x):
        return self.end(self.chain(self.start(x)))


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        (lambda y: y * float("nan"), "the model's output is nan or infinite everywhere"),
        (lambda y: y + float("inf"), "the model's output is nan or infinite everywhere"),
        (lambda y: y[:, :0], "the model's output is empty on this example"),
        (lambda y: 3, "the model returns no tensor that could be compared"),
    ],
)
def test_an_output_that_tells_nothing_is_named(end, reason):
    pruned = prunus.prune(Ends(end), image(), {"chain.a.weight": 0.5})
    assert pruned.error is None
    assert pruned.unverified == reason
    assert pruned.model.chain.a.weight.shape == (4, 3, 3, 3)


@pytest.mark.parametrize(
    "end",
    [
        lambda y: torch.cat([y, y[:, :1] * float("nan"), y[:, :1] - float("inf")], 1),
        lambda y: (y > 0, y.argmax(1), {"scores": y.softmax(1)}),
        lambda y: [y.to(torch.complex64) * 1j, None, 2],
        lambda y: y.half(),
    ],
    ids=["partly nan", "bool and int", "complex", "half"],
)
def test_outputs_of_every_kind_are_compared(end):
    pruned = prunus.prune(Ends(end), image(), 0.5)
    assert pruned.error < 1e-6
    assert pruned.unverified == ""


def test_a_nan_on_one_side_is_an_error():
    from prunus.backends.torch.verify import _distance

    nan, one = torch.tensor([float("nan"), 1.0]), torch.tensor([1.0, 1.0])
    assert _distance(nan, nan) == 0
    assert _distance(nan, one) == float("inf")
    assert _distance(one, nan) == float("inf")
    assert _distance(one, one[:1]) == float("inf")
    assert _distance([one], [one, one]) == float("inf")
    assert _distance(one, one * 1.5) == 0.5


def test_a_model_that_takes_only_its_own_numbers_is_run_on_them():
    class Picky(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Conv2d(3, 8, 1), nn.Conv2d(8, 4, 1)
            self.exact = nn.Parameter(torch.ones(1))

        def forward(self, x):
            # The root of a negative number, for any other weight than one.
            return self.b(self.a(x)) + (-(self.exact - 1).abs()).sqrt()

    pruned = prunus.prune(Picky(), image(), 0.5)
    assert pruned.error < 1e-9
    assert pruned.unverified == ""


def test_integer_inputs():
    class Words(nn.Module):
        def __init__(self):
            super().__init__()
            self.table, self.a, self.b = nn.Embedding(10, 6), nn.Linear(6, 8), nn.Linear(8, 2)

        def forward(self, x):
            return self.b(self.a(self.table(x)).relu())

    pruned = prunus.prune(Words(), torch.randint(10, (2, 5)), 0.5)
    assert pruned.error < 1e-9
    assert pruned.model.a.weight.shape[0] == 4


def noisy(draw):
    class Noisy(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Conv2d(3, 8, 1), nn.Conv2d(8, 4, 1)

        def forward(self, x):
            return self.b(draw(self.a(x)))

    return Noisy()


@pytest.mark.parametrize(
    "draw",
    [
        lambda y: y + torch.randn_like(y),
        lambda y: y * torch.rand(1, y.shape[1], 1, 1),
        lambda y: nn.functional.dropout(y, 0.5, training=True),
        lambda y: nn.functional.dropout2d(y, 0.5, training=True),
        lambda y: y * torch.bernoulli(torch.full_like(y, 0.5)),
        lambda y: y + random.random(),
    ],
)
def test_noise_in_evaluation_is_held_still(draw):
    model, x = noisy(draw), image()
    state = torch.random.get_rng_state()
    pruned = prunus.prune(model, x, 0.5)
    assert torch.equal(state, torch.random.get_rng_state())
    assert pruned.error is not None
    assert pruned.error < 1e-9


def test_noise_that_cannot_be_held_still_is_named():
    pruned = prunus.prune(noisy(lambda y: nn.functional.rrelu(y, training=True)), image(), 0.5)
    assert pruned.error is None
    assert "two runs of the original on one input differ" in pruned.unverified


def test_operators_that_mix_channels_are_named_and_verified():
    model = nn.Sequential(nn.Conv2d(3, 8, 1), nn.GroupNorm(1, 8), nn.ReLU(), nn.Conv2d(8, 2, 1))
    pruned = prunus.prune(model, image(), 0.5)
    assert pruned.mixes == ("group_norm in '1'",)
    assert pruned.error < 1e-9


@pytest.mark.parametrize("criterion", ["l1", "l2", "fpgm", "taylor"])
def test_complex_weights_are_cut_judged_and_compared(criterion):
    layers = [nn.Linear(3, 6, dtype=torch.cfloat), nn.Tanh(), nn.Linear(6, 2, dtype=torch.cfloat)]
    model, x = nn.Sequential(*layers), torch.randn(2, 3, dtype=torch.cfloat)
    model(x).abs().sum().backward()
    pruned = prunus.prune(model, x, 0.5, criterion=criterion)
    assert pruned.error < 1e-9
    kept = [k for k in range(6) if k not in pruned.cut["0.weight"][0]]
    first, _, last = layers
    inner = torch.tanh(x @ first.weight[kept].T + first.bias[kept])
    assert torch.allclose(pruned.model(x), inner @ last.weight[:, kept].T + last.bias, atol=1e-5)

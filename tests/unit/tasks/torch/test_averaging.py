"""The running mean of the weights."""

import pytest
import torch
from torch import nn

from prunus.tasks.torch.averaging import Average, put, taken


def test_the_mean_by_hand():
    model = nn.Linear(1, 1, bias=False)
    put(model, {"weight": torch.zeros(1, 1)})
    average = Average(model, 0.5)
    put(model, {"weight": torch.ones(1, 1)})
    average.update(model)
    first = 1 - 2 / 11  # early on the mean moves faster than the decay says
    assert average.values["weight"].item() == pytest.approx(first)
    for _ in range(9):
        average.update(model)
    before = average.values["weight"].item()
    put(model, {"weight": torch.full((1, 1), 3.0)})
    average.update(model)
    assert average.values["weight"].item() == pytest.approx((before + 3) / 2)


def test_what_counts_is_copied_and_constants_stay_to_the_bit():
    model = nn.BatchNorm1d(2)
    model.register_buffer("constant", torch.tensor([0.1, 1e30]))
    average = Average(model, 0.9)
    model(torch.rand(3, 2))
    average.update(model)
    assert average.values["num_batches_tracked"] == 1
    assert torch.equal(average.values["constant"], model.constant)


def test_the_model_wears_it_for_a_while():
    model = nn.Linear(2, 2)
    average = Average(model, 0.9)
    put(model, {name: value + 1 for name, value in taken(model).items()})
    own = taken(model)

    def fail():
        with average.worn(model):
            assert torch.equal(model.weight, average.values["weight"])
            raise KeyError("x")

    with pytest.raises(KeyError, match="x"):
        fail()
    assert all(torch.equal(own[name], value) for name, value in taken(model).items())

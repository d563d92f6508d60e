"""A model on a batch, and what is told where it does not run."""

import pytest
import torch
from torch import nn

from prunus.backends.torch.batches import run_on, to_home
from prunus.core.errors import EvaluationError, PrunusError


def test_what_a_batch_may_be():
    model, x = nn.Linear(2, 3), torch.rand(4, 2)
    expected = model(x)
    for batch in (x, (x, 1), [x, 1], {"input": x}):
        assert torch.equal(run_on(model, batch, 1), expected)
    assert torch.equal(run_on(model, [7, x], 1, lambda one, batch: one(batch[1])), expected)


def test_tensors_go_where_the_weights_are():
    moved = to_home({"x": [torch.rand(1), "text"]}, nn.Linear(2, 3, device="meta"))
    assert (moved["x"][0].device.type, moved["x"][1]) == ("meta", "text")
    assert to_home([1], nn.ReLU()) == [1]


class Raises(nn.Module):
    def __init__(self, error):
        super().__init__()
        self.error = error

    def forward(self, x):
        raise self.error


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (KeyError("x"), r"(?s)does not run on batch 3: KeyError: 'x'.*forward="),
        (torch.OutOfMemoryError("full"), r"(?s)OutOfMemoryError: full.*data\.batch_size"),
        (ValueError("Expected more than 1 value per channel"), "more than one image"),
    ],
)
def test_what_is_told(error, told):
    with pytest.raises(EvaluationError, match=told):
        run_on(Raises(error), torch.rand(1), 3)


def test_an_error_of_ours_stays_what_it_is():
    with pytest.raises(PrunusError, match=r"^mine\n  fix: do$"):
        run_on(Raises(PrunusError("mine", fix="do")), torch.rand(1), 3)

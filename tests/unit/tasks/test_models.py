"""Examples made from shapes."""

import torch
from torch import nn

from prunus.tasks.models import example_of


def test_an_example_has_the_type_of_the_weights():
    (found,) = example_of(nn.Linear(3, 2).double(), [(4, 3)])
    assert (found.dtype, found.shape) == (torch.float64, (4, 3))


def test_a_model_without_weights_gets_single_precision():
    assert [one.dtype for one in example_of(nn.ReLU(), [(1,), (2, 2)])] == [torch.float32] * 2


def test_random_state_is_left_alone():
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    example_of(nn.ReLU(), [(5,)])
    assert torch.equal(torch.rand(1), expected)

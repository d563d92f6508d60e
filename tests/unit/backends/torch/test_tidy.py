"""Exported graphs without regions, assertions and writes into views."""

import pytest
import torch
from torch import nn

from prunus.backends.torch.lower import operator_of
from prunus.backends.torch.tidy import tidy, writes_into_views
from prunus.backends.torch.trace import quiet


class Calls(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function
        self.conv = nn.Conv2d(3, 4, 1)

    def forward(self, x):
        return self.function(self.conv(x))


X = torch.randn(2, 3, 4, 4)


def exported(function):
    return torch.export.export(Calls(function).eval(), (X,), strict=False)


def part(y):
    y = y.clone()
    y[:, :2] += 1
    return y


def view(y):
    y = y.clone()
    y.view(2, -1).add_(1)
    return y


def whole(y):
    return y.clone().add_(1)


@pytest.mark.parametrize(("function", "writes"), [(part, True), (view, False), (whole, False)])
def test_writes_into_a_part_are_told_from_writes_into_all(function, writes):
    assert writes_into_views(exported(function)) is writes


def in_region(y):
    with torch.autocast("cpu", torch.bfloat16):
        z = torch.nn.functional.relu(y) * 2
    return z + 1


def test_a_region_is_laid_open():
    program = exported(in_region)
    assert any("wrap_with" in str(node.target) for node in program.graph.nodes)
    expected = program.module()(X)
    tidy(program)
    names = [operator_of(node) for node in program.graph.nodes if node.op == "call_function"]
    assert {"relu", "mul", "add"} <= set(names)
    assert not any("wrap_with" in str(node.target) for node in program.graph.nodes)
    assert not any(node.op == "get_attr" for node in program.graph.nodes)
    weights = [one.detach() for one in program.state_dict.values()]
    (found,) = program.graph_module(*weights, X)
    assert torch.equal(found, expected)


def test_assertions_go():
    def asserts(y):
        torch._check(y.sum().item() < 1e9)
        return y + 1

    program = exported(asserts)
    tidy(program)
    assert not any("_assert" in str(node.target) for node in program.graph.nodes)


def test_a_copy_becomes_what_it_does():
    def copies(y):
        z = y.clone()
        z[:, 1:] = y[:, :1]
        return z

    with quiet():  # export copies what it warns of
        program = exported(copies).run_decompositions({})
    weights = [one.detach() for one in program.state_dict.values()]
    (expected,) = program.graph_module(*weights, X)
    assert any(node.target is torch.ops.aten.copy.default for node in program.graph.nodes)
    tidy(program)
    assert not any(node.target is torch.ops.aten.copy.default for node in program.graph.nodes)
    (found,) = program.graph_module(*weights, X)
    assert torch.equal(found, expected)

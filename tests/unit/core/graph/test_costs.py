"""Multiply-adds and parameters, before and after a cut."""

from __future__ import annotations

import numpy as np
import pytest

from prunus.core.graph.channels import Channels
from prunus.core.graph.costs import macs, node_macs, numel, shape_after
from prunus.core.graph.ir import Dim, Node
from prunus.testing.networks import Net


def cost_of(op: str, shapes: dict[str, tuple[int, ...]], roles=(), **attrs) -> int:
    *read, made = shapes
    inputs = tuple(name for name in read if name not in roles)
    node = Node("n", op, inputs, (made,), {name: name for name in roles}, attrs)
    return node_macs(node, shapes.__getitem__)


@pytest.mark.parametrize(
    ("op", "shapes", "roles", "attrs", "expected"),
    [
        ("conv", {"x": (2, 3, 5), "weight": (4, 3, 2), "y": (2, 4, 4)}, ["weight"], {}, 32 * 6),
        ("conv", {"x": (1, 4, 5), "weight": (4, 1, 2), "y": (1, 4, 4)}, ["weight"], {}, 16 * 2),
        (
            "conv_transpose",
            {"x": (1, 3, 5), "weight": (3, 4, 2), "y": (1, 4, 6)}, ["weight"], {}, 15 * 8,
        ),
        ("linear", {"x": (2, 7, 3), "weight": (5, 3), "y": (2, 7, 5)}, ["weight"], {}, 70 * 3),
        (
            "einsum",
            {"p": (2, 3, 4), "q": (2, 4, 5), "y": (2, 3, 5)}, [], {"equation": "bij,bjk->bik"}, 120,
        ),
        # From the left: ab,bc costs 2*3*4, then ac,cd costs 2*4*5.
        (
            "einsum",
            {"p": (2, 3), "q": (3, 4), "r": (4, 5), "y": (2, 5)}, [], {"equation": "ab,bc,cd->ad"},
            24 + 40,
        ),
        ("einsum", {"p": (2, 1), "q": (3, 4), "y": (2, 4)}, [], {"equation": "ab,bc->ac"}, 24),
        (
            "attention",
            {"q": (2, 3, 5), "k": (2, 7, 5), "v": (2, 7, 4), "y": (2, 3, 4)}, [], {}, 2 * 21 * 9,
        ),
        (
            "recurrent",
            {"x": (6, 2, 3), "w_ih": (20, 3), "w_hh": (20, 5), "b_ih": (20,), "y": (6, 2, 5)},
            ["w_ih", "w_hh", "b_ih"], {}, 12 * (60 + 100),
        ),
        ("elementwise", {"x": (2, 3), "y": (2, 3)}, [], {}, 0),
    ],
)  # fmt: skip
def test_multiply_adds_of_one_operator(op, shapes, roles, attrs, expected):
    assert cost_of(op, shapes, roles, **attrs) == expected


def _two_layers() -> Channels:
    net = Net()
    x = net.norm(net.conv(net.input("x", 1, 3, 4), "a", 5, bias=True), "n")
    return net.close(net.conv(x, "b", 2))


def _without(channels: Channels, dim: Dim, *indices: int) -> np.ndarray:
    gone = np.zeros(channels.count, bool)
    gone[channels.sets[dim][list(indices)]] = True
    return gone


def test_costs_of_a_whole_graph():
    channels = _two_layers()
    assert macs(channels.graph) == 4 * (5 * 3 + 2 * 5)
    assert numel(channels.graph) == 15 + 5 + 5 + 10  # the mean of the norm is a buffer


def test_costs_after_a_cut():
    channels = _two_layers()
    gone = _without(channels, Dim("a.weight", 0), 1, 4)
    assert macs(channels.graph, channels, gone) == 4 * (3 * 3 + 2 * 3)
    assert numel(channels.graph, channels, gone) == 9 + 3 + 3 + 6


def test_shapes_after_a_cut():
    channels = _two_layers()
    gone = _without(channels, Dim("a.weight", 0), 1, 4)
    assert shape_after(channels, gone, "a.weight") == (3, 3, 1)
    assert shape_after(channels, gone, "b.weight") == (2, 3, 1)
    assert shape_after(channels, gone, "x") == (1, 3, 4)


def test_a_depthwise_convolution_gets_cheaper_with_its_channels():
    net = Net()
    x = net.conv(net.input("x", 1, 3, 4), "a", 4)
    channels = net.close(net.conv(net.conv(x, "depthwise", 8, groups=4, kernel=3), "b", 2))
    gone = _without(channels, Dim("a.weight", 0), 0)
    before, after = macs(channels.graph), macs(channels.graph, channels, gone)
    assert (before, after) == (4 * (12 + 8 * 3 + 16), 4 * (9 + 6 * 3 + 12))

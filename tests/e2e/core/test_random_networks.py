"""Random networks, cut for real in NumPy: they compute what the blinded original computes."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from prunus.core.cut.cut import Cut, make_cut
from prunus.core.graph.ir import Graph
from prunus.testing.networks import Net

from ...unit.core.graph.rules import operators as op  # noqa: TID252  (the same ground truth)

RUN = {
    "conv": op.conv,
    # Not zero at zero, as activations may be: blinded channels hold anything.
    "elementwise": lambda attrs, *inputs: np.cos(sum(inputs)),
    "concat": op.concat,
    "split": op.split,
    "slice": op.slice_,
    "reshape": op.reshape,
    "transpose": op.transpose,
    "pad": op.pad,
}


class Builder:
    """Adds layers to a network; what it adds depends on numbers that hypothesis draws."""

    def __init__(self, draw) -> None:
        self.draw = draw
        self.net = Net()
        self.pool = [self.net.input("x", 1, 4, 4)]
        self.layers = 0

    def any(self) -> str:
        return self.draw(st.sampled_from(self.pool[-4:]))

    def width(self, x: str) -> int:
        return self.net.shape(x)[1]

    def name(self) -> str:
        self.layers += 1
        return f"w{self.layers}"

    def conv(self) -> None:
        x = self.any()
        divisors = [k for k in (1, 2, 3, self.width(x)) if self.width(x) % k == 0]
        groups = self.draw(st.sampled_from(divisors))
        outputs = groups * self.draw(st.integers(1, max(1, 8 // groups)))
        bias = self.draw(st.booleans())
        self.pool.append(self.net.conv(x, self.name(), outputs, groups, bias=bias))

    def add(self) -> None:
        x, y = self.any(), self.any()
        if self.width(x) != self.width(y):
            y = self.net.conv(y, self.name(), self.width(x))
        self.pool.append(self.net.add(x, y))

    def concat(self) -> None:
        self.pool.append(self.net.concat(self.any(), self.any()))

    def split(self) -> None:
        x = self.any()
        if self.width(x) > 1:
            first = self.draw(st.integers(1, self.width(x) - 1))
            self.pool += self.net.split(x, first, self.width(x) - first)

    def slice(self) -> None:
        x = self.any()
        start = self.draw(st.integers(0, self.width(x) - 1))
        stop = self.draw(st.integers(start + 1, self.width(x)))
        self.pool.append(self.net.slice(x, start, stop))

    def shuffle(self) -> None:
        x = self.any()
        for groups in (2, 3):
            if self.width(x) % groups == 0 and self.width(x) > groups:
                self.pool.append(self.net.shuffle(x, groups))
                return

    def pad(self) -> None:
        x = self.any()
        amounts = [(0, 0), (1, 1), (0, 0)]
        shape = (1, self.width(x) + 2, 4)
        self.pool.append(self.net.node("pad", [x], shape, amounts=amounts, constant=True))

    def graph(self) -> tuple[Net, str]:
        steps = [self.conv, self.add, self.concat, self.split, self.slice, self.shuffle, self.pad]
        self.conv()
        for step in self.draw(st.lists(st.sampled_from([*steps, self.conv]), max_size=8)):
            step()
        return self.net, self.net.conv(self.net.concat(*self.pool[1:]), "head", 2)


@st.composite
def networks(draw):
    return Builder(draw).graph()


def run(graph: Graph, params: dict[str, np.ndarray], cut: Cut | None) -> np.ndarray:
    """Run a graph; with the numbers that `cut` changes, where one is given."""
    values = dict(params)
    values["x"] = np.random.default_rng(1).standard_normal(graph.shape("x"))
    made: tuple[np.ndarray, ...] = ()
    for node in graph.nodes:
        attrs = dict(node.attrs)
        for resize in cut.resizes if cut else ():
            if resize.node is node and resize.position is None:
                attrs[resize.attr] = resize.new
            elif resize.node is node:
                attrs[resize.attr] = list(attrs[resize.attr])
                attrs[resize.attr][resize.position] = resize.new
        weights = {role: values[name] for role, name in node.params.items()}
        result = RUN[node.op](attrs, *[values[name] for name in node.inputs], **weights)
        made = result if isinstance(result, tuple) else (result,)
        values.update(zip(node.outputs, made, strict=True))
        assert all(one.size for one in made), "no tensor is ever emptied"
    return made[0]


@given(networks(), st.sampled_from([0.3, 0.5, 0.9]), st.sampled_from([1, 2]), st.integers(0, 99))
@settings(max_examples=250, deadline=None)
def test_a_cut_network_computes_what_the_blinded_one_does(network, ratio, align, seed):
    net, y = network
    groups = net.groups(y)
    rng = np.random.default_rng(seed)
    params = {
        name: rng.standard_normal(tensor.shape)
        for name, tensor in net.tensors.items()
        if tensor.is_param
    }
    scores = {k: rng.random(group.size) for k, group in enumerate(groups.groups)}
    # Some groups are left alone, as they are when one is measured by itself.
    ratios = [ratio if rng.random() < 0.7 else 0.0 for _ in groups.groups]
    cut = make_cut(groups, ratios, scores, align)
    blind = {name: value.copy() for name, value in params.items()}
    small = dict(params)
    for dim, lost in cut.removed.items():
        blind[dim.tensor][(slice(None),) * dim.axis + (lost,)] = 0.0
        small[dim.tensor] = np.delete(small[dim.tensor], lost, dim.axis)
    expected = run(groups.graph, blind, None)
    actual = run(groups.graph, small, cut)
    assert actual.shape == expected.shape
    assert np.allclose(actual, expected)
    for one in cut.achieved:
        assert one.removed < one.size

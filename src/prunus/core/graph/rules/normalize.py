"""Ops that bring values to a common scale."""

from __future__ import annotations

from collections.abc import Iterator

from prunus.core.graph.facts import Balance, Couple, Fact, Mixes, Sized, Sums
from prunus.core.graph.ir import Dim, Node
from prunus.core.graph.rules._registry import View, identity, rule


@rule("batch_norm", "instance_norm")
def batch_norm(node: Node, view: View) -> Iterator[Fact]:
    """y[n, c, ..] = (x[n, c, ..] - mean[c]) / sqrt(var[c]) * weight[c] + bias[c]

    Without stored statistics it takes them from the input, over every axis that is
    not c (an instance norm: nor n), which matters when such an axis is cut.
    """
    (x,), (y,) = node.inputs, node.outputs
    rank = len(view.shape(x))
    yield from identity(x, y, rank)
    for tensor in node.params.values():
        yield Couple(Dim(tensor, 0), Dim(y, 1))
    if "channels" in node.attrs:
        # Without weights and statistics, a module still knows how many channels it expects.
        yield Sized("channels", Dim(x, 1))
    if not node.attrs.get("from_input", False):
        return
    own = (1,) if node.op == "batch_norm" else (0, 1)
    for axis in range(rank):
        if axis not in own:
            yield Mixes(Dim(x, axis))


@rule("layer_norm")
def layer_norm(node: Node, view: View) -> Iterator[Fact]:
    """Normalises over the last `axes` axes together."""
    (x,), (y,) = node.inputs, node.outputs
    rank, axes = len(view.shape(x)), node.attrs["axes"]
    yield from identity(x, y, rank)
    for position in range(axes):
        dim = Dim(x, rank - axes + position)
        yield Mixes(dim)
        yield Sized("normalized_shape", dim, position)
        for tensor in node.params.values():
            yield Couple(Dim(tensor, position), Dim(y, dim.axis))


@rule("group_norm")
def group_norm(node: Node, view: View) -> Iterator[Fact]:
    """Normalises over runs of channels; one channel a run is an instance norm."""
    (x,), (y,) = node.inputs, node.outputs
    groups, channels = node.attrs["groups"], view.shape(x)[1]
    yield from identity(x, y, len(view.shape(x)))
    for tensor in node.params.values():
        yield Couple(Dim(tensor, 0), Dim(y, 1))
    for axis in range(2, len(view.shape(x))):
        yield Mixes(Dim(x, axis))
    if groups == channels:
        yield Sized("groups", Dim(x, 1))
        return
    yield Mixes(Dim(x, 1))
    if groups > 1:
        yield Balance(Dim(x, 1), groups)


@rule("along")
def along(node: Node, view: View) -> Iterator[Fact]:
    """Softmax, cumulative sum, normalisation by length: shape kept, `axes` looked at together."""
    (x,), (y,) = node.inputs, node.outputs
    yield from identity(x, y, len(view.shape(x)))
    for axis in node.attrs["axes"]:
        yield Mixes(Dim(x, axis))


@rule("weight_norm")
def weight_norm(node: Node, view: View) -> Iterator[Fact]:
    """w[o, ..] = g[o] * v[o, ..] / |v[o]|, where o is the axis `axis`; -1 is one g for all.

    A row of zeros has no direction (0 / 0), so o is not blinded with zeros.
    """
    (y,) = node.outputs
    v, g = node.params["direction"], node.params["length"]
    axis = node.attrs["axis"]
    for other in range(len(view.shape(v))):
        yield Couple(Dim(v, other), Dim(y, other))
        if other != axis:
            yield Sums(Dim(v, other))
    if axis >= 0:
        yield Mixes(Dim(v, axis))
        yield Couple(Dim(g, axis), Dim(y, axis))

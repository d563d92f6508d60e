"""Attention as one operator."""

from __future__ import annotations

from collections.abc import Iterator

from prunus.core.graph.facts import Couple, Fact, Freeze, Mixes
from prunus.core.graph.ir import Dim, Node
from prunus.core.graph.rules._registry import View, rule


@rule("attention")
def attention(node: Node, view: View) -> Iterator[Fact]:
    """y[.., n, e] = sum_m softmax_m(sum_d q[.., n, d] * k[.., m, d] * scale + mask) * v[.., m, e]

    The scale is usually 1 / sqrt(d), taken from the length of d: d stays, unless
    `scale` is a number of its own.
    """
    q, k, v = node.inputs[:3]
    (y,) = node.outputs
    rank = len(view.shape(y))
    for axis in range(rank - 2):
        for tensor in node.inputs:
            lead = rank - len(view.shape(tensor))
            own = Dim(tensor, axis - lead)
            if axis < lead:
                continue
            if view.shape(tensor)[own.axis] == view.shape(y)[axis]:
                yield Couple(own, Dim(y, axis))
            elif view.flexible(own):
                # Grouped queries: one key serves several queries, by number.
                yield Freeze(own, because=f"{node} shares each of these heads among several")
    yield Couple(Dim(q, rank - 2), Dim(y, rank - 2))
    yield Couple(Dim(k, rank - 2), Dim(v, rank - 2))
    yield Mixes(Dim(k, rank - 2))
    yield Couple(Dim(v, rank - 1), Dim(y, rank - 1))
    yield Couple(Dim(q, rank - 1), Dim(k, rank - 1))
    if node.attrs.get("scaled_by_length", True):
        yield Freeze(Dim(q, rank - 1), because=f"{node} divides by the length of each head")
    else:
        yield Mixes(Dim(q, rank - 1))
    for mask in node.inputs[3:]:
        yield from _mask(node, view, mask)


def _mask(node: Node, view: View, mask: str) -> Iterator[Fact]:
    rank = len(view.shape(mask))
    for axis in (rank - 2, rank - 1):
        if view.flexible(Dim(mask, axis)):
            yield Freeze(Dim(mask, axis), because=f"{node} masks positions with it")

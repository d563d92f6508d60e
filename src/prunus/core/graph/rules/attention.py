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
    yield from _leading(node, view)
    yield Couple(Dim(q, rank - 2), Dim(y, rank - 2))
    yield Couple(Dim(k, rank - 2), Dim(v, rank - 2))
    yield Mixes(Dim(k, rank - 2))
    yield Couple(Dim(v, rank - 1), Dim(y, rank - 1))
    if node.attrs.get("scaled_by_length", True):
        for dim in (Dim(q, rank - 1), Dim(k, rank - 1)):
            yield Freeze(dim, because=f"{node} divides by the length of each head")
    else:
        yield Couple(Dim(q, rank - 1), Dim(k, rank - 1))
        yield Mixes(Dim(q, rank - 1))
    if node.attrs.get("causal", False):
        for dim in (Dim(q, rank - 2), Dim(k, rank - 2)):
            if view.flexible(dim):
                yield Freeze(dim, because=f"{node} compares positions by number")
    for mask in node.inputs[3:]:
        yield from _mask(node, view, mask, (Dim(q, rank - 2), Dim(k, rank - 2)))


def _leading(node: Node, view: View) -> Iterator[Fact]:
    """Batch and heads, aligned at the right."""
    q, k = node.inputs[:2]
    (y,) = node.outputs
    rank = len(view.shape(y))
    for axis in range(rank - 2):
        length = view.shape(y)[axis]
        for tensor in node.inputs:
            own = Dim(tensor, axis - rank + len(view.shape(tensor)))
            if own.axis < 0:
                continue
            if view.shape(tensor)[own.axis] == length:
                yield Couple(own, Dim(y, axis))
            elif view.flexible(own):
                yield Freeze(own, because=f"{node} shares each of these heads among several")
        if view.shape(k)[axis] not in {1, length} and view.flexible(Dim(q, axis)):
            # Grouped queries: one key serves several queries, by number.
            yield Freeze(Dim(q, axis), because=f"{node} finds the key of each of these by number")


def _mask(node: Node, view: View, mask: str, tokens: tuple[Dim, Dim]) -> Iterator[Fact]:
    """A mask has a row for each query and a column for each key, or one for all."""
    rank = len(view.shape(mask))
    for own, dim in zip((Dim(mask, rank - 2), Dim(mask, rank - 1)), tokens, strict=True):
        if own.axis < 0:
            continue
        if view.shape(mask)[own.axis] == view.shape(dim.tensor)[dim.axis]:
            yield Couple(own, dim)
        elif view.flexible(own):
            yield Freeze(own, because=f"{node} stretches one mask over many tokens")

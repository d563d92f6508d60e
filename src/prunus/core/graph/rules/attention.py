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
    # Ranks may differ, where one key serves a whole batch: count from the end.
    (queries, q_width), (keys, k_width), (values, v_width), (rows, width) = (
        (Dim(tensor, len(view.shape(tensor)) - 2), Dim(tensor, len(view.shape(tensor)) - 1))
        for tensor in (q, k, v, y)
    )
    yield from _leading(node, view)
    yield Couple(queries, rows)
    yield Couple(keys, values)
    yield Mixes(keys)
    yield Couple(v_width, width)
    if node.attrs.get("scaled_by_length", True):
        for dim in (q_width, k_width):
            yield Freeze(dim, because=f"{node} divides by the length of each head")
    else:
        yield Couple(q_width, k_width)
        yield Mixes(q_width)
    if node.attrs.get("causal", False):
        for dim in (queries, keys):
            if view.flexible(dim):
                yield Freeze(dim, because=f"{node} compares positions by number")
    for mask in node.inputs[3:]:
        yield from _mask(node, view, mask, (queries, keys))


def _leading(node: Node, view: View) -> Iterator[Fact]:
    """Batch and heads, aligned at the right."""
    q, k = node.inputs[:2]
    (y,) = node.outputs
    shape = view.shape(y)
    for axis, length in enumerate(shape[:-2]):
        for tensor in node.inputs:
            own = Dim(tensor, axis - len(shape) + len(view.shape(tensor)))
            if own.axis < 0:
                continue
            if view.shape(tensor)[own.axis] == length:
                yield Couple(own, Dim(y, axis))
            elif view.flexible(own):
                yield Freeze(own, because=f"{node} shares each of these heads among several")
            if tensor == k and view.shape(k)[own.axis] not in {1, length}:
                # Grouped queries: one key serves several queries, by number.
                of_query = Dim(q, axis - len(shape) + len(view.shape(q)))
                if view.flexible(of_query):
                    because = f"{node} finds the key of each of these by number"
                    yield Freeze(of_query, because)


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

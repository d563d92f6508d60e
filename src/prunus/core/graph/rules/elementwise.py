"""Ops that treat every element alike."""

from __future__ import annotations

from collections.abc import Iterator

from prunus.core.graph.facts import Couple, Fact, Freeze
from prunus.core.graph.ir import Dim, Node
from prunus.core.graph.rules._registry import View, rule


@rule("elementwise")
def elementwise(node: Node, view: View) -> Iterator[Fact]:
    """y[.., c, ..] = f(a[.., c, ..], b[.., c, ..], ...), shapes aligned at the right.

    A single channel that is stretched over many has no partner among them, and
    must stay the single channel that it is.
    """
    (y,) = node.outputs
    shape = view.shape(y)
    for tensor in node.reads():
        lead = len(shape) - len(view.shape(tensor))
        for axis, length in enumerate(view.shape(tensor)):
            dim = Dim(tensor, axis)
            if length == shape[lead + axis]:
                yield Couple(dim, Dim(y, lead + axis))
            elif view.flexible(dim):
                yield Freeze(dim, because=f"{node} stretches a single channel over many")


@rule("prelu")
def prelu(node: Node, view: View) -> Iterator[Fact]:
    """y[n, c, ..] = max(x, 0) + w[c] * min(x, 0), or one w for all"""
    (x,), (y,) = node.inputs, node.outputs
    weight = node.params["weight"]
    for axis in range(len(view.shape(x))):
        yield Couple(Dim(x, axis), Dim(y, axis))
    if view.shape(weight)[0] > 1:
        yield Couple(Dim(weight, 0), Dim(y, 1))


@rule("frozen")
def frozen(node: Node, view: View) -> Iterator[Fact]:
    """An op that is understood well enough to know that nothing around it may change."""
    reason = node.attrs.get("because", "depends on the number of channels")
    for tensor in node.reads():
        for axis in range(len(view.shape(tensor))):
            yield Freeze(Dim(tensor, axis), because=f"{node} {reason}")

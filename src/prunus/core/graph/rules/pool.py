"""Ops that gather over an axis, or rearrange the picture under each channel."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from prunus.core.graph.facts import Couple, Fact, Freeze, Mixes
from prunus.core.graph.ir import Dim, Node
from prunus.core.graph.rules._registry import View, rule


@rule("spatial")
def spatial(node: Node, view: View) -> Iterator[Fact]:
    """Pooling, resizing, padding, any work inside the last `axes` axes."""
    for x in node.inputs:
        kept = len(view.shape(x)) - node.attrs["axes"]
        for axis in range(len(view.shape(x))):
            if axis < kept:
                for y in node.outputs:
                    yield Couple(Dim(x, axis), Dim(y, axis))
            elif view.flexible(Dim(x, axis)):
                yield Freeze(Dim(x, axis), because=f"{node} works along it")


@rule("reduce")
def reduce(node: Node, view: View) -> Iterator[Fact]:
    """Mean, sum, largest, norm over `axes`; with or without `keepdim`."""
    (x,) = node.inputs
    axes, keepdim = node.attrs["axes"], node.attrs["keepdim"]
    position = 0
    for axis in range(len(view.shape(x))):
        if axis in axes:
            if view.flexible(Dim(x, axis)):
                if node.attrs.get("by_number", False):
                    yield Freeze(Dim(x, axis), because=f"{node} answers with channel numbers")
                else:
                    yield Mixes(Dim(x, axis))
            position += keepdim
            continue
        for y in node.outputs:
            yield Couple(Dim(x, axis), Dim(y, position))
        position += 1


@rule("unfold")
def unfold(node: Node, view: View) -> Iterator[Fact]:
    """Sliding windows as columns: channel c becomes the run of `window` rows it is unrolled to."""
    (x,), (y,) = node.inputs, node.outputs
    yield Couple(Dim(x, 0), Dim(y, 0))
    rows = np.arange(view.shape(y)[1])
    yield Couple(Dim(x, 1), Dim(y, 1), rows // node.attrs["window"], rows)


@rule("fold")
def fold(node: Node, view: View) -> Iterator[Fact]:
    """Columns back to a picture: the run of `window` rows that is channel c."""
    (x,), (y,) = node.inputs, node.outputs
    yield Couple(Dim(x, 0), Dim(y, 0))
    rows = np.arange(view.shape(x)[1])
    yield Couple(Dim(x, 1), Dim(y, 1), rows, rows // node.attrs["window"])

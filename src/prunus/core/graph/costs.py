"""Multiply-adds and parameters of a graph, before and after a cut.

A multiply-add is counted where one goes into a sum: convolutions, products of
matrices, attention. Other work is not counted, as is the custom.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from prunus.core.graph.ir import Dim, Graph, Node

if TYPE_CHECKING:
    from prunus.core.graph.channels import Channels

__all__ = ["Cost", "macs", "node_macs", "numel", "shape_after"]

Shape = tuple[int, ...]
ShapeOf = Callable[[str], Shape]


@dataclass(frozen=True, slots=True)
class Cost:
    """What one run of a model costs, for the example that was traced."""

    macs: int
    """Multiply-adds."""
    numel: int
    """Parameters."""

    def as_dict(self) -> dict[str, int]:
        """Return both by their names."""
        return {"macs": self.macs, "numel": self.numel}


def numel(
    graph: Graph, channels: Channels | None = None, gone: NDArray[np.bool_] | None = None
) -> int:
    """Return the number of parameters, without the channel sets marked in `gone`."""
    shape = _shapes(graph, channels, gone)
    return sum(
        prod(shape(name))
        for name, tensor in graph.tensors.items()
        if tensor.is_param and tensor.trainable
    )


def macs(
    graph: Graph, channels: Channels | None = None, gone: NDArray[np.bool_] | None = None
) -> int:
    """Return the multiply-adds of one run, without the channel sets marked in `gone`."""
    shape = _shapes(graph, channels, gone)
    return sum(node_macs(node, shape) for node in graph.nodes if not node.aside)


def shape_after(channels: Channels, gone: NDArray[np.bool_], tensor: str) -> Shape:
    """Return the shape of `tensor` without the channel sets marked in `gone`."""
    before = channels.graph.shape(tensor)
    return tuple(
        length - int(gone[channels.sets[Dim(tensor, axis)]].sum())
        if Dim(tensor, axis) in channels.sets
        else length
        for axis, length in enumerate(before)
    )


def _shapes(graph: Graph, channels: Channels | None, gone: NDArray[np.bool_] | None) -> ShapeOf:
    if channels is None or gone is None:
        return graph.shape
    return lambda tensor: shape_after(channels, gone, tensor)


def node_macs(node: Node, shape: ShapeOf) -> int:
    """Return the multiply-adds of one node; 0 for an op that does not multiply and add."""
    count = _MACS.get(node.op)
    return count(node, shape) if count else 0


def _conv(node: Node, shape: ShapeOf) -> int:
    return prod(shape(node.outputs[0])) * prod(shape(node.params["weight"])[1:])


def _conv_transpose(node: Node, shape: ShapeOf) -> int:
    return prod(shape(node.inputs[0])) * prod(shape(node.params["weight"])[1:])


def _linear(node: Node, shape: ShapeOf) -> int:
    return prod(shape(node.outputs[0])) * shape(node.params["weight"])[1]


def _einsum(node: Node, shape: ShapeOf) -> int:
    """Operands are joined from left to right; each step multiplies all letters it has."""
    terms, target = node.attrs["equation"].split("->")
    terms = terms.split(",")
    sizes: dict[str, int] = {}
    for tensor, letters in zip(node.inputs, terms, strict=True):
        for letter, length in zip(letters, shape(tensor), strict=True):
            sizes[letter] = max(length, sizes.get(letter, 1))
    total, current = 0, set(terms[0])
    for k in range(1, len(terms)):
        current |= set(terms[k])
        total += prod(sizes[letter] for letter in current)
        current &= set(target).union(*terms[k + 1 :])
    return total


def _attention(node: Node, shape: ShapeOf) -> int:
    q, k, v = (shape(name) for name in node.inputs[:3])
    rows, columns = shape(node.outputs[0])[-2], k[-2]
    heads = prod(shape(node.outputs[0])[:-2])
    return heads * rows * columns * (q[-1] + v[-1])


def _recurrent(node: Node, shape: ShapeOf) -> int:
    steps = prod(shape(node.inputs[0])[:-1])
    return steps * sum(prod(shape(name)) for role, name in node.params.items() if role[0] == "w")


_MACS: dict[str, Callable[[Node, ShapeOf], int]] = {
    "conv": _conv,
    "conv_transpose": _conv_transpose,
    "linear": _linear,
    "einsum": _einsum,
    "attention": _attention,
    "recurrent": _recurrent,
}

"""Ops that sum over an axis: the summed axis couples inputs, the others reach the output."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from prunus.core.graph.facts import Balance, Couple, Fact, Filters, Freeze, Mixes, Sized, Sums
from prunus.core.graph.ir import Dim, Node
from prunus.core.graph.rules._registry import View, rule


@rule("linear")
def linear(node: Node, view: View) -> Iterator[Fact]:
    """y[.., o] = sum_i x[.., i] * w[o, i] + b[o]"""
    (x,), (y,) = node.inputs, node.outputs
    weight, bias = node.params["weight"], node.params.get("bias")
    last = len(view.shape(x)) - 1
    yield Filters(Dim(weight, 0))
    yield Couple(Dim(weight, 0), Dim(y, last))
    yield Couple(Dim(weight, 1), Dim(x, last))
    yield Sums(Dim(x, last))
    if bias is not None:
        yield Couple(Dim(weight, 0), Dim(bias, 0))
    for axis in range(last):
        yield Couple(Dim(x, axis), Dim(y, axis))


@rule("conv")
def conv(node: Node, view: View) -> Iterator[Fact]:
    """y[n, o, ..] = sum_i x[n, i, ..] * w[o, i, ..] + b[o], within each group of i and o"""
    yield from _convolution(node, view, out_axis=0)


@rule("conv_transpose")
def conv_transpose(node: Node, view: View) -> Iterator[Fact]:
    """y[n, o, ..] = sum_i x[n, i, ..] * w[i, o, ..] + b[o], within each group of i and o"""
    yield from _convolution(node, view, out_axis=1)


def _convolution(node: Node, view: View, out_axis: int) -> Iterator[Fact]:
    (x,), (y,) = node.inputs, node.outputs
    weight, bias = node.params["weight"], node.params.get("bias")
    groups = node.attrs["groups"]
    inputs, outputs = view.shape(x)[1], view.shape(y)[1]
    shape = (groups, inputs // groups, outputs // groups)
    yield Couple(Dim(x, 0), Dim(y, 0))
    if bias is not None:
        yield Couple(Dim(bias, 0), Dim(y, 1))
    if groups == 1:
        yield Filters(Dim(weight, out_axis))
        yield Couple(Dim(weight, out_axis), Dim(y, 1))
        yield Couple(Dim(weight, 1 - out_axis), Dim(x, 1))
        yield Sums(Dim(x, 1))
    elif (shape[1] == 1 and view.flexible(Dim(x, 1))) or shape[2] == 1:
        yield from _whole_groups(node, weight, out_axis, shape)
    else:
        yield from _same_place_in_each_group(node, weight, out_axis, shape)


def _whole_groups(
    node: Node, weight: str, out_axis: int, shape: tuple[int, int, int]
) -> Iterator[Fact]:
    """A group with one input or one output goes as a whole, so there are fewer groups.

    This is depthwise convolution, with or without a multiplier, and its mirror
    image, many inputs to one output.
    """
    groups, inputs, outputs = shape
    x, y = Dim(node.inputs[0], 1), Dim(node.outputs[0], 1)
    yield Filters(Dim(weight, 0))
    yield Couple(Dim(weight, 0), y if out_axis == 0 else x)
    if outputs == 1:
        yield Couple(x, y, np.arange(groups * inputs), np.repeat(np.arange(groups), inputs))
    else:
        yield Couple(x, y, np.repeat(np.arange(groups), outputs), np.arange(groups * outputs))
    # Either way one side has exactly one channel a group, and its length is the count.
    yield Sized("groups", y if outputs == 1 else x)


def _same_place_in_each_group(
    node: Node, weight: str, out_axis: int, shape: tuple[int, int, int]
) -> Iterator[Fact]:
    """The number of groups stays; it has to where the input does.

    All groups share one axis of the weight, so what goes from one group goes from
    the same place of each. The other axis has rows of its own for every group, and
    only the number that goes has to agree.
    """
    groups, inputs, outputs = shape
    x, y = Dim(node.inputs[0], 1), Dim(node.outputs[0], 1)
    own_rows, shared, length = (y, x, inputs) if out_axis == 0 else (x, y, outputs)
    yield Filters(Dim(weight, out_axis))
    yield Couple(Dim(weight, 0), own_rows)
    yield Balance(Dim(weight, 0), groups)
    yield Couple(Dim(weight, 1), shared, np.tile(np.arange(length), groups), None)
    yield Sums(x)


@rule("einsum")
def einsum(node: Node, view: View) -> Iterator[Fact]:
    """Axes with one letter are one axis; a letter that does not reach the output is summed over.

    A sum is exact where one factor is a stored weight, for that has zeros where it is cut.
    """
    terms, target = node.attrs["equation"].split("->")
    # A list, for one tensor may be several operands.
    operands = list(zip(node.inputs, terms.split(","), strict=True))
    (y,) = node.outputs
    first: dict[str, Dim] = {}
    for tensor, letters in operands:
        for axis, letter in enumerate(letters):
            dim = Dim(tensor, axis)
            if letters.count(letter) > 1:
                yield Freeze(dim, because=f"{node} reads a diagonal")
                if letters.index(letter) < axis:
                    continue
            if view.shape(tensor)[axis] == 1 and _length(letter, operands, view) > 1:
                yield from _stretched(node, dim, view)
                continue
            if letter in first:
                yield Couple(first[letter], dim)
            elif letter in target:
                yield Couple(dim, Dim(y, target.index(letter)))
            elif letters.count(letter) == 1:
                yield Sums(dim) if _weighed(letter, operands, view) else Mixes(dim)
            first.setdefault(letter, dim)
            if letter in target and view.is_param(tensor) and _holders(letter, operands) == 1:
                yield Filters(dim)


Operands = list[tuple[str, str]]


def _length(letter: str, operands: Operands, view: View) -> int:
    return max(
        view.shape(tensor)[axis]
        for tensor, letters in operands
        for axis, other in enumerate(letters)
        if other == letter
    )


def _holders(letter: str, operands: Operands) -> int:
    return sum(letter in letters for _, letters in operands)


def _weighed(letter: str, operands: Operands, view: View) -> bool:
    """Tell whether a weight takes part in the sum over `letter`: its zeros blind the others."""
    stored = any(letter in letters and view.is_param(tensor) for tensor, letters in operands)
    return stored and _holders(letter, operands) > 1


def _stretched(node: Node, dim: Dim, view: View) -> Iterator[Fact]:
    if view.flexible(dim):
        yield Freeze(dim, because=f"{node} stretches a single channel over many")


@rule("embedding")
def embedding(node: Node, view: View) -> Iterator[Fact]:
    """y[.., c] = w[x[..], c]"""
    (x,), (y,) = node.inputs, node.outputs
    weight = node.params["weight"]
    rank = len(view.shape(x))
    yield Freeze(Dim(weight, 0), because=f"{node} looks rows up by number")
    yield Filters(Dim(weight, 1))
    yield Couple(Dim(weight, 1), Dim(y, rank))
    for axis in range(rank):
        yield Couple(Dim(x, axis), Dim(y, axis))

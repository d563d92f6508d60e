"""Rewrite the numbers in an exported graph that a cut makes wrong."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import fx

from prunus.backends.torch.lower import operator_of
from prunus.backends.torch.vocabulary import SPLITS, arguments
from prunus.core.cut.cut import Resize

__all__ = ["Rewritten", "resizes_by_operator", "rewritten"]

Rewritten = tuple[Any, tuple[Any, ...], dict[str, Any]]
"""The operator to call, and its arguments."""


def resizes_by_operator(resizes: Iterable[Resize]) -> dict[str, list[Resize]]:
    """Return the changed numbers under the name of the framework's node that holds them."""
    found: dict[str, list[Resize]] = defaultdict(list)
    for resize in resizes:
        found[resize.node.name.split("/")[0]].append(resize)
    return dict(found)


def rewritten(node: fx.Node, resizes: Sequence[Resize]) -> Rewritten | None:
    """Return the call of `node` with the new numbers; None where it holds none."""
    name = operator_of(node).rstrip("_")
    if resizes and name in SPLITS:
        return _split(node, resizes)
    rewrite = _REWRITES.get(name)
    if rewrite is None or not resizes:
        return None
    changes = rewrite(arguments(node), resizes)
    if not changes:
        return None
    positions = [argument.name for argument in node.target._schema.arguments]  # type: ignore[union-attr]
    args = list(node.args)
    kwargs = dict(node.kwargs)
    for name, value in changes.items():
        place = positions.index(name)
        if place < len(args):
            args[place] = value
        else:
            kwargs[name] = value
    return node.target, tuple(args), kwargs


def _listed(
    name: str, attr: str
) -> Callable[[Mapping[str, Any], Sequence[Resize]], dict[str, Any]]:
    """The argument `name` is the list that the neutral node calls `attr`."""

    def rewrite(given: Mapping[str, Any], resizes: Sequence[Resize]) -> dict[str, Any]:
        numbers = list(given[name])
        for resize in resizes:
            if resize.attr != attr or resize.position is None:
                continue
            # A symbolic length, or -1 for "the rest", comes out right by itself.
            if isinstance(numbers[resize.position], int) and numbers[resize.position] != -1:
                numbers[resize.position] = resize.new
        return {name: numbers}

    return rewrite


def _single(
    name: str, attr: str
) -> Callable[[Mapping[str, Any], Sequence[Resize]], dict[str, Any]]:
    """The argument `name` is the one number that the neutral node calls `attr`."""

    def rewrite(_: Mapping[str, Any], resizes: Sequence[Resize]) -> dict[str, Any]:
        found = [resize.new for resize in resizes if resize.attr == attr]
        return {name: found[-1]} if found else {}

    return rewrite


def _slice(given: Mapping[str, Any], resizes: Sequence[Resize]) -> dict[str, Any]:
    new = {resize.attr: resize.new for resize in resizes}
    changes = {}
    for attr, name in (("start", "start"), ("stop", "end")):
        if attr in new and given[name] is not None:
            from_end = attr in resizes[0].node.attrs["from_end"]
            # Counted from behind, no channel is not -0, which would be the front.
            changes[name] = (-new[attr] or sys.maxsize) if from_end else new[attr]
    return changes


def _narrow(given: Mapping[str, Any], resizes: Sequence[Resize]) -> dict[str, Any]:
    new = {resize.attr: resize.new for resize in resizes}
    attrs = resizes[0].node.attrs
    start = new.get("start", attrs["start"])
    length = new.get("stop", attrs["stop"]) - start
    return {"start": start if isinstance(given["start"], int) else given["start"], "length": length}


def _split(node: fx.Node, resizes: Sequence[Resize]) -> Rewritten:
    """A number of parts, or one width for all, may describe no cut: the new sizes always do."""
    attrs = resizes[0].node.attrs
    sizes = list(attrs["sizes"])
    for resize in resizes:
        if resize.attr == "sizes" and resize.position is not None:
            sizes[resize.position] = resize.new
    return torch.ops.aten.split_with_sizes.default, (node.args[0], sizes, attrs["axis"]), {}


def _unflatten(given: Mapping[str, Any], resizes: Sequence[Resize]) -> dict[str, Any]:
    rank = max(resize.position or 0 for resize in resizes) + 1
    first = given["dim"] if given["dim"] >= 0 else rank - len(given["sizes"]) + given["dim"] + 1
    sizes = list(given["sizes"])
    for resize in resizes:
        place = (resize.position or 0) - first
        if 0 <= place < len(sizes) and isinstance(sizes[place], int) and sizes[place] != -1:
            sizes[place] = resize.new
    return {"sizes": sizes}


_REWRITES: dict[str, Callable[[Mapping[str, Any], Sequence[Resize]], dict[str, Any]]] = {
    **dict.fromkeys(("view", "_unsafe_view", "expand", "broadcast_to"), _listed("size", "shape")),
    "reshape": _listed("shape", "shape"),
    **dict.fromkeys(
        ("zeros", "ones", "full", "empty", "rand", "randn", "new_zeros", "new_ones", "new_full",
         "new_empty"), _listed("size", "shape")
    ),
    "unflatten": _unflatten,
    "slice": _slice,
    "narrow": _narrow,
    "slice_scatter": _slice,
    "layer_norm": _listed("normalized_shape", "normalized_shape"),
    "rms_norm": _listed("normalized_shape", "normalized_shape"),
    "native_layer_norm": _listed("normalized_shape", "normalized_shape"),
    "group_norm": _single("num_groups", "groups"),
    **dict.fromkeys(
        ("conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d",
         "convolution"), _single("groups", "groups")
    ),
}  # fmt: skip

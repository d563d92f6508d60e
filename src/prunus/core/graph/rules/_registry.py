"""The one table from op name to propagation rule."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

from prunus.core.errors import RegistryError
from prunus.core.graph.facts import Couple, Fact, Freeze, Index
from prunus.core.graph.ir import Dim, Node

__all__ = [
    "Rule",
    "Rules",
    "View",
    "default_rules",
    "facts_of",
    "identity",
    "registered_ops",
    "rule",
]


class View(Protocol):
    """What a rule may ask about the tensors around its node."""

    def shape(self, tensor: str) -> tuple[int, ...]:
        """Return the shape of `tensor`."""
        ...

    def is_param(self, tensor: str) -> bool:
        """Tell whether `tensor` is a stored weight or buffer."""
        ...

    def is_weight(self, tensor: str) -> bool:
        """Tell whether `tensor` is stored, or computed from stored tensors alone."""
        ...

    def flexible(self, dim: Dim) -> bool:
        """Tell whether an axis that enters the node is made of channels that may go.

        Spatial axes, token axes and the batch are not; they need no fact.
        """
        ...

    def atoms_of(self, dim: Dim) -> Index:
        """Return a number for each index of a flexible axis: equal ones are one channel already."""
        ...


Rule = Callable[[Node, View], Iterator[Fact]]
Rules = Mapping[str, Rule]

_RULES: dict[str, Rule] = {}


def rule(*ops: str) -> Callable[[Rule], Rule]:
    """Register the decorated function as the propagation rule of `ops`."""

    def register(function: Rule) -> Rule:
        for op in ops:
            if op in _RULES:
                raise RegistryError(
                    f"op {op!r} already has a rule: {_RULES[op].__module__}.{_RULES[op].__name__}",
                    fix="extend that rule, or have the backend's `trace` name the new op apart",
                )
            _RULES[op] = function
        return function

    return register


def registered_ops() -> list[str]:
    """Return every op that has a rule, sorted."""
    return sorted(_RULES)


def default_rules() -> Rules:
    """Return a copy of the table, to be joined with one's own: `{**default_rules(), ...}`."""
    return dict(_RULES)


def facts_of(node: Node, view: View, rules: Rules | None = None) -> Iterator[Fact]:
    """Yield what is known about the axes around `node`.

    An op without a rule freezes every axis it reads, and what it writes keeps its
    shape: to prune less than we could is a missed saving, to prune across an op we
    do not know is a wrong model.
    """
    known = (_RULES if rules is None else rules).get(node.op)
    if known is not None:
        yield from known(node, view)
        return
    for tensor in node.reads():
        for axis in range(len(view.shape(tensor))):
            yield Freeze(Dim(tensor, axis), because=f"operator {node.op!r} has no rule")


def identity(a: str, b: str, rank: int, *, skip: tuple[int, ...] = ()) -> Iterator[Couple]:
    """Couple each axis of `a` with the same axis of `b`, except those in `skip`."""
    for axis in range(rank):
        if axis not in skip:
            yield Couple(Dim(a, axis), Dim(b, axis))

"""One cut of a program: the steps that have to run again, on really smaller weights.

What a cut leaves as it was (`core/engine/reach.py`) is taken from the original's run,
without the channels that went. Only the steps behind that are run, with the numbers
in them that the cut changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import fx

from prunus.backends.torch.lower import operator_of
from prunus.backends.torch.numbers import resizes_by_operator, rewritten
from prunus.backends.torch.program import Program, Step
from prunus.core.cut.cut import Cut, Resize
from prunus.core.engine.reach import changed
from prunus.core.graph.ir import Dim

__all__ = ["Kept", "Variant", "variant_of"]

Kept = Mapping[int, torch.Tensor]
"""Axis to the indices that stay."""


@dataclass(frozen=True, eq=False)
class Variant:
    """What to run for one cut."""

    steps: tuple[Step, ...]
    reads: Mapping[str, Kept]
    """What it takes from the original's run, and what of it stays."""
    weights: Mapping[str, Kept]
    """The weights of these steps that shrink."""
    due: int
    """After how many of the program's steps all that it reads is there."""
    drops: tuple[tuple[str, ...], ...] = field(default=())
    """For each step: what nobody reads after it."""

    def run(self, program: Program, made: Mapping[str, Any], weights: Mapping[str, Any]) -> Any:
        """Return the cut model's output; `made` is what the original's run has made so far."""
        values = {name: smaller(made[name], kept) for name, kept in self.reads.items()}
        for step, drops in zip(self.steps, self.drops, strict=True):
            values[step.name] = step(values, weights)
            for name in drops:
                del values[name]
        return program.result(values)


def smaller(value: Any, kept: Kept) -> Any:
    """Return what stays of a value."""
    for axis, index in kept.items():
        value = _channels(value, index) if axis == 1 else value.index_select(axis, index)
    return value


def _channels(value: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """Return some channels, in the memory order that the tensor has.

    `index_select` brings pictures whose channels lie last into the other order, which
    takes longer than a convolution, and every later operator follows.
    """
    last = torch.channels_last
    if value.ndim != 4 or value.is_contiguous() or not value.is_contiguous(memory_format=last):
        return value.index_select(1, index)
    pixels = value.permute(0, 2, 3, 1)
    places = index.expand(*pixels.shape[:3], len(index))
    return pixels.gather(3, places).permute(0, 3, 1, 2)


def variant_of(program: Program, cut: Cut) -> Variant:
    """Return what to run again for `cut`, which is of the graph that the program runs."""
    again = _again(program, changed(cut.channels, cut.gone))
    resizes = resizes_by_operator(cut.resizes)
    steps = tuple(_resized(program.steps[k], resizes) for k in again)
    made = {step.name for step in steps}
    wanted = {name for step in steps for name in step.values} | program.results()
    where = {step.name: k + 1 for k, step in enumerate(program.steps)}
    reads = sorted(wanted - made, key=lambda name: where.get(name, 0))
    tensors = {step.name: step.tensor for step in program.steps} | {k: k for k in program.inputs}
    used = {name for step in steps for name in step.weights}
    return Variant(
        steps,
        {name: _kept(cut, [Dim(tensors[name], axis) for axis in range(8)]) for name in reads},
        {name: kept for name in sorted(used) if (kept := _kept(cut, program.dims[name]))},
        max((where.get(name, 0) for name in reads), default=0),
        _drops(steps, program.results()),
    )


def _again(program: Program, names: frozenset[str]) -> list[int]:
    """Return the positions of the steps that make something changed, or read such."""
    found: list[int] = []
    dirty: set[str] = set()
    several = {name.rsplit(".", 1)[0] for name in names}
    for k, step in enumerate(program.steps):
        own = step.tensor in names or step.name in several
        if own or not dirty.isdisjoint(step.values):
            dirty.add(step.name)
            found.append(k)
    return found


def _resized(step: Step, resizes: Mapping[str, Sequence[Resize]]) -> Step:
    """Return the step with the numbers that the cut gives its first operator."""
    node = step.operators[0]
    new = rewritten(node, resizes.get(node.name, []))
    if new is None:
        return step
    target, args, kwargs = new
    known = _names(node, step)

    def read(argument: Any) -> Any:
        if isinstance(argument, fx.Node):
            return known[argument]
        if isinstance(argument, list | tuple):
            return tuple(read(one) for one in argument)
        return argument

    run = step.run if target is node.target else target
    if step.args or len(step.operators) == 1 or operator_of(node) not in _NAMED:
        return replace(
            step, run=run, args=tuple(map(read, args)),
            kwargs={key: read(one) for key, one in kwargs.items()},
        )  # fmt: skip
    # A folded convolution is called by names, and only its count of groups can change.
    names = [one.name for one in node.target._schema.arguments]  # type: ignore[union-attr]
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    return replace(step, kwargs={**step.kwargs, "groups": given["groups"]})


_NAMED = frozenset({"conv1d", "conv2d", "conv3d"})


def _names(node: fx.Node, step: Step) -> dict[fx.Node, Any]:
    """Return what each node among the arguments is to the step."""
    found: dict[fx.Node, Any] = {}

    def pair(argument: Any, own: Any) -> None:
        if isinstance(argument, fx.Node):
            found[argument] = own
        elif isinstance(argument, list | tuple):
            for one, other in zip(argument, own, strict=True):
                pair(one, other)

    if step.args or not step.kwargs or len(step.operators) == 1:
        pair(node.args, step.args)
        for key, argument in node.kwargs.items():
            pair(argument, step.kwargs[key])
    else:
        names = [one.name for one in node.target._schema.arguments]  # type: ignore[union-attr]
        for name, argument in {**dict(zip(names, node.args, strict=False)), **node.kwargs}.items():
            pair(argument, step.kwargs[name])
    return found


def _kept(cut: Cut, dims: Sequence[Dim | None]) -> dict[int, torch.Tensor]:
    found = {}
    for axis, dim in enumerate(dims):
        sets = cut.channels.sets.get(dim) if dim is not None else None
        if sets is not None and cut.gone[sets].any():
            found[axis] = torch.from_numpy((~cut.gone[sets]).nonzero()[0])
    return found


def _drops(steps: Sequence[Step], results: frozenset[str]) -> tuple[tuple[str, ...], ...]:
    """Return, for each step, what no later one reads."""
    seen = set(results)
    found: list[tuple[str, ...]] = []
    for step in reversed(steps):
        reads = step.values | {step.name}
        found.append(tuple(sorted(reads - seen)))
        seen |= reads
    return tuple(reversed(found))

"""A cut: what goes from which weight, and which numbers in the graph change with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from prunus.core.cut.counts import achieved, portions
from prunus.core.graph.channels import Channels
from prunus.core.graph.facts import Index
from prunus.core.graph.groups import Groups
from prunus.core.graph.ir import Dim, Node
from prunus.core.scores.criteria import Array

__all__ = ["Achieved", "Cut", "Resize", "cut_of", "make_cut"]


@dataclass(frozen=True, slots=True)
class Achieved:
    """What became of one group's ratio."""

    group: str
    size: int
    asked: float
    removed: int

    @property
    def ratio(self) -> float:
        """Return the share that really went."""
        return self.removed / self.size


@dataclass(frozen=True, slots=True)
class Resize:
    """A number held by a node that is another number after the cut."""

    node: Node
    attr: str
    position: int | None
    old: int
    new: int


@dataclass(frozen=True, eq=False)
class Cut:
    """Everything an edit needs to know, without a framework."""

    channels: Channels
    gone: NDArray[np.bool_]
    """Marks the channel sets that go."""
    removed: Mapping[Dim, Index]
    """For every axis of every weight and buffer that shrinks: the indices that go."""
    resizes: tuple[Resize, ...]
    achieved: tuple[Achieved, ...]
    parts: Mapping[str, NDArray[np.bool_]]
    """What goes of each group, by its name."""

    @property
    def mixes(self) -> tuple[Node, ...]:
        """Return the nodes that reduce or normalise over an axis that shrinks."""
        found = {
            node.name: node
            for node, dim in self.channels.mixes
            if self.gone[self.channels.sets[dim]].any() and not node.aside
        }
        return tuple(found.values())

    def by_name(self) -> dict[str, dict[int, tuple[int, ...]]]:
        """Return the removed indices as {weight: {axis: indices}}."""
        found: dict[str, dict[int, tuple[int, ...]]] = {}
        for dim, lost in self.removed.items():
            found.setdefault(dim.tensor, {})[dim.axis] = tuple(lost.tolist())
        return found


def make_cut(
    groups: Groups, ratios: Sequence[float], scores: Mapping[int, Array], align: int = 1
) -> Cut:
    """Choose the channels with the smallest scores; `scores` has an entry a group that is cut."""
    found = portions(groups, ratios, align)
    gone = np.zeros(groups.channels.count, bool)
    for portion in found:
        if portion.count:
            order = np.argsort(scores[portion.group][portion.members], kind="stable")
            chosen = portion.members[order[: portion.count]]
            gone[groups.groups[portion.group].sets[chosen]] = True
    counts = achieved(found, len(groups.groups))
    parts = {}
    for group in groups.groups:
        own = np.zeros_like(gone)
        own[group.sets] = gone[group.sets]
        if own.any():
            parts[group.name] = own
    summary = tuple(
        Achieved(group.name, group.size, ratios[k], counts[k])
        for k, group in enumerate(groups.groups)
        if ratios[k] or counts[k]
    )
    return cut_of(groups.channels, gone, summary, parts)


def cut_of(
    channels: Channels,
    gone: NDArray[np.bool_],
    summary: tuple[Achieved, ...] = (),
    parts: Mapping[str, NDArray[np.bool_]] | None = None,
) -> Cut:
    """Return the cut that takes away the channel sets marked in `gone`."""
    removed = {}
    for dim in channels.sets:
        if channels.graph.is_param(dim.tensor):
            lost = channels.lost(dim, gone)
            if len(lost):
                removed[dim] = lost
    return Cut(channels, gone, removed, _resizes(channels, gone), summary, parts or {})


def _resizes(channels: Channels, gone: NDArray[np.bool_]) -> tuple[Resize, ...]:
    found = []
    for at in channels.sized:
        sets = channels.sets.get(at.fact.dim)
        if sets is None:
            continue
        sets = sets if at.fact.index is None else sets[at.fact.index]
        lost = int(gone[sets].sum())
        if lost:
            found.append(
                Resize(at.node, at.fact.attr, at.fact.position, len(sets), len(sets) - lost)
            )
    return tuple(found)

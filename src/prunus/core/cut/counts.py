"""How many channels of each group go: ratios, rounded, balanced and aligned.

Groups that no `Balance` touches are rounded by themselves. The others are solved
together, as a small integer programme: the same number from each run of every
balanced axis, as near as possible to what was asked. Where nothing can go that way,
only the balances that an operator needs are kept.

What the graph says about that is here; the arithmetic, which needs no graph, is in
`prunus.core.cut.rounding`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from prunus.core.cut.rounding import Axis, Cluster, Part, Rounding, asked_count
from prunus.core.graph.facts import Index
from prunus.core.graph.groups import Group, Groups

__all__ = ["Portion", "achieved", "asked_count", "portions", "rounding_of"]


@dataclass(frozen=True, eq=False)
class Portion:
    """Channels of one group that sit alike in every balanced axis, and how many of them go."""

    group: int
    members: Index
    """Positions in the group's `sets`."""
    count: int


@dataclass(frozen=True, eq=False)
class _Balanced:
    """One balanced axis: how often each channel set occurs in each of its runs."""

    sets: Index
    runs: Index
    length: int
    count: int
    firm: bool


_Classes = list[tuple[int, Index]]
"""Groups, and members of them that occur alike in every run of every balanced axis."""


def portions(groups: Groups, ratios: Sequence[float], align: int = 1) -> list[Portion]:
    """Return how many channels go from each part of each group, for one ratio a group."""
    rounding, members = rounding_of(groups)
    counts = rounding.counts(ratios, align)
    return [
        Portion(part.group, own, count)
        for part, own, count in zip(rounding.parts, members, counts, strict=True)
    ]


def rounding_of(groups: Groups) -> tuple[Rounding, list[Index]]:
    """Return what the counts of any ratios follow from, and the members of each of its parts."""
    balanced = _balances(groups)
    owner = np.full(groups.channels.count, -1, np.intp)
    for k, group in enumerate(groups.groups):
        owner[group.sets] = k
    owners = [set(np.unique(owner[axis.sets]).tolist()) - {-1} for axis in balanced]
    touched = set().union(*owners)
    classes: _Classes = [
        (k, np.arange(group.size)) for k, group in enumerate(groups.groups) if k not in touched
    ]
    clusters = []
    for cluster in _clusters(owners, touched):
        axes = [
            axis for axis, own in zip(balanced, owners, strict=True) if not own.isdisjoint(cluster)
        ]
        own_classes = _classes(groups, cluster, axes)
        places = tuple(range(len(classes), len(classes) + len(own_classes)))
        described = tuple(_axis(groups, own_classes, axis, owner) for axis in axes)
        clusters.append(Cluster(places, described))
        classes += own_classes
    rounding = Rounding(
        tuple(group.size for group in groups.groups),
        tuple(_filters_each(group) for group in groups.groups),
        tuple(Part(k, len(members)) for k, members in classes),
        tuple(clusters),
    )
    return rounding, [members for _, members in classes]


def _balances(groups: Groups) -> list[_Balanced]:
    """Return the balanced axes that really constrain something, each once."""
    found: dict[bytes, _Balanced] = {}
    channels = groups.channels
    for _, fact in channels.balances:
        sets = channels.sets.get(fact.dim)
        if sets is None:
            continue
        length = len(sets) // fact.runs
        rows = np.sort(sets.reshape(fact.runs, length), axis=1)
        if (rows == rows[0]).all():
            continue  # what goes from one run goes from all
        runs = np.repeat(np.arange(fact.runs), length)
        key = rows.tobytes() + str(rows.shape).encode()
        firm = fact.firm or (key in found and found[key].firm)
        found[key] = _Balanced(sets, runs, length, fact.runs, firm)
    return list(found.values())


def _clusters(owners: Sequence[set[int]], touched: set[int]) -> list[list[int]]:
    """Return the groups that balanced axes tie together."""
    parent = {k: k for k in touched}

    def root(k: int) -> int:
        while parent[k] != k:
            k = parent[k]
        return k

    for own in owners:
        members = sorted(own)
        for other in members[1:]:
            parent[root(other)] = root(members[0])
    clusters: dict[int, list[int]] = {}
    for k in sorted(touched):
        clusters.setdefault(root(k), []).append(k)
    return list(clusters.values())


def _classes(groups: Groups, cluster: Sequence[int], axes: Sequence[_Balanced]) -> _Classes:
    """Return the parts of each group whose channels occur alike in every run of every axis."""
    code = np.zeros(groups.channels.count, np.uint64)
    random = np.random.default_rng(0)
    for axis in axes:
        numbers = random.integers(1 << 63, size=axis.count, dtype=np.uint64)
        np.add.at(code, axis.sets, numbers[axis.runs])
    found = []
    for k in cluster:
        codes = code[groups.groups[k].sets]
        for one in np.unique(codes):
            found.append((k, np.flatnonzero(codes == one)))
    return found


def _axis(groups: Groups, classes: _Classes, axis: _Balanced, owner: Index) -> Axis:
    lost = _per_run(groups, classes, axis)
    closed = bool((owner[axis.sets] >= 0).all())
    return Axis(axis.length, axis.firm, closed, tuple(map(tuple, lost.tolist())))


def _per_run(groups: Groups, classes: _Classes, axis: _Balanced) -> NDArray[np.float64]:
    """Return how many places of each run go with one channel of each class."""
    class_of = np.full(groups.channels.count, -1, np.intp)
    for place, (k, members) in enumerate(classes):
        class_of[groups.groups[k].sets[members]] = place
    own = class_of[axis.sets] >= 0
    table = np.zeros((axis.count, len(classes)))
    np.add.at(table, (axis.runs[own], class_of[axis.sets[own]]), 1.0)
    # All members of a class occur alike, so each has its share of what was counted.
    shares: NDArray[np.float64] = table / [len(members) for _, members in classes]
    return shares


def _filters_each(group: Group) -> tuple[int, ...]:
    """Return how many filters of each weight one channel is."""
    found = {
        max(1, int(np.isin(group.channels.sets[dim], group.sets).sum()) // group.size)
        for dim in group.filters
    }
    return tuple(sorted(found))


def achieved(found: Sequence[Portion], size: int) -> Mapping[int, int]:
    """Return how many channels go from each of `size` groups."""
    total = dict.fromkeys(range(size), 0)
    for portion in found:
        total[portion.group] += portion.count
    return total

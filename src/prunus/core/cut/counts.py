"""How many channels of each group go: ratios, rounded, balanced and aligned.

Groups that no `Balance` touches are rounded by themselves. The others are solved
together, as a small integer programme: the same number from each run of every
balanced axis, as near as possible to what was asked. Where nothing can go that way,
only the balances that an operator needs are kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from prunus.core.cut.programme import Programme
from prunus.core.graph.facts import Index
from prunus.core.graph.groups import Group, Groups

__all__ = ["Portion", "achieved", "asked_count", "portions"]

# Prices of one channel, where one that is missing from what was asked costs 1.
_UNASKED = 1e-2
_UNEVEN = 1e-3
_FEWER = 1e-6


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


def asked_count(size: int, ratio: float) -> int:
    """Return how many of `size` channels a ratio stands for; one always stays."""
    return max(0, min(size - 1, round(size * ratio)))


def portions(groups: Groups, ratios: Sequence[float], align: int = 1) -> list[Portion]:
    """Return how many channels go from each part of each group, for one ratio a group."""
    balanced = _balances(groups)
    owner = np.full(groups.channels.count, -1, np.intp)
    for k, group in enumerate(groups.groups):
        owner[group.sets] = k
    touched: set[int] = set()
    for axis in balanced:
        touched.update(np.unique(owner[axis.sets]).tolist())
    done = []
    for k, group in enumerate(groups.groups):
        if k not in touched:
            count = _aligned(group, asked_count(group.size, ratios[k]), align)
            done.append(Portion(k, np.arange(group.size), count))
    touched.discard(-1)
    for cluster in _clusters(balanced, owner, touched):
        done += _solve(groups, ratios, align, cluster, balanced, owner)
    return done


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


def _clusters(balanced: Sequence[_Balanced], owner: Index, touched: set[int]) -> list[list[int]]:
    """Return the groups that balanced axes tie together."""
    parent = {k: k for k in touched}

    def root(k: int) -> int:
        while parent[k] != k:
            k = parent[k]
        return k

    for axis in balanced:
        members = [k for k in np.unique(owner[axis.sets]).tolist() if k >= 0]
        for other in members[1:]:
            parent[root(other)] = root(members[0])
    clusters: dict[int, list[int]] = {}
    for k in sorted(touched):
        clusters.setdefault(root(k), []).append(k)
    return list(clusters.values())


def _solve(
    groups: Groups,
    ratios: Sequence[float],
    align: int,
    cluster: Sequence[int],
    balanced: Sequence[_Balanced],
    owner: Index,
) -> list[Portion]:
    inside = set(cluster)
    axes = [axis for axis in balanced if inside & set(np.unique(owner[axis.sets]).tolist()) - {-1}]
    classes = _classes(groups, cluster, axes)
    if not any(ratios[k] for k in cluster):
        return [Portion(k, members, 0) for k, members in classes]
    counts = _even_share(groups, ratios, align, classes, axes, owner)
    counts = counts or _programme(groups, ratios, align, classes, axes)
    if not any(counts):
        counts = _programme(groups, ratios, align, classes, axes, firm_only=True)
    return [Portion(k, members, count) for (k, members), count in zip(classes, counts, strict=True)]


def _even_share(
    groups: Groups,
    ratios: Sequence[float],
    align: int,
    classes: Sequence[tuple[int, Index]],
    axes: Sequence[_Balanced],
    owner: Index,
) -> list[int]:
    """Return the same count for all classes, where that is exactly what was asked; or nothing.

    The same number of each of several alike parts is balanced, whatever the axes are.
    """
    sizes = {len(members) for _, members in classes}
    alike = len(sizes) == 1 and len({ratios[k] for k, _ in classes}) == 1
    if align > 1 or not alike or any((owner[axis.sets] < 0).any() for axis in axes):
        return []
    count = asked_count(min(sizes), ratios[classes[0][0]])
    for k in {k for k, _ in classes}:
        mine = sum(other == k for other, _ in classes)
        if mine * count != asked_count(groups.groups[k].size, ratios[k]):
            return []
    return [count] * len(classes)


def _classes(
    groups: Groups, cluster: Sequence[int], axes: Sequence[_Balanced]
) -> list[tuple[int, Index]]:
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


def _programme(
    groups: Groups,
    ratios: Sequence[float],
    align: int,
    classes: Sequence[tuple[int, Index]],
    axes: Sequence[_Balanced],
    *,
    firm_only: bool = False,
) -> list[int]:
    """Minimise the distance to what was asked, over the whole numbers that balance.

    A group that nobody asked for follows the others, at a small price; so does evenness
    between the classes of a group; and of two counts that are as near, the smaller wins.
    """
    programme = Programme()
    counts = [
        programme.variable(price=_FEWER, most=len(members), whole=True) for _, members in classes
    ]
    for axis in axes:
        _balance(programme, counts, axis, _per_run(groups, classes, axis), firm_only)
    for k in sorted({k for k, _ in classes}):
        own = {
            variable: len(members)
            for variable, (g, members) in zip(counts, classes, strict=True)
            if g == k
        }
        _ask(programme, groups.groups[k], own, ratios[k], align)
    best = programme.solve()
    if best is not None:
        return [round(value) for value in best[: len(classes)]]
    if align == 1:
        return [0] * len(classes)
    # Nothing aligned is also balanced: balance comes first.
    return _programme(groups, ratios, 1, classes, axes, firm_only=firm_only)


def _balance(
    programme: Programme,
    counts: Sequence[int],
    axis: _Balanced,
    per_run: NDArray[np.float64],
    firm_only: bool,
) -> None:
    """Have each run of the axis keep one, and all lose the same number."""
    equal = axis.firm or not firm_only
    for run, lost in enumerate(per_run):
        if run == 0 or not equal:
            programme.constrain(_terms(counts, lost), 0, axis.length - 1)
        else:
            programme.constrain(_terms(counts, lost - per_run[0]), 0, 0)


def _terms(counts: Sequence[int], factors: NDArray[np.float64]) -> dict[int, float]:
    return {counts[k]: float(factors[k]) for k in np.flatnonzero(factors).tolist()}


def _ask(
    programme: Programme, group: Group, own: Mapping[int, int], ratio: float, align: int
) -> None:
    """Ask for the ratio of one group; `own` are its classes: variable to size."""
    asked = asked_count(group.size, ratio)
    together = dict.fromkeys(own, 1.0)
    programme.constrain(together, 0, group.size - 1)
    programme.near(together, asked, 1.0 if ratio else _UNASKED)
    for variable, size in own.items():
        programme.near({variable: 1.0}, asked * size / group.size, _UNEVEN)
    unit = _unit(group, align)
    if align > 1 and unit <= group.size:
        kept = programme.variable(whole=True)  # in units
        programme.constrain({**together, kept: float(unit)}, group.size, group.size)


def _per_run(
    groups: Groups, classes: Sequence[tuple[int, Index]], axis: _Balanced
) -> NDArray[np.float64]:
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


def _unit(group: Group, align: int) -> int:
    """Return the step in channels that keeps every filter axis a multiple of `align`."""
    unit = 1
    for dim in group.filters:
        each = max(1, int(np.isin(group.channels.sets[dim], group.sets).sum()) // group.size)
        unit = int(np.lcm(unit, align // np.gcd(align, each)))
    return unit


def _aligned(group: Group, count: int, align: int) -> int:
    """Move `count` to the nearest number that leaves a multiple of `align`; 0 where none does."""
    if align == 1 or count == 0:
        return count
    unit = _unit(group, align)
    kept = max(unit, round((group.size - count) / unit) * unit)
    return max(0, group.size - kept)


def achieved(found: Sequence[Portion], size: int) -> Mapping[int, int]:
    """Return how many channels go from each of `size` groups."""
    total = dict.fromkeys(range(size), 0)
    for portion in found:
        total[portion.group] += portion.count
    return total

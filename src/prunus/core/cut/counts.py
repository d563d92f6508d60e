"""How many channels of each group go: ratios, rounded, balanced and aligned.

Groups that no `Balance` touches are rounded by themselves. The others are solved
together, as a small integer programme: the same number from each run of every
balanced axis, as near as possible to what was asked. Where nothing can go that way,
only the balances that an operator needs are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from prunus.core.graph.facts import Index
from prunus.core.graph.groups import Group, Groups

__all__ = ["Portion", "achieved", "asked_count", "portions"]


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
    sizes = {len(members) for _, members in classes}
    whole = all((owner[axis.sets] >= 0).all() for axis in axes)
    if len(sizes) == 1 and whole and align == 1 and len({ratios[k] for k in cluster}) == 1:
        (size,) = sizes
        if size > 1:
            # The same share of alike parts is balanced, whatever the axes are.
            count = asked_count(size, ratios[cluster[0]])
            return [Portion(k, members, count) for k, members in classes]
    counts = _programme(groups, ratios, align, classes, axes)
    if not any(counts):
        firm = [axis for axis in axes if axis.firm]
        counts = _programme(groups, ratios, align, classes, firm)
    return [Portion(k, members, count) for (k, members), count in zip(classes, counts, strict=True)]


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
) -> list[int]:
    """Minimise the distance to what was asked, over the whole numbers that balance.

    Variables: one count a class, then one distance a class and one a group. A group
    that nobody asked for follows the others, at a small price; so does evenness
    between the classes of a group.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp

    cluster = sorted({k for k, _ in classes})
    many, few = len(classes), len(cluster)
    total = many + many + few + (few if align > 1 else 0)
    rows: list[NDArray[np.float64]] = []
    low: list[float] = []
    high: list[float] = []

    def constrain(row: NDArray[np.float64], least: float, most: float) -> None:
        rows.append(row)
        low.append(least)
        high.append(most)

    for axis in axes:
        per_run = _per_run(groups, classes, axis)
        for run in range(1, axis.count):
            row = np.zeros(total)
            row[:many] = per_run[run] - per_run[0]
            constrain(row, 0, 0)
        row = np.zeros(total)
        row[:many] = per_run[0]
        constrain(row, 0, axis.length - 1)  # each run keeps one
    price = np.zeros(total)
    for place, (k, members) in enumerate(classes):
        share = asked_count(groups.groups[k].size, ratios[k]) * len(members) / groups.groups[k].size
        _distance(constrain, total, [place], many + place, share)
        price[many + place] = 1e-3
    for place, k in enumerate(cluster):
        group, own = groups.groups[k], [c for c, (g, _) in enumerate(classes) if g == k]
        row = np.zeros(total)
        row[own] = 1
        constrain(row, 0, group.size - 1)
        _distance(constrain, total, own, 2 * many + place, asked_count(group.size, ratios[k]))
        price[2 * many + place] = 1.0 if ratios[k] else 1e-2
        unit = _unit(group, align)
        if align > 1 and unit <= group.size:
            row = row.copy()
            row[2 * many + few + place] = unit
            constrain(row, group.size, group.size)  # removed + unit * kept units = size
    bounds = np.full(total, np.inf)
    bounds[:many] = [len(members) for _, members in classes]
    whole = np.zeros(total)
    whole[:many] = 1
    whole[2 * many + few :] = 1
    found = milp(
        price,
        integrality=whole,
        bounds=Bounds(0, bounds),
        constraints=LinearConstraint(np.array(rows), low, high),
        options={"time_limit": 10.0},
    )
    if found.x is None:  # nothing aligned is also balanced: balance comes first
        return _programme(groups, ratios, 1, classes, axes) if align > 1 else [0] * many
    return [round(value) for value in found.x[:many]]


def _distance(
    constrain: Callable[..., None], total: int, places: Sequence[int], slot: int, target: float
) -> None:
    """Make variable `slot` at least |sum of `places` - target|."""
    for sign in (1.0, -1.0):
        row = np.zeros(total)
        row[list(places)] = sign
        row[slot] = -1
        constrain(row, -np.inf, sign * target)


def _per_run(
    groups: Groups, classes: Sequence[tuple[int, Index]], axis: _Balanced
) -> NDArray[np.float64]:
    """Return how many places of each run go with one channel of each class."""
    table = np.zeros((axis.count, len(classes)))
    for place, (k, members) in enumerate(classes):
        one = groups.groups[k].sets[members[0]]
        table[:, place] = np.bincount(axis.runs[axis.sets == one], minlength=axis.count)
    return table


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

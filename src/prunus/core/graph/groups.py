"""Channel sets to groups: what gets a ratio, what is frozen, and why.

Sets that run through the same axes of the same weights form a group. They are
alike: any of them may go, and one ratio says how many do.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from prunus.core.graph.channels import Channels
from prunus.core.graph.costs import macs, numel
from prunus.core.graph.facts import Index
from prunus.core.graph.ir import Dim, Graph

__all__ = ["Frozen", "Group", "Groups", "find_groups"]


@dataclass(frozen=True, slots=True)
class Frozen:
    """A weight whose filters stay, all or some of them, and the reason."""

    name: str
    because: str
    channels: int
    """How many of its filters stay for this reason."""
    of: int


@dataclass(frozen=True, eq=False)
class Group:
    """Channels that are interchangeable: the unit that gets a ratio."""

    name: str
    params: tuple[str, ...]
    """The weights whose filters these are; each of the names stands for the group."""
    sets: Index
    """The channel sets that may go."""
    dims: tuple[Dim, ...]
    """Every axis of every weight and buffer that shrinks when they go."""
    filters: tuple[Dim, ...]
    """Those of `dims` that are made of filters: what a score looks at."""
    channels: Channels = field(repr=False)

    @property
    def size(self) -> int:
        """Return how many channels there are to choose from."""
        return len(self.sets)

    @cached_property
    def numel(self) -> int:
        """Return the number of weights that belong to these channels."""
        return self._saved(numel)

    @cached_property
    def macs(self) -> int:
        """Return the multiply-adds that belong to these channels."""
        return self._saved(macs)

    def _saved(self, cost: Callable[..., int]) -> int:
        gone = np.zeros(self.channels.count, bool)
        gone[self.sets] = True
        return cost(self.channels.graph) - cost(self.channels.graph, self.channels, gone)


@dataclass(frozen=True, eq=False)
class Groups:
    """Every group of a graph, in the order the network runs them, and what is frozen."""

    channels: Channels
    groups: tuple[Group, ...]
    frozen: tuple[Frozen, ...]

    @property
    def graph(self) -> Graph:
        """Return the graph that the groups are of."""
        return self.channels.graph

    def named(self) -> dict[str, list[Group]]:
        """Return the groups that each weight's name stands for."""
        found: dict[str, list[Group]] = defaultdict(list)
        for group in self.groups:
            for name in group.params:
                found[name].append(group)
        return dict(found)


def find_groups(channels: Channels) -> Groups:
    """Sort the channel sets that may go into groups."""
    graph = channels.graph
    weights = [
        dim for dim in channels.sets if graph.is_param(dim.tensor) and graph.shape(dim.tensor)
    ]
    free = _free_sets(channels)
    signature, sets, where = _signatures(channels, weights, free)
    signature = _parted(channels, signature, sets)
    order = np.argsort(signature, kind="stable")
    cuts = np.flatnonzero(np.diff(signature[order])) + 1
    members = np.split(order, cuts) if len(order) else []
    members.sort(key=lambda rows: int(rows[0]))
    filters = set(channels.filters)
    found = []
    for rows in members:
        dims = [weights[k] for k in where[rows[0]]]
        found.append((sets[rows], dims, [dim for dim in dims if dim in filters]))
    return Groups(channels, _name(channels, found), _frozen(channels, free))


def _free_sets(channels: Channels) -> np.ndarray:
    """Mark the sets that hold a filter and are not frozen."""
    free = np.zeros(channels.count, bool)
    for dim in channels.filters:
        free[channels.sets[dim]] = True
    free[list(channels.frozen)] = False
    return free


def _signatures(
    channels: Channels, weights: Sequence[Dim], free: np.ndarray
) -> tuple[np.ndarray, Index, list[Index]]:
    """Return a number that tells equal sets of axes, the sets, and the axes of each set."""
    rows = []
    for k, dim in enumerate(weights):
        sets = channels.sets[dim]
        rows.append(np.unique(sets[free[sets]]) * len(weights) + k)
    pairs = np.sort(np.concatenate(rows)) if rows else np.empty(0, np.intp)
    set_of, axis_of = np.divmod(pairs, max(1, len(weights)))
    sets, starts = np.unique(set_of, return_index=True)
    # Random 64-bit numbers, added up: two different sets of axes agree once in 2**64.
    code = np.random.default_rng(0).integers(1 << 63, size=len(weights), dtype=np.uint64)
    signature = np.add.reduceat(code[axis_of], starts) if len(sets) else np.empty(0, np.uint64)
    return signature, sets, np.split(axis_of, starts[1:])


def _parted(channels: Channels, signature: np.ndarray, sets: Index) -> np.ndarray:
    """Part groups of which one could take all the channels of an activation.

    One channel of every group stays, and with it one of every axis that holds a whole
    group. An axis of an activation may hold a part of each group only (a slice that is
    averaged); that part then is a group of its own. The runs of a balanced axis need
    no such care, for each keeps one.
    """
    number, size = np.unique(signature, return_inverse=True, return_counts=True)[1:]
    owner = np.full(channels.count, -1, np.intp)
    owner[sets] = number
    runs = _balanced_runs(channels)
    code = np.zeros(channels.count, np.uint64)
    random = np.random.default_rng(1)
    for dim, own in channels.sets.items():
        if channels.graph.is_param(dim.tensor) or not len(own) or (owner[own] < 0).any():
            continue  # what a weight holds is in its signature; and what is frozen stays
        inside = np.unique(own)
        groups, counts = np.unique(owner[inside], return_counts=True)
        if (counts < size[groups]).all() and inside.tobytes() not in runs:
            code[inside] += random.integers(1 << 63, dtype=np.uint64)
    return signature + code[sets]


def _balanced_runs(channels: Channels) -> set[bytes]:
    """Return what each run of each balanced axis holds."""
    return {
        np.unique(run).tobytes()
        for _, fact in channels.balances
        if fact.dim in channels.sets
        for run in channels.sets[fact.dim].reshape(fact.runs, -1)
    }


def _name(
    channels: Channels, found: Iterable[tuple[Index, list[Dim], list[Dim]]]
) -> tuple[Group, ...]:
    """Name each group after its first weight; weights that hold several groups tell which part.

    So no group has the name of a weight that stands for others as well.
    """
    groups: list[Group] = []
    seen: dict[str, int] = defaultdict(int)
    found = list(found)
    for _, _, filters in found:
        for name in {dim.tensor for dim in filters}:
            seen[name] += 1
    for sets, dims, filters in found:
        first = filters[0]
        name = first.tensor
        if seen[name] > 1:
            place = np.flatnonzero(np.isin(channels.sets[first], sets))
            name = f"{name}[{place[0]}:{place[-1] + 1}]"
        params = tuple(dict.fromkeys(dim.tensor for dim in filters))
        groups.append(Group(name, params, sets, tuple(dims), tuple(filters), channels))
    return _unique(groups)


def _unique(groups: list[Group]) -> tuple[Group, ...]:
    """Interleaved parts of one weight span the same range: number those."""
    count: dict[str, int] = defaultdict(int)
    done = []
    for group in groups:
        count[group.name] += 1
        name = group.name if count[group.name] == 1 else f"{group.name}#{count[group.name]}"
        done.append(
            Group(name, group.params, group.sets, group.dims, group.filters, group.channels)
        )
    return tuple(done)


def _frozen(channels: Channels, free: np.ndarray) -> tuple[Frozen, ...]:
    found = []
    for dim in channels.filters:
        sets = channels.sets[dim]
        stays = sets[~free[sets]]
        reasons: dict[str, int] = defaultdict(int)
        for number in stays.tolist():
            reasons[channels.frozen[number]] += 1
        for because, count in reasons.items():
            found.append(Frozen(dim.tensor, because, count, len(sets)))
    return tuple(found)

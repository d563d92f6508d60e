"""What any joint cut of a graph costs, as a table of plain numbers that needs no model.

Every count of multiply-adds or of parameters is a sum of products of lengths of axes,
and every length is a constant plus so many times the channels that a group keeps. The
table has those sums, and what turns ratios into channels (`prunus.core.cut.rounding`).
It is plain JSON, made from a graph by `cost_table` and read by `CostTable`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from prunus.core.cut.counts import rounding_of
from prunus.core.cut.rounding import Axis, Cluster, Part, Rounding
from prunus.core.errors import PlanError
from prunus.core.graph.costs import Cost, node_macs
from prunus.core.graph.groups import Groups
from prunus.core.graph.ir import Dim, Graph
from prunus.core.plan.polynomial import Polynomial, Terms

__all__ = ["CostTable", "cost_table"]

SCHEMA = 1

Floats = NDArray[np.float64]


def cost_table(groups: Groups) -> dict[str, Any]:
    """Return the table of a graph, as plain JSON for the header of a study."""
    rounding, members = rounding_of(groups)
    lengths = _Lengths(groups, rounding, members)
    graph = groups.graph
    # The functions that count multiply-adds take numbers, and these are nearly numbers.
    shape = cast(Any, lambda tensor: lengths.shape(graph, tensor))
    macs = sum((Polynomial.of(node_macs(node, shape)) for node in graph.nodes), Polynomial())
    numel = sum(
        (
            Polynomial.of(prod(shape(name)))
            for name, tensor in graph.tensors.items()
            if tensor.is_param and tensor.trainable
        ),
        Polynomial(),
    )
    return {
        "schema": SCHEMA,
        "groups": [
            [group.name, group.size, list(each)]
            for group, each in zip(groups.groups, rounding.each, strict=True)
        ],
        "parts": [[part.group, part.size] for part in rounding.parts],
        "clusters": [_cluster_data(cluster) for cluster in rounding.clusters],
        "lengths": lengths.table,
        "macs": macs.data(),
        "numel": numel.data(),
        "exact": lengths.exact,
    }


class _Lengths:
    """The different lengths of a graph's axes, each once."""

    def __init__(self, groups: Groups, rounding: Rounding, members: Sequence[Any]) -> None:
        self.table: list[list[Any]] = []
        self.exact = True
        self._sets = groups.channels.sets
        self._rounding = rounding
        self._part_of = np.full(groups.channels.count, -1, np.intp)
        for place, (part, own) in enumerate(zip(rounding.parts, members, strict=True)):
            self._part_of[groups.groups[part.group].sets[own]] = place
        self._number: dict[str, int] = {}

    def shape(self, graph: Graph, tensor: str) -> tuple[int | Polynomial, ...]:
        """Return the lengths of a tensor's axes."""
        return tuple(
            self._length(Dim(tensor, axis), length)
            for axis, length in enumerate(graph.shape(tensor))
        )

    def _length(self, dim: Dim, length: int) -> int | Polynomial:
        sets = self._sets.get(dim)
        if sets is None:
            return length
        inside, counts = np.unique(sets[self._part_of[sets] >= 0], return_counts=True)
        if not len(inside):
            return length
        times = self._times(self._part_of[inside], counts)
        constant = length - int(counts.sum())
        key = f"{constant} {times}"
        if key not in self._number:
            self._number[key] = len(self.table)
            self.table.append([constant, times])
        return Polynomial.variable(self._number[key], length)

    def _times(self, parts: NDArray[np.intp], counts: NDArray[np.intp]) -> list[list[Any]]:
        """Return how often the axis holds a channel of each part; a whole group is one entry."""
        found: dict[int, float] = {}
        for place in np.unique(parts).tolist():
            own = counts[parts == place]
            size = self._rounding.parts[place].size
            # Where an axis holds some channels of a part only, which of them go decides.
            self.exact &= len(own) == size and int(own.min()) == int(own.max())
            total = int(own.sum())
            found[place] = total // size if total % size == 0 else total / size
        return _joined(found, self._rounding)


def _joined(found: Mapping[int, float], rounding: Rounding) -> list[list[Any]]:
    """Return [[index, times]]: groups by their number, parts by theirs behind all groups."""
    own: dict[int, list[int]] = {}
    for place, part in enumerate(rounding.parts):
        own.setdefault(part.group, []).append(place)
    rows: list[list[Any]] = []
    for k in sorted({rounding.parts[place].group for place in found}):
        times = [found.get(place, 0) for place in own[k]]
        if len(set(times)) == 1:
            rows.append([k, times[0]])
        else:
            first = len(rounding.sizes)
            rows += [[first + place, found[place]] for place in own[k] if place in found]
    return rows


def _cluster_data(cluster: Cluster) -> dict[str, Any]:
    axes = []
    for axis in cluster.axes:
        rows = [[[k, int(lost)] for k, lost in enumerate(run) if lost] for run in axis.lost]
        axes.append([axis.length, axis.firm, axis.closed, rows])
    return {"parts": list(cluster.parts), "axes": axes}


@dataclass(frozen=True, eq=False)
class CostTable:
    """The table, ready to be asked."""

    names: tuple[str, ...]
    rounding: Rounding
    lengths: tuple[tuple[int, tuple[tuple[int, float], ...]], ...]
    terms: Mapping[str, Terms]
    exact: bool
    """False where an axis holds some channels of a group only: costs then are what to expect."""

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> CostTable:
        """Read what `cost_table` made."""
        if not data:
            raise PlanError(
                "the study has no table of costs, so that a budget of multiply-adds or of "
                "parameters cannot be planned",
                fix="plan by loss, or run prunus.analyze on the model with the same study once "
                "more: it adds the table",
            )
        if data.get("schema") != SCHEMA:
            raise PlanError(
                f"the study's table of costs has schema {data.get('schema')!r}, and this version "
                f"reads {SCHEMA}",
                fix="install the version of prunus that wrote the study",
            )
        try:
            return _read(data)
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise PlanError(
                f"the study's table of costs is damaged: {type(error).__name__} {error}",
                fix="take a copy of the study from before, or measure again in a new one",
            ) from error

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Return the number of channels of each group."""
        return self.rounding.sizes

    @cached_property
    def whole(self) -> Cost:
        """Return what the uncut model costs."""
        return self.cost([0] * len(self.rounding.parts))

    def counts(self, ratios: Mapping[str, float], align: int = 1) -> list[int]:
        """Return how many channels of each part go in one joint cut by these ratios."""
        return self.rounding.counts([ratios.get(name, 0.0) for name in self.names], align)

    def cost(self, counts: Sequence[int]) -> Cost:
        """Return what is left to pay when so many channels of each part go."""
        gone = [*self.rounding.by_group(counts), *counts]
        lengths = [self._kept(constant, times, gone) for constant, times in self.lengths]
        found = (
            sum(factor * prod(lengths[k] for k in numbers) for factor, numbers in terms)
            for terms in (self.terms["macs"], self.terms["numel"])
        )
        return Cost(*map(round, found))

    def costs(self, kind: str, gone: Floats) -> Floats:
        """Return the costs of many cuts, a row each: so many channels of each group go.

        The counts need not be whole, and are spread evenly over the parts of a group.
        """
        lengths = self._constant - gone @ self._slope.T
        found = np.zeros(len(gone))
        for factors, numbers in self._packed[kind]:
            found += lengths[:, numbers].prod(axis=2) @ factors
        return found

    def _kept(self, constant: int, times: Sequence[tuple[int, float]], gone: list[int]) -> float:
        return constant + sum(each * (self._all[k] - gone[k]) for k, each in times)

    @cached_property
    def _all(self) -> list[int]:
        return [*self.sizes, *(part.size for part in self.rounding.parts)]

    @cached_property
    def _constant(self) -> Floats:
        """Return each length before any cut."""
        return np.array([self._kept(c, times, [0] * len(self._all)) for c, times in self.lengths])

    @cached_property
    def _slope(self) -> Floats:
        """Return what each length loses with one channel of each group."""
        parts, groups = self.rounding.parts, len(self.sizes)
        found = np.zeros((len(self.lengths), groups))
        for row, (_, times) in enumerate(self.lengths):
            for k, each in times:
                if k < groups:
                    found[row, k] += each
                else:
                    part = parts[k - groups]
                    found[row, part.group] += each * part.size / self.sizes[part.group]
        return found

    @cached_property
    def _packed(self) -> dict[str, list[tuple[Floats, NDArray[np.intp]]]]:
        """Return the products by how many lengths they have, as arrays."""
        found: dict[str, list[tuple[Floats, NDArray[np.intp]]]] = {}
        for kind, terms in self.terms.items():
            by_degree: dict[int, list[tuple[float, tuple[int, ...]]]] = {}
            for factor, numbers in terms:
                by_degree.setdefault(len(numbers), []).append((factor, numbers))
            found[kind] = [
                (
                    np.array([factor for factor, _ in rows], float),
                    np.array([numbers for _, numbers in rows], np.intp).reshape(len(rows), degree),
                )
                for degree, rows in by_degree.items()
            ]
        return found


def _read(data: Mapping[str, Any]) -> CostTable:
    parts = tuple(Part(int(group), int(size)) for group, size in data["parts"])
    rounding = Rounding(
        tuple(int(size) for _, size, _ in data["groups"]),
        tuple(tuple(map(int, each)) for _, _, each in data["groups"]),
        parts,
        tuple(_read_cluster(one) for one in data["clusters"]),
    )
    lengths = tuple(
        (int(constant), tuple((int(k), each) for k, each in times))
        for constant, times in data["lengths"]
    )
    terms = {
        kind: tuple((int(factor), tuple(map(int, numbers))) for factor, numbers in data[kind])
        for kind in ("macs", "numel")
    }
    table = CostTable(
        tuple(str(name) for name, _, _ in data["groups"]),
        rounding,
        lengths,
        terms,
        bool(data["exact"]),
    )
    table.cost([0] * len(parts))  # an index that leads nowhere shows here
    return table


def _read_cluster(data: Mapping[str, Any]) -> Cluster:
    places = tuple(map(int, data["parts"]))
    axes = []
    for length, firm, closed, rows in data["axes"]:
        lost = [[0.0] * len(places) for _ in rows]
        for run, row in zip(lost, rows, strict=True):
            for k, each in row:
                run[k] = float(each)
        axes.append(Axis(int(length), bool(firm), bool(closed), tuple(map(tuple, lost))))
    return Cluster(places, tuple(axes))

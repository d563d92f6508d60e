"""Ratios to whole numbers of channels, from plain numbers alone.

A study keeps these numbers, so that a plan knows without the model what a cut will
take: `prunus.core.cut.counts` makes them out of a graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import gcd, lcm

from prunus.core.cut.programme import Programme

__all__ = ["Axis", "Cluster", "Part", "Rounding", "asked_count"]

# Prices of one channel, where one that is missing from what was asked costs 1.
_UNASKED = 1e-2
_UNEVEN = 1e-3
_FEWER = 1e-6


@dataclass(frozen=True, slots=True)
class Part:
    """Channels of one group that sit alike in every balanced axis."""

    group: int
    size: int


@dataclass(frozen=True, slots=True)
class Axis:
    """One balanced axis: what each of its runs loses with one channel of each part."""

    length: int
    """How long each run is."""
    firm: bool
    """False where the op works on uneven runs too."""
    closed: bool
    """Whether all that is in it may go."""
    lost: tuple[tuple[float, ...], ...]
    """A row a run, in it a number for each part of the cluster."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """Groups that balanced axes tie together."""

    parts: tuple[int, ...]
    axes: tuple[Axis, ...]


@dataclass(frozen=True)
class Rounding:
    """All that says how many channels a ratio stands for."""

    sizes: tuple[int, ...]
    """The number of channels of each group."""
    each: tuple[tuple[int, ...], ...]
    """For each group: how many filters one channel is, in each of its weights."""
    parts: tuple[Part, ...]
    clusters: tuple[Cluster, ...]

    def counts(self, ratios: Sequence[float], align: int = 1) -> list[int]:
        """Return how many channels go from each part, for one ratio a group."""
        counts = [0] * len(self.parts)
        for place, part in enumerate(self.parts):
            if place not in self._tied:
                counts[place] = self.rounded(part.group, ratios[part.group], align)
        for cluster in self.clusters:
            found = _Solver(self, cluster, ratios, align).counts()
            for place, count in zip(cluster.parts, found, strict=True):
                counts[place] = count
        return counts

    def rounded(self, group: int, ratio: float, align: int = 1) -> int:
        """Return how many channels of one group a ratio stands for, whatever others lose."""
        return self._aligned(group, asked_count(self.sizes[group], ratio), align)

    def by_group(self, counts: Sequence[int]) -> list[int]:
        """Add up the counts of the parts of each group."""
        total = [0] * len(self.sizes)
        for part, count in zip(self.parts, counts, strict=True):
            total[part.group] += count
        return total

    def unit(self, group: int, align: int) -> int:
        """Return the step in channels that keeps every filter axis a multiple of `align`."""
        return lcm(*(align // gcd(align, each) for each in self.each[group]))

    @cached_property
    def _tied(self) -> frozenset[int]:
        return frozenset(place for cluster in self.clusters for place in cluster.parts)

    def _aligned(self, group: int, count: int, align: int) -> int:
        """Move `count` to the nearest that leaves a multiple of `align`; 0 where none does."""
        if align == 1 or count == 0:
            return count
        size, unit = self.sizes[group], self.unit(group, align)
        kept = max(unit, round((size - count) / unit) * unit)
        return max(0, size - kept)


class _Solver:
    """One cluster, with what was asked of it."""

    def __init__(
        self, rounding: Rounding, cluster: Cluster, ratios: Sequence[float], align: int
    ) -> None:
        self.rounding = rounding
        self.axes = cluster.axes
        self.parts = [rounding.parts[place] for place in cluster.parts]
        self.groups = sorted({part.group for part in self.parts})
        self.ratios = ratios
        self.align = align

    def counts(self) -> list[int]:
        if not any(self.ratios[k] for k in self.groups):
            return [0] * len(self.parts)
        counts = self._even_share() or self._programme(self.align)
        return counts if any(counts) else self._programme(self.align, firm_only=True)

    def _even_share(self) -> list[int]:
        """Return the same count for all parts, where that is exactly what was asked; or nothing.

        The same number of each of several alike parts is balanced, whatever the axes are.
        """
        sizes = {part.size for part in self.parts}
        alike = len(sizes) == 1 and len({self.ratios[k] for k in self.groups}) == 1
        if self.align > 1 or not alike or not all(axis.closed for axis in self.axes):
            return []
        count = asked_count(min(sizes), self.ratios[self.groups[0]])
        for k in self.groups:
            mine = sum(part.group == k for part in self.parts)
            if mine * count != asked_count(self.rounding.sizes[k], self.ratios[k]):
                return []
        return [count] * len(self.parts)

    def _programme(self, align: int, *, firm_only: bool = False) -> list[int]:
        """Minimise the distance to what was asked, over the whole numbers that balance.

        A group that nobody asked for follows the others, at a small price; so does evenness
        between the parts of a group; and of two counts that are as near, the smaller wins.
        """
        programme = Programme()
        counts = [programme.variable(price=_FEWER, most=p.size, whole=True) for p in self.parts]
        for axis in self.axes:
            _balance(programme, counts, axis, equal=axis.firm or not firm_only)
        for k in self.groups:
            own = {
                variable: part.size
                for variable, part in zip(counts, self.parts, strict=True)
                if part.group == k
            }
            self._ask(programme, k, own, align)
        best = programme.solve()
        if best is not None:
            return [round(value) for value in best[: len(self.parts)]]
        if align == 1:
            return [0] * len(self.parts)
        # Nothing aligned is also balanced: balance comes first.
        return self._programme(1, firm_only=firm_only)

    def _ask(self, programme: Programme, group: int, own: dict[int, int], align: int) -> None:
        """Ask for the ratio of one group; `own` are its parts: variable to size."""
        size, ratio = self.rounding.sizes[group], self.ratios[group]
        asked = asked_count(size, ratio)
        together = dict.fromkeys(own, 1.0)
        programme.constrain(together, 0, size - 1)
        programme.near(together, asked, 1.0 if ratio else _UNASKED)
        for variable, part in own.items():
            programme.near({variable: 1.0}, asked * part / size, _UNEVEN)
        unit = self.rounding.unit(group, align)
        if align > 1 and unit <= size:
            kept = programme.variable(whole=True)  # in units
            programme.constrain({**together, kept: float(unit)}, size, size)


def asked_count(size: int, ratio: float) -> int:
    """Return how many of `size` channels a ratio stands for; one always stays."""
    return max(0, min(size - 1, round(size * ratio)))


def _balance(programme: Programme, counts: Sequence[int], axis: Axis, *, equal: bool) -> None:
    """Have each run of the axis keep one, and all lose the same number."""
    for run, lost in enumerate(axis.lost):
        if run == 0 or not equal:
            programme.constrain(_terms(counts, lost), 0, axis.length - 1)
        else:
            first = axis.lost[0]
            programme.constrain(
                _terms(counts, [a - b for a, b in zip(lost, first, strict=True)]), 0, 0
            )


def _terms(counts: Sequence[int], factors: Sequence[float]) -> dict[int, float]:
    return {counts[k]: float(factor) for k, factor in enumerate(factors) if factor}

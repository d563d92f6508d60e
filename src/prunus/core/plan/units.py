"""What there is to decide for a budget: groups, or groups that cannot go alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from prunus.core.plan.costs import CostTable
from prunus.core.plan.curves import Losses

__all__ = ["Choice", "Unit", "shares", "units_of"]

_FEWER = 1e-7
"""What it costs to remove all of a group, beside the loss: of two plans that lose as much,
the one that removes less."""


@dataclass(frozen=True)
class Choice:
    """One way to cut some groups that go together."""

    ratios: Mapping[int, float]
    counts: Mapping[int, int]
    """How many channels go, by group."""
    price: float


Unit = list[Choice]
"""The choices of which a plan takes one; the first removes nothing."""


def shares(table: CostTable, curves: Sequence[Losses], align: int = 1) -> list[float]:
    """Return which part of each group's loss is its own, from 0 to 1.

    Balanced groups drag each other along, so that each was measured with all of them
    cut. The loss then is shared out by channels, and what adds up is one cut, not many.
    """
    found = []
    for k, one in enumerate(curves):
        counts = _alone(table, curves, k, one.ratios[-1], align) if one.ratios else [0]
        found.append(counts[k] / sum(counts) if sum(counts) else 1.0)
    return found


def _alone(
    table: CostTable, curves: Sequence[Losses], group: int, ratio: float, align: int
) -> list[int]:
    ratios = [ratio if k == group else 0.0 for k in range(len(curves))]
    return table.rounding.by_group(table.rounding.counts(ratios, align))


def units_of(table: CostTable, curves: Sequence[Losses], align: int) -> list[Unit]:
    """Return what there is to decide: a group, or groups of which none can go alone."""
    own = shares(table, curves, align)
    units = []
    for members in _dragged(table, curves, align):
        ratios = sorted({ratio for k in members for ratio in curves[k].ratios})
        choices = {(0,) * len(members): Choice({}, {}, 0.0)}
        for ratio in ratios:
            counts = [table.rounding.rounded(k, ratio, align) for k in members]
            if all(count <= curves[k].most for k, count in zip(members, counts, strict=True)):
                price = sum(
                    own[k] * curves[k].at(count) + _FEWER * count / curves[k].size
                    for k, count in zip(members, counts, strict=True)
                )
                asked = dict.fromkeys(members, ratio)
                gone = dict(zip(members, counts, strict=True))
                choices.setdefault(tuple(counts), Choice(asked, gone, price))
        units.append(list(choices.values()))
    return [unit for unit in units if len(unit) > 1]


def _dragged(table: CostTable, curves: Sequence[Losses], align: int) -> list[list[int]]:
    """Return the groups that have a curve, those together of which one drags the other along."""
    parent = list(range(len(curves)))

    def root(k: int) -> int:
        while parent[k] != k:
            k = parent[k]
        return k

    for k, one in enumerate(curves):
        if one.ratios:
            for other, count in enumerate(_alone(table, curves, k, one.ratios[-1], align)):
                if count and curves[other].ratios:
                    parent[root(other)] = root(k)
    found: dict[int, list[int]] = {}
    for k, one in enumerate(curves):
        if one.ratios:
            found.setdefault(root(k), []).append(k)
    return list(found.values())

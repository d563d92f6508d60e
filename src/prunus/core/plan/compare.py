"""A plan beside other rules at the same cost: one loss for all groups, one ratio for all."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from prunus.core.errors import PlanError
from prunus.core.graph.costs import Cost
from prunus.core.plan.costs import CostTable
from prunus.core.plan.curves import Losses
from prunus.core.plan.loss_rule import ratio_by_loss
from prunus.core.plan.optimise import Budget, fits, optimise
from prunus.core.plan.plan import Compared
from prunus.core.plan.units import shares

__all__ = ["KINDS", "by_loss", "compared"]

KINDS = {"macs": "macs", "params": "numel"}
"""What users call a budget, and what it is a share of."""

Ratios = Mapping[str, float]


def by_loss(curves: Sequence[Losses], loss: float) -> dict[str, float]:
    """Return the ratios of the seeds' rule; what can have none has no entry."""
    found = {}
    for one in curves:
        # A NaN is a model that cuts broke: whatever the target, it lies above it.
        losses = {
            ratio: math.inf if math.isnan(lost) else lost for ratio, lost in one.by_ratio.items()
        }
        ratio = ratio_by_loss(losses, loss)
        if ratio is not None:
            found[one.name] = min(ratio, (one.size - 1) / one.size)
    return found


def compared(
    table: CostTable,
    curves: Sequence[Losses],
    align: int,
    ratios: Ratios,
    asked: Mapping[str, float],
) -> tuple[Compared, ...]:
    """Return the plan with these ratios, and what other rules make of the same budget."""
    return tuple(_Comparison(table, curves, align).rows(ratios, asked))


class _Comparison:
    def __init__(self, table: CostTable, curves: Sequence[Losses], align: int) -> None:
        self.table = table
        self.curves = curves
        self.align = align
        self.shares = shares(table, curves, align)

    def rows(self, ratios: Ratios, asked: Mapping[str, float]) -> list[Compared]:
        after = self._cost(ratios).as_dict()
        budget: Budget = {
            kind: float(after[kind])
            for name, kind in KINDS.items()
            if name in asked or ("loss" in asked and kind == "macs")
        }
        found = [self._row("this plan", asked.get("loss"), ratios)]
        if fits(self.table.whole.as_dict(), budget):
            return found  # nothing is cut, so there is nothing to compare
        if "loss" in asked:
            found += self._optimised(budget)
        else:
            found += self._rule(
                "equal loss", lambda loss: by_loss(self.curves, loss), self._worst(), budget
            )
        names = [one.name for one in self.curves]
        return found + self._rule("uniform", lambda r: dict.fromkeys(names, r), 0.99, budget)

    def _worst(self) -> float:
        losses = [lost for one in self.curves for lost in one.by_ratio.values()]
        return max(lost for lost in losses if not math.isnan(lost))

    def _optimised(self, budget: Budget) -> list[Compared]:
        try:
            ratios = optimise(self.table, self.curves, budget, self.align)
        except PlanError:
            return []  # the measured ratios alone do not get there; those in between did
        return [self._row("optimised", None, ratios)]

    def _rule(
        self, rule: str, ratios_at: Callable[[float], Ratios], most: float, budget: Budget
    ) -> list[Compared]:
        """Return a rule at its smallest setting that fits the budget; nothing if none does."""

        def good(setting: float) -> bool:
            return fits(self._cost(ratios_at(setting)).as_dict(), budget)

        if not good(most):
            return []
        low, high = 0.0, most
        for _ in range(30):
            middle = (low + high) / 2
            low, high = (low, middle) if good(middle) else (middle, high)
        return [self._row(rule, high, ratios_at(high))]

    def _row(self, rule: str, setting: float | None, ratios: Ratios) -> Compared:
        counts = self.table.rounding.by_group(self.table.counts(ratios, self.align))
        known = [
            (one, share, count)
            for one, share, count in zip(self.curves, self.shares, counts, strict=True)
            if one.ratios
        ]
        losses = [share * one.at(count) for one, share, count in known]
        price = sum(share * one.price(count) for one, share, count in known)
        kept = math.exp(-price) if self.curves[0].ruin is not None else None
        cost = self._cost(ratios)
        return Compared(rule, setting, cost.macs, cost.numel, sum(losses), max(losses), kept)

    def _cost(self, ratios: Ratios) -> Cost:
        return self.table.cost(self.table.counts(ratios, self.align))

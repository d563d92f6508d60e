"""The least loss within a budget: one ratio a group, chosen all together.

Losses are taken to add up, group by group. Costs do not: a layer between two groups
costs the product of what both keep. So the cost is made linear around the plan at
hand, the best plan for that is found exactly (SciPy's HiGHS), costed as it really is,
and so on until nothing changes. What comes back always fits: every candidate is
costed whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from prunus.core.cut.programme import Programme
from prunus.core.errors import PlanError
from prunus.core.plan.costs import CostTable
from prunus.core.plan.curves import Losses
from prunus.core.plan.units import Choice, Unit, units_of

__all__ = ["Budget", "fits", "optimise"]

ROUNDS = 40
EXCHANGES = 300
"""How many exchanges of two steps are costed before a plan is called the best."""
_NOTHING = 1e-9
Budget = Mapping[str, float]
"""{"macs": the most that may be left, "numel": likewise}"""

Floats = NDArray[np.float64]


def optimise(
    table: CostTable, curves: Sequence[Losses], budget: Budget, align: int = 1
) -> dict[str, float]:
    """Return the ratio of each group that is cut, for the least sum of losses in the budget."""
    search = _Search(table, units_of(table, curves, align), budget, align)
    return {table.names[k]: ratio for k, ratio in search.run().items()}


def fits(cost: Mapping[str, float], budget: Budget) -> bool:
    """Tell whether a cost is within a budget."""
    return all(cost[kind] <= most for kind, most in budget.items())


class _Search:
    """One optimisation: from plan to plan, the best that fits is kept."""

    def __init__(self, table: CostTable, units: Sequence[Unit], budget: Budget, align: int) -> None:
        self.table = table
        self.units = units
        self.budget = budget
        self.align = align
        self.best: tuple[float, list[int]] | None = None
        self.polished: tuple[float, list[int]] | None = None

    def run(self) -> dict[int, float]:
        """Return the best plan found, as ratios by group."""
        smallest = [_largest_cut(unit) for unit in self.units]
        self._keep(smallest)
        if self.best is None:
            raise self._out_of_reach(smallest)
        # Where one looks from decides which of several good plans is found.
        midway = self._midway()
        for start in (midway, 0.0 * midway, self._gone(self.best[1])):
            self._rounds(start)
            self._polish()
        return self._ratios(self.best[1])

    def _rounds(self, point: Floats) -> None:
        inner = dict(self.budget)
        seen: set[tuple[int, ...]] = set()
        for _ in range(ROUNDS):
            chosen = self._solve(point, inner)
            if chosen is None:
                # Nothing seems to fit from here: look from where more is gone.
                point = (point + self._gone(self.best[1] if self.best else [])) / 2
                inner = dict(self.budget)
                continue
            real = self._keep(chosen)
            if tuple(chosen) in seen and fits(real, self.budget):
                break
            again = tuple(chosen) in seen
            seen.add(tuple(chosen))
            gone = self._gone(chosen)
            point = (point + gone) / 2 if again else gone
            for kind, most in self.budget.items():
                inner[kind] = min(most, inner[kind] + 0.7 * (most - real[kind]))

    def _midway(self) -> Floats:
        """Return a point between nothing and all, near the budget, to look from first."""
        far = self._gone([_largest_cut(unit) for unit in self.units])
        low, high = 0.0, 1.0
        for _ in range(20):
            middle = (low + high) / 2
            cost = self._costs(middle * far[None])
            if all(cost[kind][0] <= most for kind, most in self.budget.items()):
                high = middle
            else:
                low = middle
        return high * far

    def _solve(self, point: Floats, budget: Budget) -> list[int] | None:
        """Return the best choice of each unit, for costs as they change around a point."""
        programme = Programme()
        rows = np.array(
            [self._moved(point, choice, unit) for unit in self.units for choice in unit]
        )
        variables = []
        for unit in self.units:
            own = [programme.variable(price=one.price, most=1, whole=True) for one in unit]
            programme.constrain(dict.fromkeys(own, 1.0), 1, 1)
            variables.append(own)
        flat = [variable for own in variables for variable in own]
        here = self._costs(point[None])
        for kind, costs in self._costs(rows).items():
            changes = (costs - here[kind][0]) / budget[kind]
            room = 1 - here[kind][0] / budget[kind]
            programme.constrain(dict(zip(flat, changes.tolist(), strict=True)), -np.inf, room)
        best = programme.solve()
        if best is None:
            return None
        return [int(np.argmax(best[own])) for own in variables]

    def _moved(self, point: Floats, choice: Choice, unit: Unit) -> Floats:
        moved = point.copy()
        for k in unit[-1].counts:
            moved[k] = choice.counts.get(k, 0)
        return moved

    def _polish(self) -> None:
        """Give back what need not go, and exchange one unit's step for another's."""
        while self.best is not None and self.best != self.polished:
            self.polished = before = self.best
            for candidate in self._neighbours(list(before[1])):
                self._keep(candidate)
                if self.best != before:
                    break

    def _neighbours(self, chosen: list[int]) -> list[list[int]]:
        """Return the plans one or two steps away that lose less and fit, the best first."""
        steps = [
            (u, c) for u, unit in enumerate(self.units) for c in range(len(unit)) if c != chosen[u]
        ]
        plans = []
        for moves in self._steps(chosen, steps)[:EXCHANGES]:
            candidate = list(chosen)
            for k in moves:
                candidate[steps[k][0]] = steps[k][1]
            plans.append(candidate)
        if not plans:
            return []
        fit = np.ones(len(plans), bool)
        for kind, costs in self._costs(np.array([self._gone(one) for one in plans])).items():
            fit &= costs <= self.budget[kind]
        return [plans[k] for k in np.flatnonzero(fit).tolist()]

    def _steps(self, chosen: list[int], steps: list[tuple[int, int]]) -> list[tuple[int, ...]]:
        """Return single steps and pairs of steps that lose less and nearly fit, the best first."""
        here = self._gone(chosen)
        rows = np.array([self._moved(here, self.units[u][c], self.units[u]) for u, c in steps])
        price = np.array([self._step(u, chosen[u], c) for u, c in steps])
        owner = np.array([u for u, _ in steps])
        gains = price[:, None] + price[None, :]
        good = np.triu(owner[:, None] != owner[None, :]) & (gains < -_NOTHING)
        base = {kind: float(costs[0]) for kind, costs in self._costs(here[None]).items()}
        for kind, costs in self._costs(rows).items():
            change = costs - base[kind]
            # Two neighbours' steps together cost another amount than one by one.
            good &= base[kind] + change[:, None] + change[None, :] <= 1.1 * self.budget[kind]
        first, second = np.nonzero(good)
        found: list[tuple[float, tuple[int, ...]]] = [
            (float(price[k]), (k,)) for k in np.flatnonzero(price < -_NOTHING).tolist()
        ]
        for a, b in zip(first.tolist(), second.tolist(), strict=True):
            found.append((float(gains[a, b]), (a, b)))
        return [moves for _, moves in sorted(found)]

    def _step(self, unit: int, now: int, then: int) -> float:
        return self.units[unit][then].price - self.units[unit][now].price

    def _keep(self, chosen: Sequence[int]) -> dict[str, float]:
        """Cost a plan as it really is, and keep it if it fits and is the best so far."""
        ratios = self._ratios(chosen)
        counts = self.table.rounding.counts(
            [ratios.get(k, 0.0) for k in range(len(self.table.names))], self.align
        )
        real = {kind: float(value) for kind, value in self.table.cost(counts).as_dict().items()}
        price = self._price(chosen)
        if fits(real, self.budget) and (self.best is None or price < self.best[0]):
            self.best = (price, list(chosen))
        return real

    def _price(self, chosen: Sequence[int]) -> float:
        return sum(unit[k].price for unit, k in zip(self.units, chosen, strict=True))

    def _ratios(self, chosen: Sequence[int]) -> dict[int, float]:
        found: dict[int, float] = {}
        for unit, k in zip(self.units, chosen, strict=True):
            found.update(unit[k].ratios)
        return found

    def _gone(self, chosen: Sequence[int]) -> Floats:
        gone = np.zeros(len(self.table.names))
        for unit, k in zip(self.units, chosen, strict=True):
            for group, count in unit[k].counts.items():
                gone[group] = count
        return gone

    def _costs(self, rows: Floats) -> dict[str, Floats]:
        return {kind: self.table.costs(kind, rows) for kind in self.budget}

    def _out_of_reach(self, smallest: Sequence[int]) -> PlanError:
        ratios = self._ratios(smallest)
        counts = self.table.counts({self.table.names[k]: r for k, r in ratios.items()}, self.align)
        left, whole = self.table.cost(counts), self.table.whole
        share = {kind: getattr(left, kind) / getattr(whole, kind) for kind in self.budget}
        words = {"macs": "multiply-adds", "numel": "parameters"}
        reached = " and ".join(f"{share[kind]:.1%} of the {words[kind]}" for kind in self.budget)
        return PlanError(
            f"the budget is out of reach: with the largest measured ratio of every group, "
            f"{reached} are left",
            fix="ask to keep more, or measure larger ratios and more groups in the same study"
            + (f", or take a smaller align than {self.align}" if self.align > 1 else ""),
        )


def _largest_cut(unit: Unit) -> int:
    gone = [sum(choice.counts.values()) for choice in unit]
    return gone.index(max(gone))

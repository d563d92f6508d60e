"""Budgets: the plan fits, and no other fits with less loss."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from prunus.core.cut.rounding import asked_count
from prunus.core.errors import PlanError
from prunus.core.plan.costs import CostTable
from prunus.core.plan.curves import Losses
from prunus.core.plan.optimise import fits, optimise
from prunus.testing.networks import chain

from .studies import RATIOS, curve, curves_of, table_of


def total(table: CostTable, curves: list[Losses], ratios: dict[str, float], align=1) -> float:
    counts = table.rounding.by_group(table.counts(ratios, align))
    return sum(one.at(count) for one, count in zip(curves, counts, strict=True))


def best_of_all(table: CostTable, curves: list[Losses], budget: dict[str, float]) -> float:
    """Try every combination of measured ratios."""
    found = np.inf
    for ratios in itertools.product((0.0, *RATIOS), repeat=len(curves)):
        asked = dict(zip(table.names, ratios, strict=True))
        if fits(table.cost(table.counts(asked)).as_dict(), budget):
            found = min(found, total(table, curves, asked))
    return float(found)


def concave(seed: int):
    """Return curves as they are measured: flat, then steep, then flat again."""
    rng = np.random.default_rng(seed)
    scale, power = rng.lognormal(-2, 1, 8), rng.uniform(1, 4, 8)
    return lambda k, ratio: float(0.9 * (1 - np.exp(-scale[k] * (ratio / (1 - ratio)) ** power[k])))


@pytest.mark.parametrize("seed", range(12))
def test_no_other_plan_that_fits_loses_less(seed):
    rng = random.Random(seed)
    table = table_of(chain(*(rng.choice([8, 16, 24, 40]) for _ in range(5)), 4))
    curves = curves_of(table, concave(seed))
    budget = {"macs": rng.uniform(0.25, 0.7) * table.whole.macs}
    if seed % 3 == 0:
        budget["numel"] = rng.uniform(0.25, 0.7) * table.whole.numel
    ratios = optimise(table, curves, budget)
    assert fits(table.cost(table.counts(ratios)).as_dict(), budget)
    assert total(table, curves, ratios) <= 1.04 * best_of_all(table, curves, budget) + 1e-9


def test_what_costs_nothing_to_lose_goes_first():
    table = table_of(chain(16, 16, 4))
    curves = curves_of(table, lambda k, ratio: 0.0 if k == 0 else ratio)
    assert set(optimise(table, curves, {"macs": 0.6 * table.whole.macs})) == {"a.weight"}


def test_a_budget_of_all_takes_nothing():
    table = table_of(chain(16, 16, 4))
    curves = curves_of(table, lambda k, ratio: ratio)
    assert optimise(table, curves, {"macs": table.whole.macs}) == {}
    # Not even where it costs nothing: what need not go stays.
    free = curves_of(table, lambda k, ratio: 0.0)
    assert optimise(table, free, {"macs": table.whole.macs}) == {}


@pytest.mark.parametrize("align", [4, 8])
def test_what_stays_is_aligned_and_fits(align):
    table = table_of(chain(32, 48, 40, 4))
    curves = curves_of(table, concave(1))
    budget = {"macs": 0.5 * table.whole.macs}
    ratios = optimise(table, curves, budget, align)
    counts = table.counts(ratios, align)
    kept = [size - count for size, count in zip(table.sizes, counts, strict=True)]
    assert all(one % align == 0 for one in kept)
    assert fits(table.cost(counts).as_dict(), budget)


def test_nothing_is_cut_further_than_was_tried():
    # Aligned to 16, ratio 0.2 of 24 channels is 8 that go: more than anybody measured.
    table = table_of(chain(24, 64, 4))
    curves = [curve("a.weight", 24, {0.2: 0.0}), curve("b.weight", 64, {0.5: 0.3})]
    ratios = optimise(table, curves, {"macs": 0.6 * table.whole.macs}, 16)
    assert ratios == {"b.weight": 0.5}


def test_a_budget_out_of_reach_says_how_far_it_goes():
    table = table_of(chain(10, 10, 4))
    curves = curves_of(table, lambda k, ratio: ratio)
    with pytest.raises(PlanError, match=r"out of reach: .* 10\.6% of the multiply-adds are left"):
        optimise(table, curves, {"macs": 0.1 * table.whole.macs})
    with pytest.raises(PlanError, match=r"a smaller align than 8"):
        optimise(table, curves, {"macs": 0.1 * table.whole.macs, "numel": 1e9}, 8)


def test_a_group_that_nobody_measured_stays_whole():
    table = table_of(chain(16, 16, 4))
    curves = [curve("a.weight", 16, {}), curve("b.weight", 16, {0.75: 0.2})]
    assert optimise(table, curves, {"macs": 0.7 * table.whole.macs}) == {"b.weight": 0.75}
    assert asked_count(16, 0.75) == 12

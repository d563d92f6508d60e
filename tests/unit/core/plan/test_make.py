"""From a study to a plan, without the model."""

from __future__ import annotations

import math
import pickle

import pytest

from prunus.core.errors import PlanError
from prunus.core.graph.costs import Cost
from prunus.core.plan.curves import RELATIVE
from prunus.core.plan.loss_rule import ratios_by_loss
from prunus.core.study.study import Study
from prunus.testing.networks import chain

from .studies import study_of

LOSSES = {
    "a.weight": {0.2: 0.01, 0.5: 0.05, 0.8: 0.4},
    "b.weight": {0.2: 0.02, 0.5: 0.3, 0.8: 0.9},
    "c.weight": {0.2: 0.0, 0.5: 0.0, 0.8: 0.1},
}


@pytest.fixture
def study(tmp_path):
    return study_of(tmp_path / "s.study", chain(20, 30, 10, 4), LOSSES)


def test_by_loss_it_is_the_seeds_rule(study):
    plan = study.plan(loss=0.05)
    sensitivities = {one.name: dict(study.curve(one.name)) for one in study.groups}
    assert plan.ratios == ratios_by_loss(sensitivities, 0.05)
    assert plan.ratios["a.weight"] == pytest.approx(0.5)
    assert (plan.asked, plan.criterion, plan.align) == ({"loss": 0.05}, "l1", 1)
    assert plan.note == "each group alone loses at most 0.05 of the baseline"


def test_asked_and_achieved_stand_side_by_side(study):
    plan = study.plan(loss=0.05, align=8)
    first = plan.groups[0]
    assert (first.group, first.size, first.removed) == ("a.weight", 20, 12)
    assert first.asked == pytest.approx(0.5)
    assert first.ratio == 0.6
    assert first.loss == pytest.approx(0.05 + (12 - 10) / 6 * 0.35)


def test_the_joint_cut_is_costed_as_a_whole(study):
    plan = study.plan(loss=0.05)
    a, b, c = (one.size - one.removed for one in plan.groups)
    assert plan.before == Cost(4 * (60 + 600 + 300 + 40), 60 + 600 + 300 + 40)
    assert plan.after == Cost(*[n * (3 * a + a * b + b * c + 4 * c) for n in (4, 1)])


@pytest.mark.parametrize("budget", [{"macs": 0.5}, {"params": 0.4}, {"macs": 0.6, "params": 0.5}])
def test_a_budget_is_kept_and_is_beside_other_rules(study, budget):
    plan = study.plan(**budget)
    assert plan.asked == budget
    for name, kept in budget.items():
        kind = "macs" if name == "macs" else "numel"
        assert getattr(plan.after, kind) <= kept * getattr(plan.before, kind)
        assert all(getattr(one, kind) <= getattr(plan.after, kind) for one in plan.compared)
    rules = {one.rule: one for one in plan.compared}
    assert list(rules) == ["this plan", "equal loss", "uniform"]
    assert rules["this plan"].kept >= rules["uniform"].kept
    kept = math.prod(1 - one.loss / 0.9 for one in plan.groups)  # 0.9 is lost where all is
    assert rules["this plan"].kept == pytest.approx(kept)
    assert rules["this plan"].sum == pytest.approx(sum(one.loss for one in plan.groups))
    assert rules["this plan"].worst == pytest.approx(max(one.loss for one in plan.groups))
    assert 0 < rules["uniform"].setting < 1


def test_a_plan_by_loss_is_beside_the_optimum_of_its_cost(study):
    plan = study.plan(loss=0.05)
    rules = {one.rule: one for one in plan.compared}
    assert list(rules) == ["this plan", "optimised", "uniform"]
    assert rules["this plan"].setting == 0.05
    assert all(one.macs <= plan.after.macs for one in plan.compared)


def test_one_ruined_group_is_not_cheaper_than_a_little_less_everywhere(tmp_path):
    others = {0.25: 0.175, 0.5: 0.35, 0.75: 0.49}
    losses = {"a.weight": others, "b.weight": {0.25: 0.2, 0.5: 0.6, 0.9: 0.9}, "c.weight": others}
    study = study_of(tmp_path / "s", chain(40, 40, 40, 4), losses)
    # Added up, to ruin one is 0.9, and to cut all three is more.
    assert study.plan(macs=0.35, absolute=True).ratios == {"b.weight": 0.9}
    assert study.plan(macs=0.35, absolute=True).compared[0].kept is None
    # Multiplied, it keeps a tenth.
    plan = study.plan(macs=0.35)
    assert plan.ratios == {"a.weight": 0.75, "b.weight": 0.25, "c.weight": 0.5}
    kept = math.prod(1 - loss / 0.9 for loss in (0.49, 0.2, 0.35))
    assert plan.compared[0].kept == pytest.approx(kept)


def test_nothing_within_the_loss_is_a_plan_of_zeros(study):
    plan = study.plan(loss=-1)
    assert set(plan.ratios.values()) == {0.0}
    assert [one.rule for one in plan.compared] == ["this plan"]
    assert plan.after == plan.before


def test_losses_in_units_of_the_metric(study):
    # The baseline is 0.8, so 0.05 of the metric is 0.0625 of the baseline.
    absolute = study.plan(loss=0.05, absolute=True)
    assert absolute.ratios["a.weight"] > study.plan(loss=0.05).ratios["a.weight"]
    assert absolute.note == "each group alone loses at most 0.05"


def test_a_baseline_of_zero(tmp_path):
    study = study_of(tmp_path / "s", chain(20, 30, 4), {"a.weight": {0.5: 0.1}}, baseline=0.0)
    with pytest.raises(PlanError, match=r"the baseline is 0, .*\n  fix: pass absolute=True"):
        study.plan(loss=0.05)
    assert study.plan(loss=0.1, absolute=True).ratios == {"a.weight": 0.5}
    plan = study.plan(macs=0.6)
    assert plan.ratios == {"a.weight": 0.5}
    assert "the baseline allows no relative loss: losses are absolute" in plan.note


def test_a_cut_that_broke_the_metric_lies_above_any_loss(tmp_path):
    losses = {"a.weight": {0.2: 0.0, 0.5: math.nan}}
    study = study_of(tmp_path / "s", chain(20, 4), losses)
    plan = study.plan(loss=0.3)
    assert plan.ratios == {"a.weight": 0.2}
    assert "1 point where the metric was not a number: never chosen" in plan.note


def test_one_channel_stays_even_where_all_was_tried(tmp_path):
    study = study_of(tmp_path / "s", chain(4, 4), {"a.weight": {1.0: 0.0}})
    assert study.plan(loss=0.1).ratios == {"a.weight": 0.75}


def test_without_costs_a_loss_can_be_planned_and_a_budget_cannot(tmp_path):
    study = study_of(tmp_path / "s", chain(20, 30, 10, 4), LOSSES, costs=False)
    plan = study.plan(loss=0.05)
    assert plan.ratios["a.weight"] == pytest.approx(0.5)
    assert [one.removed for one in plan.groups] == [10, 7, 6]
    assert (plan.before, plan.after, plan.compared) == (None, None, ())
    with pytest.raises(PlanError, match="has no table of costs"):
        study.plan(macs=0.5)


def test_losses_of_paddleslim_can_be_planned_by_loss(tmp_path):
    sensitivities = {"conv1": {0.1: 0.01, 0.5: 0.2}, "conv2": {0.5: 0.02}}
    (tmp_path / "old.data").write_bytes(pickle.dumps(sensitivities, protocol=2))
    study = Study.from_paddleslim(tmp_path / "old.data", tmp_path / "new.study")
    plan = study.plan(loss=0.1)
    assert plan.ratios == pytest.approx({"conv1": 0.1 + 0.09 * 0.4 / 0.19, "conv2": 0.5})
    assert (plan.criterion, plan.compared) == ("", ())
    assert study.header.identity.metric == RELATIVE


@pytest.mark.parametrize(
    ("budget", "message"),
    [
        ({}, r"needs either loss=, or macs= or params=, and got nothing"),
        ({"loss": 0.1, "macs": 0.5}, r"and got loss, macs\n  fix: write study\.plan\(loss=0\.05\)"),
        ({"macs": 0.0}, r"macs=0\.0 is no budget\n  fix: give the share to keep"),
        ({"macs": 50}, r"macs=50 is no budget"),
        ({"params": True}, r"params=True is no budget"),
        ({"loss": math.nan}, r"loss=nan is no budget\n  fix: give the loss that each group may"),
        ({"loss": "x"}, r"loss='x' is no budget"),
        ({"loss": 0.1, "align": 0}, r"align is 0, and must be a whole number from 1"),
    ],
)
def test_a_wish_that_cannot_be(study, budget, message):
    with pytest.raises(PlanError, match=message):
        study.plan(**budget)

"""What was measured, as a plan reads it: noise is smoothed, and said."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from prunus.core.errors import PlanError
from prunus.core.plan.curves import losses_of, remarks
from prunus.testing.networks import chain

from .studies import curve, study_of


def test_between_two_points_it_is_a_straight_line_that_begins_at_nothing():
    one = curve("a", 10, {0.2: 0.1, 0.6: 0.3})
    assert [one.at(count) for count in (0, 1, 2, 4, 6, 9)] == pytest.approx(
        [0, 0.05, 0.1, 0.2, 0.3, 0.3]
    )


def test_what_falls_is_averaged_until_it_does_not():
    one = curve("a", 10, {0.1: 0.1, 0.2: 0.5, 0.3: 0.2, 0.4: 0.2, 0.5: 0.6})
    assert one.falls
    assert [round(one.at(count), 6) for count in range(6)] == [0, 0.1, 0.3, 0.3, 0.3, 0.6]
    assert not curve("a", 10, {0.1: 0.1, 0.2: 0.1}).falls


def test_a_gain_is_not_expected():
    one = curve("a", 10, {0.1: -0.2, 0.2: 0.1})
    assert [one.at(count) for count in (1, 2)] == [0.0, 0.1]


def test_a_point_that_is_no_number_is_never_chosen():
    one = curve("a", 10, {0.1: 0.1, 0.5: math.nan})
    assert (one.ratios, one.most) == ((0.1,), 1)


def test_two_ratios_of_one_count_are_one_point():
    one = curve("a", 2, {0.4: 0.1, 0.5: 0.3})
    assert one.removed == {0.4: 1, 0.5: 1}
    assert one.at(1) == pytest.approx(0.2)


def test_the_curves_of_a_study(tmp_path):
    study = study_of(tmp_path / "s", chain(10, 6, 4), {"a.weight": {0.2: 0.1, 0.5: -0.1}})
    first, second = losses_of(study, absolute=False)
    assert (first.name, first.size, first.removed) == ("a.weight", 10, {0.2: 2, 0.5: 5})
    assert dict(first.by_ratio) == pytest.approx({0.2: 0.1, 0.5: -0.1})
    assert second.ratios == ()
    assert remarks([first, second]) == [
        "1 group without a measured loss: left whole",
        "1 curve where a cut scored above the baseline: taken as noise, not as a gain",
        "1 curve with a fall: smoothed",
    ]
    absolute = losses_of(study, absolute=True)[0]
    assert absolute.by_ratio[0.2] == pytest.approx(0.08)


def test_points_that_are_no_number_are_said():
    assert remarks([curve("a", 9, {0.1: math.nan, 0.2: math.nan, 0.3: 0.1})]) == [
        "2 points where the metric was not a number: never chosen"
    ]


def test_a_study_without_a_loss(tmp_path):
    study = study_of(tmp_path / "s", chain(10, 4), {})
    with pytest.raises(PlanError, match=r"has a loss to plan with\n  fix: run prunus\.analyze"):
        losses_of(study, absolute=False)


def test_what_is_kept_is_multiplied_and_a_ruined_model_keeps_next_to_nothing():
    one = replace(curve("a", 10, {0.5: 0.45, 0.9: 0.9}), ruin=0.9)
    assert one.price(0) == 0.0
    assert one.price(5) == pytest.approx(math.log(2))
    assert one.price(9) == pytest.approx(math.log(1000))
    assert curve("a", 10, {0.5: 0.45}).price(5) == 0.45


@pytest.mark.parametrize(
    ("losses", "ruin"), [({0.5: 0.1}, 0.5), ({0.5: 0.7, 0.6: math.nan}, 0.7), ({0.5: 1.2}, 1.0)]
)
def test_a_ruined_model_loses_what_was_lost_most(tmp_path, losses, ruin):
    study = study_of(tmp_path / "s", chain(10, 4), {"a.weight": losses})
    assert losses_of(study, absolute=False)[0].ruin == pytest.approx(ruin)
    assert losses_of(study, absolute=True)[0].ruin is None

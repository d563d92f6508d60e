"""The seeds' rule, to the digit."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prunus.core.plan.loss_rule import ratio_by_loss, ratios_by_loss

NAN = math.nan


@pytest.mark.parametrize(
    ("losses", "target", "expected"),
    [
        # In between it is a straight line.
        ({0.1: 0.0, 0.2: 0.1}, 0.05, 0.1 + (0.05 - 0.0) * (0.2 - 0.1) / (0.1 - 0.0)),
        ({0.1: 0.22, 0.2: 0.33}, 0.3, 0.1 + (0.3 - 0.22) * (0.2 - 0.1) / (0.33 - 0.22)),
        # The largest ratio is never gone beyond.
        ({0.1: 0.0, 0.2: 0.01}, 0.5, 0.2),
        # All lose more: nothing, and nothing is assumed below the first point.
        ({0.1: 0.2, 0.2: 0.3}, 0.1, 0.0),
        # From the largest down, whatever lies before.
        ({0.1: 0.5, 0.2: 0.6, 0.3: 0.1}, 0.3, 0.3),
        ({0.1: 0.5, 0.2: 0.1, 0.3: 0.6}, 0.35, 0.2 + (0.35 - 0.1) * (0.3 - 0.2) / (0.6 - 0.1)),
        # Exactly the target is enough.
        ({0.1: 0.1, 0.2: 0.2}, 0.1, 0.1),
        # Negative losses and negative targets are ordinary.
        ({0.1: -0.1, 0.2: 0.1}, 0.0, 0.1 + (0.0 + 0.1) * (0.2 - 0.1) / (0.1 + 0.1)),
        ({0.1: -0.2, 0.2: -0.05}, -0.1, 0.1 + (-0.1 + 0.2) * (0.2 - 0.1) / (-0.05 + 0.2)),
        # One point.
        ({0.5: 0.1}, 0.2, 0.5),
        ({0.5: 0.1}, 0.05, 0.0),
        # Points in any order.
        ({0.3: 0.9, 0.1: 0.0}, 0.0, 0.1),
        ({}, 0.1, None),
    ],
)
def test_the_rule(losses, target, expected):
    assert ratio_by_loss(losses, target) == expected


def test_what_is_next_to_nan_is_nan():
    assert math.isnan(ratio_by_loss({0.1: 0.0, 0.2: NAN}, 0.1))
    assert ratio_by_loss({0.1: NAN, 0.2: 0.0}, 0.1) == 0.2
    assert ratio_by_loss({0.1: NAN}, 0.1) == 0.0


def test_the_example_of_the_seeds():
    found = ratios_by_loss(
        {"weight_0": {0.1: 0.22, 0.2: 0.33}, "weight_1": {0.1: 0.21, 0.2: 0.4}, "none": {}}, 0.3
    )
    assert {name: round(ratio, 4) for name, ratio in found.items()} == {
        "weight_0": 0.1727,
        "weight_1": 0.1474,
    }


def _paddleslim(losses: dict[float, float], target: float) -> float:
    """Say the rule another way: the last point at or below the target, and a step beyond."""
    ratios = sorted(losses)
    good = [k for k, ratio in enumerate(ratios) if losses[ratio] <= target]
    if not good:
        return 0.0
    k = good[-1]
    if k == len(ratios) - 1:
        return ratios[k]
    a, b = ratios[k], ratios[k + 1]
    return a + (target - losses[a]) * (b - a) / (losses[b] - losses[a])


points = st.dictionaries(
    st.sampled_from([k / 10 for k in range(1, 10)]), st.floats(-1, 1), min_size=1
)


@given(points, st.floats(-1, 1))
def test_any_curve(losses, target):
    assert ratio_by_loss(losses, target) == _paddleslim(losses, target)


@given(points, st.floats(-1, 1), st.floats(0, 1))
def test_a_larger_target_never_asks_for_less(losses, target, more):
    assert ratio_by_loss(losses, target) <= ratio_by_loss(losses, target + more) + 1e-12

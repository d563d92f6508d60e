"""Criteria against plain NumPy, filter by filter."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from prunus.core.errors import CriterionError
from prunus.core.scores.criteria import CRITERIA, find_criterion, fpgm, l1, l2, taylor

filters = arrays(
    np.float64,
    array_shapes(min_dims=1, max_dims=4, max_side=5),
    elements=st.floats(-100, 100, allow_subnormal=False),
)


def by_hand(kind, weight):
    rows = [weight[k].ravel() for k in range(len(weight))]
    if kind == "fpgm":
        return [sum(np.linalg.norm(row - other) for other in rows) for row in rows]
    return [np.linalg.norm(row, 1 if kind == "l1" else 2) for row in rows]


@pytest.mark.parametrize(("kind", "function"), [("l1", l1), ("l2", l2), ("fpgm", fpgm)])
@given(weight=filters)
@settings(max_examples=60, deadline=None)
def test_scores_are_what_their_definition_says(kind, function, weight):
    # Distances are differences of squares, which costs half the digits where they vanish.
    tolerance = 1e-4 if kind == "fpgm" else 1e-9
    assert np.allclose(function(weight), by_hand(kind, weight), rtol=1e-7, atol=tolerance)


@pytest.mark.parametrize("function", [l1, l2, fpgm])
def test_scores_leave_the_weight_as_it_was(function):
    weight = np.random.default_rng(0).standard_normal((4, 3, 2)).astype(np.float32)
    before = weight.copy()
    weight.flags.writeable = False
    scores = function(weight)
    assert scores.shape == (4,)
    assert scores.dtype == np.float64
    assert (weight == before).all()


def test_fpgm_keeps_its_digits_far_from_the_origin():
    weight = np.random.default_rng(0).standard_normal((6, 3)) * 1e-3 + 1000
    assert np.allclose(fpgm(weight), by_hand("fpgm", weight), rtol=1e-6)


def test_fpgm_finds_the_filter_that_others_can_replace():
    assert int(np.argmin(fpgm(np.array([[0.0, 0], [5, 5], [10, 10]])))) == 1


@given(filters)
def test_taylor_is_the_first_order_change_of_the_loss(weight):
    gradient = np.cos(weight)
    expected = [abs((w * g).sum()) for w, g in zip(weight, gradient, strict=True)]
    assert np.allclose(taylor(weight, gradient), expected)


def test_every_criterion_is_found_by_name():
    assert list(CRITERIA) == ["l1", "l2", "fpgm", "bn_scale", "taylor", "random"]
    assert [find_criterion(name) for name in CRITERIA] == list(CRITERIA)


def test_an_unknown_criterion_tells_which_there_are():
    message = (
        r"there is no criterion 'l3'.*\n  fix: use one of 'l1', .*'fpgm'.*, or pass a function "
        r"from filters \(an array, one filter a row\) to scores"
    )
    with pytest.raises(CriterionError, match=message):
        find_criterion("l3")

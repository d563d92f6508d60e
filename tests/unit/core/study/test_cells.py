"""A cell that exists is valid, and of two of one key the same one is kept in any order."""

from __future__ import annotations

import math
import pickle
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prunus.core.errors import StudyConflictError, StudyError
from prunus.core.study.cells import (
    ADAPTIVE,
    BOUNDED,
    EXACT,
    NOTHING,
    Cell,
    Key,
    better,
    disagree,
    equal,
    harm,
    measured,
    plain,
    preference,
)

from .samples import adaptive, bounded, exact, failed, nothing


def test_numbers_of_other_libraries_become_plain():
    cell = Cell("a", np.int64(2), EXACT, np.float32(0.5), np.int32(7), seconds=np.float64(1))
    assert (type(cell.removed), type(cell.metric), type(cell.samples)) == (int, float, int)
    assert cell.key == Key("a", 2)
    assert math.copysign(1, Cell("a", 2, EXACT, -0.0).metric) == 1


def test_a_cell_with_nan_equals_itself_and_survives_pickle():
    cell = exact("a", 1, float("nan"))
    assert cell == Cell("a", 1, EXACT, math.nan, 100)
    assert hash(cell) == hash(Cell("a", 1, EXACT, math.nan, 100))
    assert pickle.loads(pickle.dumps(cell)).key == cell.key
    assert cell != exact("a", 1, 0.5)
    assert cell != "a"


def test_an_end_that_says_nothing_is_no_end():
    cell = bounded("a", 1, low=-math.inf, high=0.5)
    assert (cell.low, cell.high) == (None, 0.5)
    assert bounded("a", 1, low=0.5, high=math.nan).high is None


def test_text_that_no_file_can_hold_is_replaced():
    assert failed("a", 1, note="half a \udcff character").note == "half a ? character"


@pytest.mark.parametrize(
    ("make", "message", "fix"),
    [
        (
            lambda: exact("", 1, 0.5),
            "group '' with 1 channels removed has no name",
            "name of a group",
        ),
        (
            lambda: exact("a", -1, 0.5),
            "a cell of group 'a' has removed=-1",
            "a whole number from 0",
        ),
        (lambda: exact("a", 1.5, 0.5), "has removed=1.5", "a whole number"),
        (lambda: exact("a", True, 0.5), "has removed=True", "a whole number"),
        (lambda: exact("a", "x", 0.5), "has removed='x'", "a whole number"),
        (lambda: exact("a", 1, 0.5, samples=2**63), "has samples=9223372036854775808", "from 0"),
        (
            lambda: exact("a", 1, "0.5"),
            "metric of a cell of group 'a' is '0.5', which is no number",
            "float(accuracy)",
        ),
        (lambda: exact("a", 1, [1, 2]), "is [1, 2], which is no number", "return one number"),
        (lambda: Cell("a", 1, "guessed", 0.5), "is of kind 'guessed'", "the kinds are exact, "),
        (
            lambda: Cell("a", 1, NOTHING, None),
            "with 1 channels removed is of kind 'nothing'",
            "a cut that removes no channel",
        ),
        (
            lambda: Cell("a", 0, EXACT, 0.5),
            "with 0 channels removed is of kind 'exact'",
            "a cut that removes no channel",
        ),
        (
            lambda: Cell("a", 1, EXACT, None),
            "is 'exact', and its metric is None",
            "give a metric to",
        ),
        (
            lambda: Cell("a", 1, BOUNDED, 0.5, 0, 0.1),
            "is 'bounded', and its metric is 0.5",
            "None to others",
        ),
        (
            lambda: Cell("a", 1, ADAPTIVE, 0.5, 10),
            "is 'adaptive' without an interval",
            "give low, high and samples",
        ),
        (lambda: Cell("a", 1, ADAPTIVE, 0.5, 0, 0.1, 0.9), "or without samples", "call it 'exact'"),
        (lambda: bounded("a", 1), "is 'bounded' without a bound", "or leave the cell out"),
        (
            lambda: bounded("a", 1, 0.6, 0.5),
            "has the interval [0.6, 0.5]",
            "the smaller end as low",
        ),
        (
            lambda: bounded("a", 1, math.inf, None),
            "has the interval [inf, None]",
            "numbers or None",
        ),
        (lambda: failed("a", 1, ""), "failed without a note", "say in `note` why"),
        (lambda: exact("a", 1, 0.5, seconds=-1), "took -1.0 seconds", "the time it took"),
        (lambda: exact("a", 1, 0.5, seconds=None), "took None seconds", "the time it took"),
    ],
)
def test_what_cannot_be_is_refused(make, message, fix):
    with pytest.raises(StudyError, match=re.escape(message)) as caught:
        make()
    assert fix in caught.value.fix


def test_an_adaptive_cell_that_scored_nan_needs_no_interval():
    assert Cell("a", 1, ADAPTIVE, math.nan, 10).low is None


def test_numbers_and_what_is_none():
    assert plain(np.array([0.5])[0]) == 0.5
    assert equal(None, None)
    assert not equal(None, 0.0)
    assert equal(math.nan, math.nan)
    assert harm(math.nan) == math.inf > harm(3.0)
    with pytest.raises(StudyError, match="the score is None, which is no number"):
        measured(None, "score")


@pytest.mark.parametrize(
    ("worse", "best"),
    [
        (failed("a", 1), bounded("a", 1, 0.2)),
        (bounded("a", 1, 0.2), adaptive("a", 1, 0.5, 0.1, 0.9)),
        (adaptive("a", 1, 0.5, 0.1, 0.9), exact("a", 1, 0.7)),
        (adaptive("a", 1, 0.5, 0.1, 0.9, 10), adaptive("a", 1, 0.6, 0.1, 0.9, 20)),
        (bounded("a", 1, 0.2), bounded("a", 1, 0.2, 0.4)),
        (bounded("a", 1, 0.2, 0.5), bounded("a", 1, 0.2, 0.4)),
        (exact("a", 1, math.nan, seconds=2), exact("a", 1, math.nan, seconds=1)),
        (failed("a", 1, "a"), failed("a", 1, "b")),
        (nothing("a"), nothing("a")),
    ],
)
def test_what_says_more_is_kept_in_either_order(worse, best):
    assert better(worse, best) == best
    assert better(best, worse) == best


def test_two_values_of_one_measurement_are_a_conflict():
    with pytest.raises(
        StudyConflictError,
        match=re.escape(
            "group 'a' with 1 channels removed scored 0.5 before, and 0.6 now, both exact"
        ),
    ) as caught:
        better(exact("a", 1, 0.5), exact("a", 1, 0.6))
    assert "keep one of them" in caught.value.fix
    assert disagree(exact("a", 1, math.nan), exact("a", 1, 0.5))
    assert not disagree(adaptive("a", 1, 0.5, 0, 1, 10), adaptive("a", 1, 0.6, 0, 1, 20))


ends = st.none() | st.sampled_from([0.0, 0.1, 0.2])
cells = st.one_of(
    st.builds(exact, st.just("a"), st.just(1), st.just(0.5), seconds=st.sampled_from([0.0, 1.0])),
    st.builds(adaptive, st.just("a"), st.just(1), st.just(0.5), ends, st.just(0.9)),
    st.builds(bounded, st.just("a"), st.just(1), ends, st.just(0.9)),
    st.builds(failed, st.just("a"), st.just(1), st.sampled_from("xy")),
)


@given(cells, cells, cells)
def test_the_order_of_cells_is_total(a, b, c):
    assert better(a, b) == better(b, a)
    assert better(better(a, b), c) == better(a, better(b, c))
    assert better(a, a) == a
    assert (preference(a) == preference(b)) == (a == b)

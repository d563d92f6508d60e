"""The search ends with two neighbours, one within the budget and one beyond."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prunus.core.engine.search import frontier


def searched(truth, settled_at_once=True):
    """Play the search against known sides; return what was measured, and how it ended."""
    sides, settled = [None] * len(truth), [False] * len(truth)
    steps = 0
    while found := frontier(sides, settled):
        steps += 1
        assert steps < 4 * len(truth) + 4
        for place in found:
            settled[place] = settled_at_once or sides[place] is not None
            sides[place] = truth[place]
    return sides, settled


@pytest.mark.parametrize("settled_at_once", [True, False])
@pytest.mark.parametrize("size", range(12))
def test_every_ordered_curve_is_found_with_few_cells(size, settled_at_once):
    for within in range(size + 1):
        truth = [True] * within + [False] * (size - within)
        sides, settled = searched(truth, settled_at_once)
        for place in (within - 1, within):
            assert not 0 <= place < size or (sides[place] is truth[place] and settled[place])
        assert sum(side is not None for side in sides) <= (size + 1).bit_length()


@given(st.lists(st.booleans(), max_size=9))
def test_any_curve_ends_with_two_neighbours_that_tell(truth):
    sides, settled = searched(truth, settled_at_once=False)
    edge = [True, *sides, False]
    assert any(
        one is True and other is False and all(settled[max(0, k - 1) : k + 1])
        for k, (one, other) in enumerate(itertools.pairwise(edge))
    )


def test_the_last_cell_within_counts_where_the_curve_crosses_twice():
    assert frontier([True, False, True, False], [True] * 4) == []
    assert frontier([True, False, True, False], [True, True, False, False]) == [2, 3]


def test_a_cell_that_changes_sides_is_searched_on_from():
    assert frontier([None, True, None, True, False], [False, True, False, False, True]) == [3]
    assert frontier([None, True, None, False, False], [False, True, False, True, True]) == [2]


def test_a_group_of_one_cell_and_of_none():
    assert frontier([None], [False]) == [0]
    assert frontier([True], [False]) == [0]
    assert frontier([False], [True]) == []
    assert frontier([], []) == []

"""The arithmetic of counts, which needs no graph. With one: test_counts.py."""

from __future__ import annotations

import pytest

from prunus.core.cut.rounding import Axis, Cluster, Part, Rounding

HALVES = Axis(6, True, True, ((1.0, 0.0), (0.0, 1.0)))
TIED = Rounding(
    (6, 6, 10),
    ((1,), (1,), (2,)),
    (Part(2, 10), Part(0, 6), Part(1, 6)),
    (Cluster((1, 2), (HALVES,)),),
)


def test_counts_stand_in_the_order_of_the_parts():
    assert TIED.counts([0.5, 0.5, 0.3]) == [3, 3, 3]
    assert TIED.counts([0.5, 0.0, 0.0]) == [0, 3, 3]  # the other half follows
    assert TIED.by_group([4, 3, 2]) == [3, 2, 4]


def test_alignment_counts_filters():
    # A channel of the last group is two filters: four channels make eight.
    assert TIED.unit(2, 8) == 4
    assert TIED.unit(0, 8) == 8
    assert TIED.rounded(2, 0.5, 8) == 6


@pytest.mark.parametrize(("ratio", "count"), [(0.0, 0), (0.5, 5), (0.99, 9)])
def test_one_group_by_itself(ratio, count):
    assert TIED.rounded(2, ratio) == count

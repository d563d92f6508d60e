"""Spearman's correlation, against SciPy's."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from prunus.core.study.ranks import spearman

values = st.lists(
    st.tuples(st.integers(0, 5).map(float), st.floats(-9, 9)), min_size=3, max_size=30
)


@given(values)
def test_it_is_scipys(pairs):
    a, b = map(list, zip(*pairs, strict=True))
    found = spearman(a, b)
    if len(set(a)) == 1 or len(set(b)) == 1:
        assert found is None
    else:
        assert found == pytest.approx(scipy.stats.spearmanr(a, b).statistic, abs=1e-12)


def test_where_there_is_too_little_there_is_none():
    assert spearman([], []) is None
    assert spearman([1, 2], [1, 2]) is None
    assert spearman([1, 2, math.nan, 4], [1, 2, 3, math.nan]) is None


def test_infinity_is_last_and_nan_is_left_out():
    assert spearman([1, 2, 3, math.nan], [0, 1, math.inf, 5]) == pytest.approx(1)
    assert spearman(np.arange(5), -np.arange(5)) == pytest.approx(-1)

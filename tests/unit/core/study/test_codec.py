"""What is packed is what is unpacked, to the bit."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prunus.core.errors import StudyError
from prunus.core.study.codec import pack, ratio_key, seal, to_column, to_number, unpack

numbers = st.lists(st.floats(width=64) | st.sampled_from([0.0, 1.0, -0.0]), max_size=40)


@given(numbers | st.lists(st.sampled_from([0.0, 1.0])))
def test_scores_come_back_to_the_bit(values):
    expected = np.array(values, np.float64)
    assert unpack(pack(values)).tobytes() == expected.tobytes()


def test_right_and_wrong_take_one_bit_each():
    assert len(pack(np.ones(800, bool))) == 1 + 8 + 100
    assert len(pack(np.full(800, 0.5))) == 1 + 8 * 800
    assert np.signbit(unpack(pack([-0.0, 1.0])))[0]


def test_scores_are_one_number_a_sample():
    with pytest.raises(ValueError, match=r"one number a sample, and these have shape \(2, 2\)"):
        pack(np.ones((2, 2)))


@pytest.mark.parametrize("data", [b"", b"X", b"B", b"B\x09" + bytes(7) + b"\x00", b"D123"])
def test_other_bytes_are_no_scores(data):
    with pytest.raises(ValueError, match=r"no row of scores|multiple of element size"):
        unpack(data)


@given(st.none() | st.floats())
def test_columns_keep_every_number(value):
    back = to_number(to_column(value))
    assert back == value or (math.isnan(back) and math.isnan(value))


@pytest.mark.parametrize("column", ["text", b"nan", True])
def test_another_column_is_no_number(column):
    with pytest.raises(ValueError, match="is no number"):
        to_number(column)


def test_a_seal_tells_columns_apart():
    assert seal("a", 1) == seal("a", 1)
    assert len({seal("a", 1), seal("a", "1"), seal("a1"), seal("a", 1, None), seal(b"a", 1)}) == 5


def test_ratios_that_print_alike_are_one():
    assert ratio_key(0.1 + 0.2) == ratio_key(np.float64(0.3)) == 0.3
    assert math.copysign(1, ratio_key(-0.0)) == 1


@pytest.mark.parametrize("ratio", [1.1, -0.1, math.nan, math.inf, "0.3", True, None, 10**400])
def test_what_is_no_ratio_is_refused(ratio):
    with pytest.raises(StudyError, match="is no ratio") as caught:
        ratio_key(ratio)
    assert "such as 0.5" in caught.value.fix

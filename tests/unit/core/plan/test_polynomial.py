"""Sums of products that functions take for numbers."""

from __future__ import annotations

from math import prod

from hypothesis import given
from hypothesis import strategies as st

from prunus.core.plan.polynomial import Polynomial

lengths = st.lists(st.integers(1, 9), min_size=3, max_size=3)


def at(found: Polynomial, values: list[int]) -> int:
    return sum(factor * prod(values[k] for k in numbers) for factor, numbers in found.data())


def cost(a, b, c):
    return 3 * prod((a, b, 2)) + sum([c * c, a * (b + c)], 0) + max(c, 1) * 5 + 7


@given(lengths, lengths)
def test_a_function_of_lengths_is_that_function_at_other_lengths(before, after):
    variables = [Polynomial.variable(k, value) for k, value in enumerate(before)]
    found = Polynomial.of(cost(*variables))
    assert found.value == cost(*before)
    assert at(found, after) == cost(*after)


def test_the_larger_of_two_is_the_one_that_was_larger():
    stretched, whole = Polynomial.variable(0, 1), Polynomial.variable(1, 4)
    assert max(stretched, whole) is whole
    assert max(whole, 1) is whole
    assert max(1, whole) is whole


def test_zero_has_no_terms():
    assert Polynomial.of(0).data() == []
    assert (Polynomial.of(0) + 0).data() == []

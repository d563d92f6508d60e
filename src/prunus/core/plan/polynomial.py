"""Sums of products of lengths, which the functions that count costs take for numbers.

So there is one formula an operator, in `prunus.core.graph.costs`, and none here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

__all__ = ["Polynomial", "Terms"]

Terms = tuple[tuple[int, tuple[int, ...]], ...]
"""(factor, the numbers of the lengths that are multiplied), added up."""


@dataclass(frozen=True, eq=False)
class Polynomial:
    """A sum of products of numbered lengths, with its value before any cut."""

    factors: dict[tuple[int, ...], int] = field(default_factory=dict)
    value: int = 0

    @classmethod
    def variable(cls, number: int, value: int) -> Polynomial:
        """Return one length."""
        return cls({(number,): 1}, value)

    @classmethod
    def of(cls, value: object) -> Polynomial:
        """Return a number or a polynomial as a polynomial."""
        if isinstance(value, Polynomial):
            return value
        number = int(value)  # type: ignore[call-overload]
        return cls({(): number} if number else {}, number)

    def data(self) -> list[list[Any]]:
        """Return [[factor, [number, ...]], ...]."""
        return [[factor, list(numbers)] for numbers, factor in self.factors.items()]

    def __add__(self, other: object) -> Polynomial:
        other = Polynomial.of(other)
        factors = dict(self.factors)
        for numbers, factor in other.factors.items():
            factors[numbers] = factors.get(numbers, 0) + factor
        return Polynomial(factors, self.value + other.value)

    __radd__ = __add__

    def __mul__(self, other: object) -> Polynomial:
        other = Polynomial.of(other)
        factors: dict[tuple[int, ...], int] = {}
        for mine, a in self.factors.items():
            for yours, b in other.factors.items():
                numbers = tuple(sorted((*mine, *yours)))
                factors[numbers] = factors.get(numbers, 0) + a * b
        return Polynomial(factors, self.value * other.value)

    __rmul__ = __mul__

    # An operand that is stretched has length 1, and `max` finds the other.

    def __lt__(self, other: object) -> bool:
        return self.value < Polynomial.of(other).value

    def __gt__(self, other: object) -> bool:
        return self.value > Polynomial.of(other).value

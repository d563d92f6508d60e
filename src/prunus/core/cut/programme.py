"""A small programme over whole numbers, written down a variable and a row at a time."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterator, Mapping
from math import floor, inf

import numpy as np
from numpy.typing import NDArray

__all__ = ["Programme"]

Terms = Mapping[int, float]
"""A sum: variable to factor."""


class Programme:
    """Minimises a sum of prices and distances; every variable is 0 or more."""

    def __init__(self) -> None:
        self._prices: list[float] = []
        self._most: list[float] = []
        self._whole: list[bool] = []
        self._places: list[tuple[int, int]] = []
        self._factors: list[float] = []
        self._low: list[float] = []
        self._high: list[float] = []

    def variable(self, *, price: float = 0.0, most: float = inf, whole: bool = False) -> int:
        """Add a variable; return its number."""
        self._prices.append(price)
        self._most.append(most)
        self._whole.append(whole)
        return len(self._prices) - 1

    def constrain(self, terms: Terms, least: float, most: float) -> None:
        """Keep a sum between two numbers."""
        row = len(self._low)
        self._places += [(row, variable) for variable in terms]
        self._factors += terms.values()
        self._low.append(least)
        self._high.append(most)

    def near(self, terms: Terms, target: float, price: float) -> None:
        """Pay `price` for each step that a whole sum is away from `target`."""
        away = self.variable(price=price)
        for sign in (1.0, -1.0):
            one_side = {variable: sign * factor for variable, factor in terms.items()}
            self.constrain({**one_side, away: -1.0}, -inf, sign * target)
        below = floor(target)
        rest = target - below
        if rest:
            # No whole number is nearer than its neighbours of the target. To say so makes
            # the programme without whole numbers, which is solved first, nearly exact.
            slope = 1.0 - 2.0 * rest
            chord = {variable: slope * factor for variable, factor in terms.items()}
            self.constrain({**chord, away: -1.0}, -inf, slope * below - rest)

    def solve(self) -> NDArray[np.float64] | None:
        """Return the best value of each variable; None where nothing satisfies all rows."""
        # SciPy's optimisers take longer to import than a whole plan takes to make.
        from scipy.optimize import Bounds, LinearConstraint, milp
        from scipy.sparse import csr_array

        shape = (len(self._low), len(self._prices))
        rows, columns = zip(*self._places, strict=True)
        table = csr_array((self._factors, (rows, columns)), shape=shape)
        with _quiet():
            found = milp(
                np.array(self._prices),
                integrality=np.array(self._whole, np.int8),
                bounds=Bounds(0, np.array(self._most)),
                constraints=LinearConstraint(table, self._low, self._high),
                options={"time_limit": 10.0},
            )
        best: NDArray[np.float64] | None = found.x
        return best


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep what the solver prints by itself out of the output.

    HiGHS has a forgotten line of debugging that no option turns off, and C keeps it in a
    buffer of its own: somebody's JSON would end with it.
    """
    try:
        kept, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    except OSError:  # there is no output to keep clean
        yield
        return
    _flush()
    os.dup2(nowhere, 1)
    try:
        yield
    finally:
        _flush()
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nowhere)


def _flush() -> None:
    try:
        ctypes.CDLL(None).fflush(None)
    except (AttributeError, OSError, TypeError):  # no such library here
        return

"""Criteria: which filters of one weight matter least.

A criterion looks at one weight, its filters along axis 0 of the array it is given, and
returns one number a filter; the smallest go first. `taylor` also reads the gradient.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from prunus.core.errors import CriterionError, nearest

__all__ = ["CRITERIA", "Array", "Criterion", "find_criterion", "fpgm", "l1", "l2", "taylor"]

Array = NDArray[np.floating]
Criterion = Callable[[Array], Array]


def l1(filters: Array) -> Array:
    """Sum of absolute values."""
    sums: Array = np.abs(filters).reshape(len(filters), -1).sum(axis=1, dtype=np.float64)
    return sums


def l2(filters: Array) -> Array:
    """Euclidean length."""
    rows = filters.reshape(len(filters), -1).astype(np.float64, copy=False)
    lengths: Array = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    return lengths


def fpgm(filters: Array) -> Array:
    """Sum of distances to the other filters: near the geometric median is replaceable."""
    rows = filters.reshape(len(filters), -1).astype(np.float64)
    rows -= rows.mean(axis=0)  # distances stay, and their squares lose fewer digits
    square = np.einsum("ij,ij->i", rows, rows)
    distance = square[:, None] + square[None, :] - 2 * rows @ rows.T
    np.fill_diagonal(distance, 0.0)
    sums: Array = np.sqrt(np.maximum(distance, 0.0)).sum(axis=1)
    return sums


def taylor(filters: Array, gradient: Array) -> Array:
    """How much the loss changes, to first order, without the filter: |sum of weight * gradient|."""
    product = (filters.astype(np.float64) * gradient).reshape(len(filters), -1)
    changes: Array = np.abs(product.sum(axis=1))
    return changes


CRITERIA: dict[str, Criterion | None] = {
    "l1": l1,
    "l2": l2,
    "fpgm": fpgm,
    # These need more than one weight; `group.py` knows what.
    "bn_scale": None,
    "taylor": None,
    "random": None,
}


def find_criterion(name: str) -> str:
    """Return `name` if it is a criterion."""
    if not isinstance(name, str) or name not in CRITERIA:
        raise CriterionError(
            f"there is no criterion {name!r}; the nearest is {nearest(str(name), CRITERIA, 1)}",
            fix=f"use one of {', '.join(map(repr, CRITERIA))}, or pass a function "
            "from filters (an array, one filter a row) to scores",
        )
    return name

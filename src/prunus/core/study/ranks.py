"""How well one order agrees with another."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["spearman"]


def spearman(a: Sequence[float], b: Sequence[float]) -> float | None:
    """Return the correlation of the ranks, equal values sharing theirs; NaN is left out.

    None where fewer than three pairs are left, or where either side is all alike.
    """
    pairs = np.array([pair for pair in zip(a, b, strict=True) if not np.isnan(pair).any()])
    if len(pairs) < 3:
        return None
    first, second = _ranks(pairs[:, 0]), _ranks(pairs[:, 1])
    first, second = first - first.mean(), second - second.mean()
    scale = float(np.sqrt((first @ first) * (second @ second)))
    return float(first @ second) / scale if scale else None


def _ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    shared: NDArray[np.float64] = (last - (count - 1) / 2)[place.reshape(-1)]
    return shared

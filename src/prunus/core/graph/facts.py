"""What a rule may say about the axes around one node.

Facts are data. They can be printed, tested against NumPy, and dropped one at a
time to see that each is needed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from prunus.core.graph.ir import Dim

__all__ = [
    "Balance",
    "Couple",
    "Fact",
    "Filters",
    "Free",
    "Freeze",
    "Index",
    "Mixes",
    "Sized",
    "Sums",
]

Index = NDArray[np.intp]


@dataclass(frozen=True, slots=True, eq=False)
class Couple:
    """Index `a_index[k]` of `a` lives and dies with index `b_index[k]` of `b`, for every k.

    No index array means the whole axis in order: with neither, "the same channel".
    """

    a: Dim
    b: Dim
    a_index: Index | None = None
    b_index: Index | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Freeze:
    """Those indices of `dim` (all, without `index`) stay; `because` is shown as it stands."""

    dim: Dim
    because: str
    index: Index | None = None


@dataclass(frozen=True, slots=True)
class Balance:
    """The axis is `runs` equal runs, one after the other, that must lose the same number each."""

    dim: Dim
    runs: int
    firm: bool = True
    """False where the op works on other runs too, but the model's code may count on equal ones."""


@dataclass(frozen=True, slots=True, eq=False)
class Sized:
    """The node's attribute is a length: of the whole axis `dim`, or of its part `index`.

    `position` counts inside an attribute that is a list (a reshape's target, split sizes).
    """

    attr: str
    dim: Dim
    position: int | None = None
    index: Index | None = None


@dataclass(frozen=True, slots=True)
class Mixes:
    """The op reduces or normalises over `dim`: a cut there is not the same as zeros there."""

    dim: Dim


@dataclass(frozen=True, slots=True)
class Sums:
    """The op adds up over `dim`, weighed: zeros there are a cut, but what stays has new values.

    Where a cut touches neither a `Sums` nor a `Mixes`, what stays is what it was: an
    engine takes it from the original's run.
    """

    dim: Dim


@dataclass(frozen=True, slots=True)
class Filters:
    """`dim` of a weight is made of filters: what users name, and what scores are given to."""

    dim: Dim


@dataclass(frozen=True, slots=True)
class Free:
    """The node makes `dim` out of nothing (zeros, expand): it may have any length."""

    dim: Dim


Fact = Couple | Freeze | Balance | Sized | Mixes | Sums | Filters | Free

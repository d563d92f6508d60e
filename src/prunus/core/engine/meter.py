"""What the engine asks of a framework: run batches through the original and its cuts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from prunus.core.study.cells import Key

__all__ = ["Meter", "Readings", "Scores"]

Scores = NDArray[np.float64]
"""One number a sample."""


@dataclass(frozen=True, eq=False)
class Readings:
    """What one batch has shown."""

    baseline: Scores
    scores: Mapping[Key, Scores]
    failures: Mapping[Key, str] = field(default_factory=dict)
    """Cells whose cut model could not be run, and why."""


class Meter(Protocol):
    """Knows a model, its cuts, and how to read a metric off them.

    Every number is that of a really cut model: rounding aside, what the naive loop
    would give, which builds each cut model and runs it over all the data.
    """

    per_sample: bool
    """Whether the metric is a mean of one score a sample, or an object with a state."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Return what the user should know about how it was measured."""
        ...

    @property
    def length(self) -> int | None:
        """Return how many batches there are, if the data tells."""
        ...

    def batches(self) -> Iterator[Any]:
        """Go through the data once, in its own order."""
        ...

    def shuffled(self, seed: int, size: int) -> Sequence[Callable[[], Any]]:
        """Return the data in random order, as functions that make a batch of `size` samples."""
        ...

    def digest(self, batch: Any) -> str:
        """Return a fingerprint of what is in a batch."""
        ...

    def read(self, batch: Any, keys: Sequence[Key]) -> Readings:
        """Run one batch through the original, and what depends on the cut through each cut."""
        ...

    def read_all(self, keys: Sequence[Key]) -> tuple[float, Mapping[Key, float | str], int]:
        """Go through all the data with an object metric: baseline, values or failures, samples."""
        ...

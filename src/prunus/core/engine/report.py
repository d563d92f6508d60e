"""How far an analysis has come: what a progress bar shows."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from prunus.core.engine.meter import Scores
from prunus.core.study.cells import Key

__all__ = ["Clock", "Listener", "Losses", "Tick"]


@dataclass(frozen=True, slots=True)
class Tick:
    """The state of an analysis at one moment."""

    stage: str
    """What is going on: "baseline", "measuring", "estimating"."""
    done: int
    total: int | None
    """In units of `unit`; None where nobody knows how many there are."""
    unit: str
    """ "batches" or "cells"."""
    rate: float
    """Samples or cells that were evaluated a second, over the run so far."""
    seconds_left: float | None
    worst: tuple[tuple[str, float], ...] = ()
    """The groups that lose most so far, with their relative loss."""


Listener = Callable[[Tick], None]


class Losses:
    """Running means of the baseline and of each cell, and what they lose."""

    def __init__(self, higher_is_better: bool) -> None:
        self._sign = 1.0 if higher_is_better else -1.0
        self._sums: dict[Key | None, tuple[float, int]] = {}

    def add(self, key: Key | None, scores: Scores) -> None:
        """Note scores of a cell, or with None of the whole model."""
        total, count = self._sums.get(key, (0.0, 0))
        self._sums[key] = total + float(scores.sum()), count + len(scores)

    def put(self, key: Key | None, metric: float) -> None:
        """Note the metric of a finished cell."""
        self._sums[key] = metric, 1

    def worst(self) -> tuple[tuple[str, float], ...]:
        """Return the three groups that lose most in their worst cell, relative to the baseline."""
        whole = self._mean(None)
        if not 0 < abs(whole) < math.inf:
            return ()
        found: dict[str, float] = {}
        for key in self._sums:
            if key is not None:
                loss = self._sign * (whole - self._mean(key)) / abs(whole)
                found[key.group] = max(loss, found.get(key.group, -math.inf))
        return tuple(sorted(found.items(), key=lambda pair: -pair[1])[:3])

    def _mean(self, key: Key | None) -> float:
        total, count = self._sums.get(key, (math.nan, 1))
        return total / max(count, 1)


class Clock:
    """Counts work, and tells a listener at most a few times a second."""

    def __init__(
        self, stage: str, unit: str, total: int | None, losses: Losses, listener: Listener | None
    ) -> None:
        self._stage, self._unit, self._total = stage, unit, total
        self._losses, self._listener = losses, listener
        self._done = self._skipped = 0
        self._work = 0.0
        self._started = time.monotonic()
        self._told = 0.0

    def skip(self) -> None:
        """Note a unit that was finished in an earlier run."""
        self._done += 1
        self._skipped += 1

    def advance(self, work: float) -> None:
        """Note a finished unit, and how many evaluations it was."""
        self._done += 1
        self._work += work
        now = time.monotonic()
        last = self._done == self._total
        if self._listener is None or (now - self._told < 0.2 and not last):
            return
        self._told = now
        passed = max(now - self._started, 1e-9)
        left = None
        if self._total is not None:
            left = (self._total - self._done) * passed / max(1, self._done - self._skipped)
        self._listener(
            Tick(
                self._stage,
                self._done,
                self._total,
                self._unit,
                self._work / passed,
                left,
                self._losses.worst(),
            )
        )

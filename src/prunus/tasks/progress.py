"""How far a training is, for whoever shows it. The library itself prints nothing."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

__all__ = ["Clock", "Listener", "Progress"]


@dataclass(frozen=True)
class Progress:
    """One moment of a training."""

    phase: Literal["train", "test"]
    epoch: int
    """From 1."""
    epochs: int
    step: int
    """Steps of training that are done, in all epochs; while testing, batches of this test."""
    steps: int
    """Of how many."""
    loss: float | None
    """The mean over this epoch so far."""
    rate: float
    metric: float | None
    """Of the last epoch that was tested."""
    best: float | None
    seconds: float
    """Of this run, without those before an interruption."""
    seconds_left: float | None
    """None until something was measured."""


Listener = Callable[[Progress], None]


class Clock:
    """Measures how long the steps of this run take, tests included."""

    def __init__(self, done: int, total: int) -> None:
        self.start, self.first, self.total = time.monotonic(), done, total

    @property
    def seconds(self) -> float:
        """Return the seconds since the start of this run."""
        return time.monotonic() - self.start

    def left(self, done: int) -> float | None:
        """Return the seconds that the other steps will take, at the pace so far."""
        if done <= self.first:
            return None
        return self.seconds / (done - self.first) * (self.total - done)

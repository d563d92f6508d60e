"""The learning rate as a function of the step alone.

So a training that goes on after an interruption needs no state to find its rate again,
and every framework has the same one.
"""

from __future__ import annotations

import math

from prunus.tasks.settings import TrainSettings

__all__ = ["rate_at"]


def rate_at(settings: TrainSettings, step: int, steps: int) -> float:
    """Return the learning rate of a step, counted from 0, where an epoch has `steps`."""
    warm = round(settings.warmup_epochs * steps)
    if step < warm:
        return settings.learning_rate * (step + 1) / (warm + 1)
    return settings.learning_rate * _share(settings, step, steps, warm)


def _share(settings: TrainSettings, step: int, steps: int, warm: int) -> float:
    if settings.schedule == "cosine":
        done = (step - warm) / (settings.epochs * steps - warm)
        return (1 + math.cos(math.pi * done)) / 2
    if settings.schedule == "step":
        falls = settings.step_epochs or (settings.epochs / 2, settings.epochs * 3 / 4)
        return settings.step_factor ** sum(step >= round(epoch * steps) for epoch in falls)
    return 1.0

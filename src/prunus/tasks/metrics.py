"""The metric that a settings file names, and an evaluation with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prunus.core.engine.evaluation import NAMED, Evaluation
from prunus.core.errors import EvaluationError, nearest
from prunus.tasks.models import named, short

if TYPE_CHECKING:
    from prunus.tasks.settings import MetricSettings

__all__ = ["evaluation_of", "load_metric"]


def load_metric(settings: MetricSettings) -> Any:
    """Return "top1", "top5", a function, or an object with update, compute and reset."""
    name = settings.name
    if name in NAMED:
        return name
    if ":" not in name:
        raise EvaluationError(
            f"there is no metric {name!r}",
            fix=f"use {nearest(name, NAMED)}, or MODULE:OBJECT for one of your own",
        )
    found = named(name)
    if isinstance(found, type):
        try:
            return found()
        except Exception as error:  # the user's class may raise anything
            raise EvaluationError(
                f"metric {name!r} cannot be built without arguments: {short(error)}",
                fix="make an object of it in your module, and name that object",
            ) from error
    return found


def evaluation_of(batches: Any, settings: MetricSettings, name: str = "") -> Evaluation:
    """Return the evaluation of batches of (images, labels) by the metric of the settings."""
    return Evaluation(
        batches,
        load_metric(settings),
        higher_is_better=settings.higher_is_better,
        key=settings.key,
        name=name,
    )

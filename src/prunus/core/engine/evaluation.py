"""What to measure a model by: the data, and what is made of the model's output.

The engine owns the loop over the data, which is what lets it read each batch once for
all the cuts of a study. Nothing here knows a framework: a backend moves batches and
computes scores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from prunus.core.errors import EvaluationError

__all__ = ["Evaluation", "Opaque", "batches_of", "inputs_of", "length_of", "name_of", "target_of"]

NAMED = ("top1", "top5")
_TARGETS = ("target", "targets", "label", "labels", "y")


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The data, the metric, and how to run the model on a batch.

    Args:
        batches: Anything that can be gone through more than once: a loader, a list, a
            function that gives an iterator.
        metric: "top1", "top5", a function from the model's output and the batch to one
            score a sample, or an object with `update`, `compute` and `reset`.
        forward: `forward(model, batch)` returns the model's output; by default the model
            is called on the first part of a batch.
        higher_is_better: False where the metric is a loss.
        target: From a batch to what the output is compared with; by default its second
            part, or its entry "target" or "label".
        key: Which entry counts, where the metric's `compute` returns several.
        bounds: The smallest and largest score a sample can have; needed to stop early
            with a guarantee, and known for "top1" and "top5".
        loss: From the model's output and the batch to a loss that has a gradient, for the
            first look; by default cross-entropy.
        name: What the data is called, in the study and its reports.
    """

    batches: Any
    metric: Any = "top1"
    forward: Callable[[Any, Any], Any] | None = None
    higher_is_better: bool = True
    target: Callable[[Any], Any] | None = None
    key: str | None = None
    bounds: tuple[float, float] | None = None
    loss: Callable[[Any, Any], Any] | None = None
    name: str = ""

    def __post_init__(self) -> None:
        if isinstance(self.metric, str) and self.metric not in NAMED:
            raise EvaluationError(
                f"there is no metric {self.metric!r}",
                fix=f"use one of {', '.join(map(repr, NAMED))}, a function (output, batch) -> one "
                "score a sample, or an object with update, compute and reset",
            )
        if not isinstance(self.metric, str) and not callable(self.metric) and not self.is_object:
            raise EvaluationError(
                f"a {type(self.metric).__name__} is no metric",
                fix='give "top1", a function (output, batch) -> one score a sample, or an object '
                "with update, compute and reset",
            )
        if not callable(self.batches) and not isinstance(self.batches, Iterable):
            raise EvaluationError(
                f"a {type(self.batches).__name__} is not made of batches",
                fix="give a loader, a list of batches, or a function that returns an iterator",
            )
        if isinstance(self.batches, Iterator):
            raise EvaluationError(
                "the batches are an iterator, which can be gone through only once",
                fix="pass what makes it: the loader, a list, or the generator function itself, "
                "without calling it",
            )
        if self.bounds is not None and not self.bounds[0] < self.bounds[1]:
            raise EvaluationError(
                f"no score lies within bounds={self.bounds}", fix="give (smallest, largest)"
            )

    @property
    def is_object(self) -> bool:
        """Tell whether the metric is an object that keeps a state of its own."""
        return not isinstance(self.metric, type) and all(
            callable(getattr(self.metric, name, None)) for name in ("update", "compute", "reset")
        )

    @property
    def metric_name(self) -> str:
        """Return what a study calls the metric."""
        if isinstance(self.metric, str):
            return self.metric
        name = type(self.metric).__name__ if self.is_object else name_of(self.metric)
        return f"{name}[{self.key}]" if self.key else name


@dataclass(frozen=True, eq=False)
class Opaque:
    """A user's own `evaluate(model)`: the seeds' way, one full evaluation a cell."""

    evaluate: Callable[[Any], Any]
    higher_is_better: bool = True
    name: str = ""

    def __post_init__(self) -> None:
        if not callable(self.evaluate):
            raise EvaluationError(
                f"a {type(self.evaluate).__name__} evaluates no model",
                fix="pass prunus.Evaluation(batches, metric), or a function from a model to a "
                "number",
            )

    @property
    def metric_name(self) -> str:
        """Return what a study calls the metric."""
        return name_of(self.evaluate)


def name_of(function: Any) -> str:
    """Return what a study calls a function of the user's."""
    module = getattr(function, "__module__", "") or ""
    name = getattr(function, "__qualname__", "") or type(function).__name__
    return f"{module}.{name}".strip(".")


def length_of(evaluation: Evaluation) -> int | None:
    """Return how many batches there are, if the data tells."""
    try:
        return len(evaluation.batches)
    except TypeError:
        return None


def batches_of(evaluation: Evaluation) -> Iterator[Any]:
    """Start to go through the batches."""
    source = evaluation.batches
    found = source() if callable(source) and not isinstance(source, Iterable) else source
    yield from found


def inputs_of(batch: Any) -> Any:
    """Return the part of a batch that the model is called on by default."""
    if isinstance(batch, list | tuple):
        if not batch:
            raise EvaluationError("a batch is empty", fix="leave empty batches out")
        return batch[0]
    return batch


def target_of(evaluation: Evaluation, batch: Any) -> Any:
    """Return the part of a batch that the output is compared with."""
    if evaluation.target is not None:
        return evaluation.target(batch)
    if isinstance(batch, list | tuple) and len(batch) > 1:
        return batch[1]
    if isinstance(batch, Mapping):
        for name in _TARGETS:
            if name in batch:
                return batch[name]
    raise EvaluationError(
        f"no target is found in a batch that is a {type(batch).__name__}",
        fix="make each batch (inputs, target), or say where it is: "
        "Evaluation(..., target=lambda batch: batch['answers'])",
    )

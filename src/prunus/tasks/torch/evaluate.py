"""How good a model is on a data set."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sized

import numpy as np
import torch
from torch import nn

from prunus.backends.torch.batches import run_on, to_home
from prunus.backends.torch.metrics import StateMetric, metric_of
from prunus.backends.torch.untouched import evaluating
from prunus.core.engine.evaluation import Evaluation, batches_of
from prunus.core.errors import EvaluationError, PrunusError
from prunus.tasks.models import short

__all__ = ["evaluate"]


def evaluate(
    model: nn.Module,
    evaluation: Evaluation,
    *,
    progress: Callable[[int, int | None], None] | None = None,
) -> float:
    """Return the metric of a model, which is left as it was found.

    Args:
        model: Runs in evaluation mode, on the device it is on.
        evaluation: The batches and the metric.
        progress: Called after each batch with how many are done, and of how many.
    """
    metric = metric_of(evaluation)
    state = metric.fresh() if isinstance(metric, StateMetric) else None
    scores = []
    count = 0
    source = evaluation.batches
    total = len(source) if isinstance(source, Sized) else None
    with torch.no_grad(), evaluating(model):
        for count, given in enumerate(batches_of(evaluation), 1):
            batch = to_home(given, model)
            output = run_on(model, batch, count, evaluation.forward)
            with _told(evaluation):
                if isinstance(metric, StateMetric):
                    metric.update(state, output, batch)
                else:
                    scores.append(metric.scores(output, batch))
            if progress is not None:
                progress(count, total)
        if not count:
            raise EvaluationError(
                "there is no batch to evaluate on", fix="give batches of test images"
            )
        with _told(evaluation):
            if isinstance(metric, StateMetric):
                return metric.value(state)
    return float(np.concatenate(scores).mean())


@contextlib.contextmanager
def _told(evaluation: Evaluation) -> Iterator[None]:
    try:
        yield
    except PrunusError:
        raise
    except Exception as error:  # the user's own metric may raise anything
        raise EvaluationError(
            f"metric {evaluation.metric_name!r} fails: {short(error)}",
            fix="correct it; it is given the model's output and a batch of (images, labels), or "
            "as an object with update the output and the labels",
        ) from error

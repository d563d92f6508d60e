"""Run a model on a batch of a user's data, and tell what is wrong where it does not run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_map

from prunus.core.engine.evaluation import inputs_of
from prunus.core.errors import EvaluationError, PrunusError

__all__ = ["Forward", "run_on", "to_home"]

Forward = Callable[[nn.Module, Any], Any]


def to_home(batch: Any, model: nn.Module) -> Any:
    """Return the batch with its tensors where the model's weights are."""
    home = next((one.device for one in model.parameters()), None)
    if home is None:
        return batch
    return tree_map(lambda one: one.to(home) if isinstance(one, torch.Tensor) else one, batch)


def run_on(model: nn.Module, batch: Any, number: int, forward: Forward | None = None) -> Any:
    """Return the model's output on a batch; `number` is what an error calls the batch."""
    try:
        return forward(model, batch) if forward is not None else _called(model, batch)
    except PrunusError:
        raise
    except Exception as error:  # the user's own forward may raise anything
        raise EvaluationError(
            f"the model does not run on batch {number}: {type(error).__name__}: {error}",
            fix=_advice(error),
        ) from error


def _advice(error: Exception) -> str:
    if isinstance(error, torch.OutOfMemoryError):
        return "give smaller batches: data.batch_size"
    if "more than 1 value per channel" in str(error):
        return "give batches of more than one image, for batch norms need several"
    return "give batches the model accepts, or say how it is called on one: forward="


def _called(model: nn.Module, batch: Any) -> Any:
    given = inputs_of(batch)
    return model(**given) if isinstance(given, Mapping) else model(given)

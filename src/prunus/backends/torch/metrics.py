"""Scores of a PyTorch model's output, one a sample, and objects that keep a state."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from prunus.core.engine.evaluation import Evaluation, target_of
from prunus.core.errors import EvaluationError

__all__ = ["PerSample", "StateMetric", "TopK", "mean_loss", "metric_of", "value_of"]

Scores = NDArray[np.float64]


class PerSample(Protocol):
    """A metric that is the mean of one score a sample."""

    def scores(self, output: Any, batch: Any) -> Scores:
        """Return one score a sample."""
        ...


def metric_of(evaluation: Evaluation) -> PerSample | StateMetric:
    """Return how to score outputs."""
    if evaluation.is_object:
        return StateMetric(evaluation)
    if isinstance(evaluation.metric, str):
        return TopK(evaluation, int(evaluation.metric.removeprefix("top")))
    return Function(evaluation)


class TopK:
    """Is the target among the k largest outputs? Over further axes: the share where it is."""

    def __init__(self, evaluation: Evaluation, k: int) -> None:
        self.evaluation, self.k = evaluation, k

    def scores(self, output: Any, batch: Any) -> Scores:
        """Return 1.0 or 0.0 a sample."""
        output, target = self._read(output, batch)
        if self.k == 1:
            right = output.argmax(1) == target
        else:
            k = min(self.k, output.shape[1])
            right = (output.topk(k, 1).indices == target.unsqueeze(1)).any(1)
        found: Scores = _by_sample(right).cpu().numpy()
        return found

    def unsure(self, output: Any, batch: Any, tolerance: float) -> bool:
        """Tell whether another class is so near to the target's that rounding may decide."""
        output, target = self._read(output, batch)
        if not bool(output.isfinite().all()):
            return True
        own = output.gather(1, target.unsqueeze(1))
        others = output.scatter(1, target.unsqueeze(1), float("-inf"))
        k = min(self.k, output.shape[1] - 1)
        if k < 1:
            return False
        rival = others.topk(k, 1).values[:, -1:]
        scale = output.abs().amax(1, keepdim=True)
        return bool(((own - rival).abs() <= tolerance * scale).any())

    def _read(self, output: Any, batch: Any) -> tuple[torch.Tensor, torch.Tensor]:
        target = target_of(self.evaluation, batch)
        name = f"metric 'top{self.k}'"
        if not isinstance(output, torch.Tensor) or output.ndim < 2:
            told = tuple(output.shape) if isinstance(output, torch.Tensor) else _kind(output)
            raise EvaluationError(
                f"{name} needs an output of (samples, classes), and the model gives {told}",
                fix="say what to take: Evaluation(..., forward=lambda model, batch: "
                "model(batch[0])['out'])",
            )
        if not isinstance(target, torch.Tensor) or target.is_floating_point():
            raise EvaluationError(
                f"{name} needs targets that are class numbers, and a batch has {_kind(target)}",
                fix="make the targets a tensor of whole numbers, or pass target=lambda batch: ...",
            )
        output, target = output.detach().float(), target.to(output.device)
        wanted = (output.shape[0], *output.shape[2:])
        if tuple(target.shape) != wanted:
            raise EvaluationError(
                f"{name}: an output of {tuple(output.shape)} goes with targets of {wanted}, and "
                f"a batch has {tuple(target.shape)}",
                fix="give one class number a sample; pass target=lambda batch: ... to reshape",
            )
        if len(target) and not 0 <= int(target.min()) <= int(target.max()) < output.shape[1]:
            raise EvaluationError(
                f"{name}: a target lies outside of the {output.shape[1]} classes of the output",
                fix="number the classes from 0, and leave out samples that have none",
            )
        return output, target


class Function:
    """A user's function from output and batch to one score a sample."""

    def __init__(self, evaluation: Evaluation) -> None:
        self.evaluation = evaluation

    def scores(self, output: Any, batch: Any) -> Scores:
        """Return what the function returns, as numbers."""
        found = self.evaluation.metric(output, batch)
        if isinstance(found, torch.Tensor):
            found = found.detach().double().cpu().numpy()
        try:
            scores: Scores = np.asarray(found, np.float64)
        except (TypeError, ValueError):
            scores = np.empty(())
        if scores.ndim != 1:
            told = f"an array of shape {scores.shape}" if np.ndim(found) else _kind(found)
            raise EvaluationError(
                f"metric {self.evaluation.metric_name!r} returned {told} for a batch",
                fix="return one score a sample, such as a loss with reduction='none'; a number "
                "for the whole batch cannot be averaged rightly",
            )
        return scores


class StateMetric:
    """An object with `update`, `compute` and `reset`, as those of torchmetrics."""

    def __init__(self, evaluation: Evaluation) -> None:
        self.evaluation = evaluation

    def fresh(self) -> Any:
        """Return a copy that has seen nothing."""
        metric = copy.deepcopy(self.evaluation.metric)
        metric.reset()
        return metric

    def update(self, metric: Any, output: Any, batch: Any) -> None:
        """Show the metric one batch."""
        metric.update(output, target_of(self.evaluation, batch))

    def value(self, metric: Any) -> float:
        """Return what the metric has come to."""
        return value_of(metric.compute(), self.evaluation.key, self.evaluation.metric_name)


def mean_loss(evaluation: Evaluation, output: Any, batch: Any) -> torch.Tensor:
    """Return a loss that has a gradient: the user's, or cross-entropy where classes are named."""
    if evaluation.loss is not None:
        found = evaluation.loss(output, batch)
    elif isinstance(evaluation.metric, str):
        found = torch.nn.functional.cross_entropy(output, target_of(evaluation, batch))
    else:
        raise EvaluationError(
            f"estimate= follows the gradient of a loss, and metric {evaluation.metric_name!r} "
            "has none that is known",
            fix="pass Evaluation(..., loss=lambda output, batch: ...), or leave estimate= out",
        )
    if not isinstance(found, torch.Tensor) or not found.requires_grad:
        raise EvaluationError(
            f"the loss is {_kind(found)}, through which no gradient flows",
            fix="compute it from the output with differentiable operators, and return a tensor",
        )
    return found.mean()


def value_of(found: Any, key: str | None, name: str) -> float:
    """Return the one number in what a metric computes."""
    if isinstance(found, Mapping):
        if key is None or key not in found:
            known = ", ".join(repr(one) for one in list(found)[:8])
            problem = "which of them counts" if key is None else f"there is no {key!r}"
            raise EvaluationError(
                f"metric {name!r} computes several values, and {problem}",
                fix=f"pass Evaluation(..., key=...) with one of {known}",
            )
        found = found[key]
    try:
        return float(found)
    except (TypeError, ValueError, RuntimeError):
        raise EvaluationError(
            f"metric {name!r} computes {_kind(found)}, which is no number",
            fix="use a metric that averages over classes, such as average='macro'",
        ) from None


def _by_sample(right: torch.Tensor) -> torch.Tensor:
    # Not `reshape(len(right), -1)`: of a batch without samples -1 could be anything.
    return right.double().flatten(1).mean(1) if right.ndim > 1 else right.double()


def _kind(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return (
            f"a tensor of {str(value.dtype).removeprefix('torch.')} and shape {tuple(value.shape)}"
        )
    return f"a {type(value).__name__}"

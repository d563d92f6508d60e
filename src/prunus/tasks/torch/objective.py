"""What a training makes small: the distance to the labels, and to a teacher's answers."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

from prunus.core.errors import TrainingError
from prunus.tasks.settings import DistillationSettings, TrainSettings

__all__ = ["Objective"]


class Objective:
    """The loss of a batch."""

    def __init__(self, settings: TrainSettings, teacher: nn.Module | None) -> None:
        self.smoothing, self.distillation = settings.label_smoothing, settings.distillation
        self.teacher = teacher

    def loss(self, output: Any, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Return the loss, in single precision."""
        scores = scores_of(output, labels)
        loss = functional.cross_entropy(scores, labels, label_smoothing=self.smoothing)
        if self.teacher is None or self.distillation is None:
            return loss
        with torch.no_grad():
            taught = scores_of(self.teacher(images), labels)
        if taught.shape != scores.shape:
            raise TrainingError(
                f"the teacher tells {taught.shape[1]} classes apart, the model {scores.shape[1]}",
                fix="learn from a teacher of the same classes",
            )
        weight = self.distillation.weight
        return (1 - weight) * loss + weight * _distance(scores, taught, self.distillation)


def scores_of(output: Any, labels: torch.Tensor) -> torch.Tensor:
    """Return one score a class for each image."""
    scores = getattr(output, "logits", output)  # some models give more while they are trained
    if not isinstance(scores, torch.Tensor) or scores.ndim != 2 or len(scores) != len(labels):
        told = (
            f"a tensor of shape {tuple(scores.shape)}"
            if isinstance(scores, torch.Tensor)
            else f"a {type(scores).__name__}"
        )
        raise TrainingError(
            f"for {len(labels)} images the model gives {told}, and not one score a class for each",
            fix="this trainer is for classifiers; train other models in your own loop, "
            "as the documentation shows",
        )
    return scores.float()


def _distance(
    scores: torch.Tensor, taught: torch.Tensor, settings: DistillationSettings
) -> torch.Tensor:
    """The divergence of softened answers, times temperature squared: as strong as the labels."""
    heat = settings.temperature
    return heat**2 * functional.kl_div(
        functional.log_softmax(scores / heat, 1),
        functional.log_softmax(taught / heat, 1),
        reduction="batchmean",
        log_target=True,
    )

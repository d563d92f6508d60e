"""A model while it learns: its weights, their running mean, and what the optimiser remembers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

import torch
from torch import nn

from prunus.backends.torch.batches import run_on
from prunus.core.errors import TrainingError
from prunus.tasks.settings import TrainSettings
from prunus.tasks.torch import checkpoint
from prunus.tasks.torch.averaging import Average, put, taken
from prunus.tasks.torch.checkpoint import Checkpoint, State
from prunus.tasks.torch.objective import Objective, scores_of
from prunus.tasks.torch.optimizers import Precision, build_optimizer

__all__ = ["Learner"]


class Learner:
    """Takes steps, and can be written down and put back."""

    def __init__(
        self,
        model: nn.Module,
        settings: TrainSettings,
        teacher: nn.Module | None,
        classes: int,
        device: torch.device,
    ) -> None:
        self.model, self.device, self.classes, self.clip = model, device, classes, settings.clip
        self.objective = Objective(settings, teacher)
        self.optimizer = build_optimizer(model, settings)
        self.precision = Precision(settings.mixed_precision, device)
        self.average = Average(model, settings.ema_decay) if settings.ema_decay else None

    @property
    def rate(self) -> float:
        """Return the learning rate of the last step."""
        return float(self.optimizer.param_groups[0]["lr"])

    def step(
        self, images: torch.Tensor, labels: torch.Tensor, rate: float, number: int
    ) -> torch.Tensor:
        """Learn from one batch; return its loss, which nobody has waited for yet."""
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        largest, smallest = int(labels.max()), int(labels.min())
        images, labels = images.to(self.device), labels.to(self.device)
        with self.precision.autocast():
            output = run_on(self.model, (images, labels), number)
            self._check_classes(scores_of(output, labels).shape[1], largest, smallest)
            loss = self.objective.loss(output, images, labels)
        try:
            self.precision.step(loss, self.optimizer, self.model.parameters(), self.clip)
        except torch.OutOfMemoryError as error:
            raise TrainingError(
                f"the memory of the {self.device.type} is too small for a batch of {len(images)}",
                fix="lower data.batch_size, and train.learning_rate by the same factor",
            ) from error
        if self.average is not None:
            self.average.update(self.model)
        return loss.detach()

    def _check_classes(self, told: int, largest: int, smallest: int) -> None:
        needed = max(largest + 1, self.classes)
        if told < needed or smallest < 0:
            raise TrainingError(
                f"the model tells {told} classes apart, and the labels of the data go from "
                f"{min(smallest, 0)} to {needed - 1}",
                fix=f"build the model for {needed} classes, such as with model.arguments "
                f"{{num_classes: {needed}}}; labels are numbered from 0",
            )

    @contextlib.contextmanager
    def at_its_best(self) -> Iterator[nn.Module]:
        """Give the model as it is to be judged: with the running mean, where there is one."""
        if self.average is None:
            yield self.model
            return
        with self.average.worn(self.model):
            yield self.model

    def judged(self) -> dict[str, torch.Tensor]:
        """Return copies of the tensors that are judged."""
        if self.average is None:
            return taken(self.model)
        return {name: value.clone() for name, value in self.average.values.items()}

    def is_finite(self) -> bool:
        """Tell whether all weights are numbers."""
        return all(bool(one.isfinite().all()) for one in self.model.parameters())

    def written(self, state: State) -> dict[str, Mapping[str, torch.Tensor]]:
        """Return all tensors that it takes to go on, and write the numbers into `state`."""
        state.averaged = self.average.count if self.average else 0
        state.scale = {key: float(one) for key, one in self.precision.scaler.state_dict().items()}
        return {
            "model": taken(self.model),
            "optimizer": checkpoint.optimizer_tensors(self.optimizer),
            "random": checkpoint.random_tensors(state, self.device),
            "average": self.average.values if self.average else {},
        }

    def restore(self, path: Path, found: Checkpoint) -> None:
        """Go on from what was written."""
        state = found.state
        try:
            put(self.model, found.tensors["model"])
            if self.average is not None:
                self.average.count = state.averaged
                for name, value in self.average.values.items():
                    value.copy_(found.tensors["average"][name])
            self._set_scale(state)
        except (KeyError, RuntimeError) as error:
            raise checkpoint.damaged(path, error) from error
        checkpoint.load_optimizer(path, self.optimizer, found.tensors.get("optimizer", {}))
        checkpoint.set_random(path, state, found.tensors.get("random", {}), self.device)

    def _set_scale(self, state: State) -> None:
        if state.scale:
            whole = {key: int(state.scale[key]) for key in ("growth_interval", "_growth_tracker")}
            self.precision.scaler.load_state_dict({**state.scale, **whole})

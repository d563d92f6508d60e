"""The optimiser of a training, and the precision it computes in."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from prunus.core.errors import TrainingError
from prunus.tasks.settings import TrainSettings

__all__ = ["Precision", "build_optimizer", "device_of"]


def device_of(name: str) -> torch.device:
    """Return the device that the settings name; "auto" is a GPU where there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    device = torch.device(name)
    there = {
        "cpu": True,
        "cuda": torch.cuda.is_available() and (device.index or 0) < torch.cuda.device_count(),
        "mps": torch.backends.mps.is_available(),
    }
    if not there[device.type]:
        raise TrainingError(
            f"there is no device {name!r} here, as PyTorch sees it",
            fix="set train.device to auto or cpu, or install a build of PyTorch for your GPU",
        )
    return device


def build_optimizer(model: nn.Module, settings: TrainSettings) -> torch.optim.Optimizer:
    """Return the optimiser; norms and biases, vectors all, are not pulled to zero."""
    trained = [one for one in model.parameters() if one.requires_grad]
    if not trained:
        raise TrainingError(
            "no weight of the model can be trained: none requires a gradient",
            fix="set requires_grad_(True) on the weights to train",
        )
    groups = [
        {
            "params": [one for one in trained if one.ndim > 1],
            "weight_decay": settings.weight_decay,
        },
        {"params": [one for one in trained if one.ndim <= 1], "weight_decay": 0.0},
    ]
    groups = [group for group in groups if group["params"]]
    if settings.optimizer == "adamw":
        return torch.optim.AdamW(groups, settings.learning_rate)
    return torch.optim.SGD(
        groups, settings.learning_rate, settings.momentum, nesterov=settings.momentum > 0
    )


class Precision:
    """Half precision where that is asked for and safe; the weights stay whole."""

    def __init__(
        self,
        wanted: bool | str,
        device: torch.device,
        dtype: torch.dtype | None = None,
    ) -> None:
        on = device.type == "cuda" if wanted == "auto" else bool(wanted)
        self.device = device
        self.dtype = (dtype or _half(device)) if on else None
        # The short exponents of float16 lose small gradients, unless they are scaled up.
        self.scaler = torch.amp.GradScaler(device.type, enabled=self.dtype is torch.float16)

    def autocast(self) -> Any:
        """Return the context to run a model in."""
        return torch.autocast(self.device.type, self.dtype, enabled=self.dtype is not None)

    def step(
        self,
        loss: torch.Tensor,
        optimizer: torch.optim.Optimizer,
        weights: Iterable[torch.Tensor],
        clip: float | None,
    ) -> None:
        """Go one step down the gradient of the loss."""
        optimizer.zero_grad(set_to_none=True)
        self.scaler.scale(loss).backward()
        if clip is not None:
            self.scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(weights, clip)
        self.scaler.step(optimizer)
        self.scaler.update()


def _half(device: torch.device) -> torch.dtype:
    if device.type == "cuda" and not torch.cuda.is_bf16_supported(including_emulation=False):
        return torch.float16
    return torch.bfloat16

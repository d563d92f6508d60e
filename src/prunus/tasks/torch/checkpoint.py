"""Where a training stands, on disk: all it takes to go on as if nothing had happened.

One safetensors file: tensors, and JSON in its header. Nothing in it is executed, and
what does not look as it should is refused.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import torch
from pydantic import BaseModel, ConfigDict
from torch import nn

from prunus.backends.torch.trace import stored_tensors
from prunus.core.errors import LoadError, TrainingError
from prunus.tasks.models import short
from prunus.tasks.torch.weights import separate, write_tensors

__all__ = [
    "Checkpoint",
    "Epoch",
    "State",
    "damaged",
    "load_optimizer",
    "optimizer_tensors",
    "random_tensors",
    "set_random",
    "shapes_of",
]

FORMAT = "1"


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Epoch(_Strict):
    """What came of one epoch."""

    epoch: int
    """From 1."""
    loss: float
    metric: float
    rate: float
    seconds: float


class State(_Strict):
    """The numbers of a training that is under way."""

    seed: int
    step: int = 0
    """Steps that are done, in all epochs."""
    loss_sum: float = 0.0
    """Over the steps of this epoch."""
    waited: int = 0
    """Epochs without a better metric."""
    best: float | None = None
    best_epoch: int = 0
    averaged: int = 0
    """Updates of the running mean of the weights."""
    scale: dict[str, float] = {}
    """Of the gradients, in half precision."""
    history: list[Epoch] = []
    seconds: float = 0.0
    finished: bool = False
    stopped_early: bool = False
    python: list[Any] = []
    """The state of Python's random numbers."""
    numpy: list[Any] = []


@dataclass(frozen=True)
class Checkpoint:
    """What is written: tensors by kind and name, numbers, and which training they are of."""

    tensors: Mapping[str, Mapping[str, torch.Tensor]]
    state: State
    about: Mapping[str, Any]
    """Settings, data and shapes; a training that differs in any of them cannot go on from here."""

    def save(self, path: Path) -> None:
        """Write the file, whole or not at all."""
        flat = {
            f"{kind}/{name}": value
            for kind, own in self.tensors.items()
            for name, value in own.items()
        }
        header = {
            "prunus_checkpoint": FORMAT,
            "state": self.state.model_dump_json(),
            "about": json.dumps(self.about),
        }
        write_tensors(path, separate(flat), header)

    @classmethod
    def load(cls, path: Path) -> Checkpoint:
        """Read a file that `save` wrote."""
        try:
            with safetensors.safe_open(path, framework="pt") as file:
                header = file.metadata() or {}
                flat = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            if header.get("prunus_checkpoint") != FORMAT:
                raise ValueError(f"it is of format {header.get('prunus_checkpoint')!r}")
            state = State.model_validate_json(header.get("state", ""))
            about = _table(header.get("about", ""))
        except (OSError, ValueError, TypeError, safetensors.SafetensorError) as error:
            raise damaged(path, error) from error
        tensors: dict[str, dict[str, torch.Tensor]] = {}
        for full, value in flat.items():
            kind, _, name = full.partition("/")
            tensors.setdefault(kind, {})[name] = value
        return cls(tensors, state, about)

    def check(self, path: Path, about: Mapping[str, Any]) -> None:
        """Refuse to go on with another training than the one that was interrupted."""
        old, new = _flat(self.about), _flat(about)
        for key in [*new, *old]:
            if old.get(key) != new.get(key):
                raise TrainingError(
                    f"{str(path)!r} is of another training: {key} was {old.get(key)!r}, and is "
                    f"{new.get(key)!r} now",
                    fix="set that back to go on, or train in another folder (train.folder), or "
                    "remove the file to start anew",
                )


def _table(text: str) -> dict[str, Any]:
    found = json.loads(text)
    if not isinstance(found, dict):
        raise TypeError("what it is about is no table")
    return found


def _flat(value: Any, path: str = "") -> dict[str, Any]:
    if not isinstance(value, Mapping):
        return {path: value}
    found: dict[str, Any] = {}
    for key, one in value.items():
        found.update(_flat(one, f"{path}.{key}" if path else str(key)))
    return found


def damaged(path: Path, error: Exception) -> LoadError:
    """Return the error for a file that is not what it says."""
    return LoadError(
        f"{str(path)!r} is no checkpoint that this version can read: {short(error)}",
        fix="remove it to start anew, or train in another folder: train.folder",
    )


def random_tensors(state: State, device: torch.device) -> dict[str, torch.Tensor]:
    """Return the states of PyTorch's random numbers; write down the others in `state`."""
    version, numbers, gauss = random.getstate()
    state.python = [version, list(numbers), gauss]
    kind, keys, *rest = np.random.get_state(legacy=True)
    state.numpy = [kind, np.asarray(keys).tolist(), *rest]
    found = {"cpu": torch.random.get_rng_state()}
    if device.type == "cuda":
        found["cuda"] = torch.cuda.get_rng_state(device)
    return found


def set_random(
    path: Path, state: State, tensors: Mapping[str, torch.Tensor], device: torch.device
) -> None:
    """Let all random numbers go on where they were."""
    try:
        version, numbers, gauss = state.python
        random.setstate((version, tuple(numbers), gauss))
        kind, keys, *rest = state.numpy
        np.random.set_state((kind, np.array(keys, np.uint32), *rest))
        torch.random.set_rng_state(tensors["cpu"])
        if device.type == "cuda" and "cuda" in tensors:
            torch.cuda.set_rng_state(tensors["cuda"], device)
    except (ValueError, TypeError, LookupError, RuntimeError, OverflowError) as error:
        raise damaged(path, error) from error


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, torch.Tensor]:
    """Return what an optimiser remembers of each weight."""
    remembered: Mapping[int, Mapping[str, Any]] = optimizer.state_dict()["state"]
    return {
        f"{number}/{key}": value
        for number, own in remembered.items()
        for key, value in own.items()
        if isinstance(value, torch.Tensor)
    }


def load_optimizer(
    path: Path, optimizer: torch.optim.Optimizer, tensors: Mapping[str, torch.Tensor]
) -> None:
    """Let an optimiser remember what it did."""
    found: dict[int, dict[str, torch.Tensor]] = {}
    try:
        for name, value in tensors.items():
            number, _, key = name.partition("/")
            found.setdefault(int(number), {})[key] = value
        groups = optimizer.state_dict()["param_groups"]
        optimizer.load_state_dict({"state": found, "param_groups": groups})
    except (ValueError, KeyError, RuntimeError) as error:
        raise damaged(path, error) from error


def shapes_of(model: nn.Module) -> dict[str, list[int]]:
    """Return the shape of each tensor, by which another model is told apart."""
    return {name: list(value.shape) for name, value in stored_tensors(model)[0].items()}

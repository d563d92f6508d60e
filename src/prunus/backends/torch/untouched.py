"""Run the user's model, and leave it as it was found."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import nn

__all__ = ["evaluating"]


@contextlib.contextmanager
def evaluating(model: nn.Module, *, branches: bool = False) -> Iterator[None]:
    """Put every module into evaluation mode; afterwards all is as it was.

    With `branches`, only the layers of PyTorch's own making, and theirs who derive from
    them: what the user's `forward` does in training only (an auxiliary head) runs too.

    That is: modes, attributes that `forward` sets, what it puts into lists and dicts,
    buffers that it counts in, and random state. Tracing would otherwise leave its
    placeholders behind in the user's model, and a run would advance the user's counters.
    """
    modules = [(module, dict(vars(module))) for module in model.modules()]
    holders = [
        (value, value.copy()) for _, held in modules for value in held.values() if _holds(value)
    ]
    buffers = [
        (buffer, buffer.detach().clone(), buffer._version)
        for buffer in model.buffers()
        if not (buffer.is_meta or buffer.is_inference())
    ]
    with _random_state(model):
        try:
            for module, _ in modules:
                # Not `eval()`: some models override it to fuse their branches for good.
                module.training = branches and not _is_layer(module)
            yield
        finally:
            for holder, content in holders:
                _refill(holder, content)
            for module, held in modules:
                _refill(vars(module), held)
            for buffer, value, version in buffers:
                if buffer._version != version:
                    with torch.no_grad():
                        buffer.copy_(value)


def _is_layer(module: nn.Module) -> bool:
    kinds = type(module).__mro__
    return any(kind.__module__.startswith("torch.") for kind in kinds if kind is not nn.Module)


def _holds(value: object) -> bool:
    # Subclasses of other making may not come back by `clear` and `update`.
    return type(value).__module__ in ("builtins", "collections") and isinstance(
        value, list | dict | set
    )


def _refill(holder: Any, content: Any) -> None:
    same = len(holder) == len(content) and all(
        a is b for a, b in zip(_items(holder), _items(content), strict=True)
    )
    if not same:
        holder.clear()
        (holder.extend if isinstance(holder, list) else holder.update)(content)


def _items(holder: Any) -> list[Any]:
    return [*holder, *holder.values()] if isinstance(holder, dict) else list(holder)


@contextlib.contextmanager
def _random_state(model: nn.Module) -> Iterator[None]:
    devices = {p.device for p in model.parameters() if p.device.type == "cuda"}
    ours, numpys = random.getstate(), np.random.get_state()
    with torch.random.fork_rng(devices=sorted(d.index or 0 for d in devices)):
        try:
            yield
        finally:
            random.setstate(ours)
            np.random.set_state(numpys)

"""A running mean of the weights while they are trained: less noisy, and often better."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping

import torch
from torch import nn

from prunus.backends.torch.trace import stored_tensors

__all__ = ["Average", "put", "taken"]


def taken(model: nn.Module) -> dict[str, torch.Tensor]:
    """Return copies of a model's tensors, tied ones once."""
    return {name: value.detach().clone() for name, value in stored_tensors(model)[0].items()}


@torch.no_grad()
def put(model: nn.Module, values: Mapping[str, torch.Tensor]) -> None:
    """Give a model's tensors these values."""
    for name, value in stored_tensors(model)[0].items():
        value.copy_(values[name])


class Average:
    """The running mean."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay, self.count, self.values = decay, 0, taken(model)

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        """Move the mean towards the weights; early on quicker, so that it forgets the start."""
        self.count += 1
        decay = min(self.decay, (1 + self.count) / (10 + self.count))
        for name, value in stored_tensors(model)[0].items():
            mean = self.values[name]
            if mean.is_floating_point():
                mean.lerp_(value.detach(), 1 - decay)
            else:
                mean.copy_(value)

    @contextlib.contextmanager
    def worn(self, model: nn.Module) -> Iterator[None]:
        """Let the model have the mean for a while."""
        own = taken(model)
        put(model, self.values)
        try:
            yield
        finally:
            put(model, own)

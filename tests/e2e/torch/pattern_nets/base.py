"""The small nets that the pattern tests cut: what one is, and how one is written down.

A pattern is a `forward` of three to ten lines, the layers it uses, and what has to
become of it. `pattern_*.py` beside this file hold them, one family a file.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import nn

__all__ = [
    "PATTERNS",
    "Net",
    "Pattern",
    "bn",
    "conv",
    "image",
    "linear",
    "numbers",
    "pattern",
    "sequence",
    "tokens",
]

PATTERNS: dict[str, Pattern] = {}


class Net(nn.Module):
    """Layers by name, and a `forward` written as a plain function."""

    def __init__(self, function: Callable[..., Any], parts: dict[str, Any]) -> None:
        super().__init__()
        self.function = function
        self.only: Any = None
        """For the judge: the channels that a weightless mixing operator may look at."""
        for name, part in parts.items():
            setattr(self, name, part() if callable(part) else part)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(self, *args, **kwargs)


@dataclass(frozen=True)
class Pattern:
    """A net, its example, and what has to become of it."""

    name: str
    build: Callable[[], nn.Module]
    example: Callable[[int], Any]
    """From a batch size to an example."""
    cut: tuple[str, ...]
    """Weights that must have shrunk; an axis may follow, as in "b.weight:1"."""
    frozen: str
    """A weight that stays ..."""
    because: str
    """... and a piece of the reason."""
    how: str
    mixes: str
    """A piece of the name of an operator that mixes channels."""
    over: str
    """The weight whose filters are the channels that `Net.only` speaks of."""
    divided: tuple[str, ...] = field(default=())
    """Weights that are divided by their own length: zeros there would be 0 / 0."""


def pattern(
    example: Callable[[int], Any],
    *,
    cut: str = "",
    frozen: str = "",
    because: str = "",
    how: str = "module",
    mixes: str = "",
    over: str = "",
    divided: str = "",
    **parts: Any,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make the decorated function the `forward` of a pattern; `parts` are factories or numbers."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        name = function.__name__
        assert name not in PATTERNS
        assert cut or frozen
        PATTERNS[name] = Pattern(
            name,
            partial(Net, function, parts),
            example,
            tuple(cut.split()),
            frozen,
            because,
            how,
            mixes,
            over,
            tuple(divided.split()),
        )
        return function

    return register


def conv(inputs: int, outputs: int, kernel: int = 1, **options: Any) -> Callable[[], nn.Module]:
    """Return a factory of a convolution over pictures."""
    return partial(nn.Conv2d, inputs, outputs, kernel, **options)


def linear(inputs: int, outputs: int, **options: Any) -> Callable[[], nn.Module]:
    """Return a factory of a linear layer."""
    return partial(nn.Linear, inputs, outputs, **options)


def bn(channels: int, **options: Any) -> Callable[[], nn.Module]:
    """Return a factory of a batch norm over pictures."""
    return partial(nn.BatchNorm2d, channels, **options)


def numbers(*shape: int) -> Callable[[], nn.Parameter]:
    """Return a factory of a bare parameter."""
    return lambda: nn.Parameter(torch.zeros(shape))


def image(batch: int) -> torch.Tensor:
    """Return pictures of 3 channels and 4 by 4 pixels."""
    return torch.randn(batch, 3, 4, 4)


def sequence(batch: int) -> torch.Tensor:
    """Return signals of 3 channels and 6 steps."""
    return torch.randn(batch, 3, 6)


def tokens(batch: int) -> torch.Tensor:
    """Return 5 tokens of length 6."""
    return torch.randn(batch, 5, 6)

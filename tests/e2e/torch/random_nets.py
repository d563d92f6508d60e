"""Random nets: a recipe of small steps, drawn by hypothesis, that a module follows.

A step takes one value or two from those that are there and adds another. Each value
is a picture of some channels; a step that does not fit its value is left out.
"""

from __future__ import annotations

import random
from typing import Any

import torch
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

__all__ = ["RandomNet", "recipes"]

WIDTHS = (4, 6, 8, 12)
SIMPLE = (
    "bn", "relu", "sigmoid", "maxpool", "avgpool", "flip", "roll", "interpolate", "repeat",
    "interleave", "half", "middle", "step", "glu", "chunks", "unequal", "shuffle", "shuffle_view",
    "unshuffle", "pixels", "gate", "depthwise", "multiplier", "up_depthwise", "scale", "pad",
    "expand", "roundtrip", "stack", "write", "maxout",
)  # fmt: skip
PAIRS = ("add", "mul", "cat", "cat_input", "maximum", "gated_by")
LAYERS = ("conv", "grouped", "transposed", "up_grouped", "conv3")


def recipes() -> st.SearchStrategy[list[tuple[Any, ...]]]:
    """Draw the steps of a net, as a number that they follow from.

    Drawn one by one, they would be much alike: hypothesis likes to say the same again.
    """
    return st.integers(0, 2**32 - 1).map(_recipe)


def _recipe(number: int) -> list[tuple[Any, ...]]:
    draw = random.Random(number)
    steps: list[tuple[Any, ...]] = []
    for _ in range(draw.randint(3, 10)):
        place = draw.randrange(8)
        kind = draw.choice(draw.choice((LAYERS, SIMPLE, SIMPLE, PAIRS)))
        if kind in LAYERS:
            steps.append((kind, place, draw.choice(WIDTHS), draw.choice((1, 2, 3, 4))))
        else:
            steps.append((kind, place, draw.randrange(8)) if kind in PAIRS else (kind, place))
    return steps


class RandomNet(nn.Module):
    """A convolution, the steps of a recipe, and a linear head on each value nobody used."""

    def __init__(self, recipe: list[tuple[Any, ...]]) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.layers = nn.ModuleList()
        self.steps: list[tuple[Any, ...]] = []
        self.sizes = [(8, 4)]
        self.used: set[int] = set()
        for step in recipe:
            self._plan(*step)
        self.heads = nn.ModuleDict()
        for k, (channels, _) in enumerate(self.sizes):
            if k not in self.used:
                self.heads[str(k)] = nn.Linear(channels, 3)

    def _plan(self, kind: str, place: int, *more: int) -> None:
        """Keep the step if it fits, with the layer it needs, and note the size of its value."""
        place %= len(self.sizes)
        channels, high = self.sizes[place]
        other = None
        if kind in PAIRS:
            other = more[0] % len(self.sizes)
            if kind not in {"cat", "cat_input"} and self.sizes[other] != (channels, high):
                return
            if self.sizes[other][1] != high or (kind == "cat_input" and high != 4):
                return
        layer = self._layer(kind, channels, *more) if kind not in PAIRS else None
        net = kind if layer is None else "layer"
        with torch.no_grad():
            values = [torch.zeros(1, *(size[0], size[1], size[1])) for size in self.sizes]
            try:
                second = None if other is None else values[other]
                value = apply(net, layer, values[place], second, torch.zeros(1, 3, 4, 4))
            except (RuntimeError, ValueError):
                return  # it does not fit
        if value.shape[1] > 48 or value.shape[2] not in (2, 4, 8) or 0 in value.shape:
            return
        self.steps.append((net, place, other, len(self.layers) if layer is not None else None))
        if layer is not None:
            self.layers.append(layer)
        self.used |= {place} if other is None else {place, other}
        self.sizes.append((value.shape[1], value.shape[2]))

    @staticmethod
    def _layer(kind: str, channels: int, width: int = 4, groups: int = 1) -> nn.Module | None:
        if kind == "bn":
            return nn.BatchNorm2d(channels)
        if kind == "gate":
            middle = (nn.Conv2d(channels, 4, 1), nn.ReLU(), nn.Conv2d(4, channels, 1), nn.Sigmoid())
            return Gate(nn.Sequential(nn.AdaptiveAvgPool2d(1), *middle))
        if kind == "scale":
            return Scale(channels)
        if kind in ("depthwise", "multiplier"):
            times = 2 if kind == "multiplier" else 1
            return nn.Conv2d(channels, channels * times, 3, padding=1, groups=channels)
        if kind == "up_depthwise":
            return nn.ConvTranspose2d(channels, channels, 1, groups=channels)
        if channels % groups or width % groups:
            groups = 1
        if kind in ("conv", "conv3"):
            return (
                nn.Conv2d(channels, width, 3, padding=1)
                if kind == "conv3"
                else nn.Conv2d(channels, width, 1)
            )
        if kind == "grouped":
            return nn.Conv2d(channels, width, 1, groups=groups)
        if kind in ("transposed", "up_grouped"):
            return nn.ConvTranspose2d(
                channels, width, 1, groups=groups if kind == "up_grouped" else 1
            )
        return None

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        values = [self.stem(x)]
        for kind, place, other, layer in self.steps:
            own = None if layer is None else self.layers[layer]
            values.append(
                apply(kind, own, values[place], None if other is None else values[other], x)
            )
        return [head(values[int(k)].mean((2, 3))) for k, head in self.heads.items()]


class Gate(nn.Module):
    def __init__(self, gate: nn.Module) -> None:
        super().__init__()
        self.gate = gate

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.gate(x)


class Scale(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(channels))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.scale.view(1, -1, 1, 1)


def apply(kind: str, layer: Any, x: torch.Tensor, y: Any, picture: torch.Tensor) -> torch.Tensor:
    """Run one step."""
    if kind == "layer":
        return layer(x)
    return (_JOINED[kind](x, y, picture)) if kind in PAIRS else _ALONE[kind](x)


_JOINED = {
    "add": lambda x, y, _: x + y,
    "mul": lambda x, y, _: x * y,
    "cat": lambda x, y, _: torch.cat([x, y], 1),
    "cat_input": lambda x, _, picture: torch.cat([picture, x], 1),
    "maximum": lambda x, y, _: torch.maximum(x, y),
    "gated_by": lambda x, y, _: x * y.mean((2, 3), keepdim=True).sigmoid(),
}


def _chunks(x: torch.Tensor) -> torch.Tensor:
    first, second = x.chunk(2, 1)
    return torch.cat([second, first.relu()], 1)


def _unequal(x: torch.Tensor) -> torch.Tensor:
    first, second = x.split([3, x.shape[1] - 3], 1)
    return torch.cat([second.tanh(), first], 1)


def _shuffle(x: torch.Tensor) -> torch.Tensor:
    n, c, h, w = x.shape
    return x.view(n, 2, c // 2, h, w).transpose(1, 2).reshape(n, c, h, w)


def _maxout(x: torch.Tensor) -> torch.Tensor:
    n, c, h, w = x.shape
    return x.view(n, 2, c // 2, h, w).amax(1)


def _expand(x: torch.Tensor) -> torch.Tensor:
    n, c, h, w = x.shape
    return x.unsqueeze(2).expand(n, c, 2, h, w).reshape(n, 2 * c, h, w)


def _roundtrip(x: torch.Tensor) -> torch.Tensor:
    n, c, h, w = x.shape
    return x.flatten(2).transpose(1, 2).relu().transpose(1, 2).view(n, c, h, w)


def _write(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y[:, :2] = x[:, 2:4]
    return y


_ALONE = {
    "relu": torch.relu,
    "sigmoid": torch.sigmoid,
    "maxpool": lambda x: F.max_pool2d(x, 2),
    "avgpool": lambda x: F.avg_pool2d(x, 3, 1, 1),
    "flip": lambda x: x.flip(1),
    "roll": lambda x: torch.roll(x, 2, 1),
    "interpolate": lambda x: F.interpolate(x, scale_factor=2.0),
    "repeat": lambda x: x.repeat(1, 2, 1, 1),
    "interleave": lambda x: x.repeat_interleave(2, 1),
    "half": lambda x: x[:, : x.shape[1] // 2],
    "middle": lambda x: x[:, 1:-2],
    "step": lambda x: x[:, ::2],
    "glu": lambda x: F.glu(x, 1),
    "chunks": _chunks,
    "unequal": _unequal,
    "shuffle": lambda x: F.channel_shuffle(x, 2),
    "shuffle_view": _shuffle,
    "unshuffle": lambda x: F.pixel_unshuffle(x, 2),
    "pixels": lambda x: F.pixel_shuffle(x, 2),
    "pad": lambda x: F.pad(x, (0, 0, 0, 0, 1, 2)),
    "expand": _expand,
    "roundtrip": _roundtrip,
    "stack": lambda x: torch.stack([x, x.relu()], 1).flatten(1, 2),
    "write": _write,
    "maxout": _maxout,
}

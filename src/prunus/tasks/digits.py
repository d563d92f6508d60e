"""Scanned digits and a small residual network for them: a whole task that takes seconds.

NOTE: nothing imports this file but what runs it, for it needs PyTorch and scikit-learn.
"""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import save_file
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional

__all__ = [
    "Digits",
    "Network",
    "accuracy",
    "difference",
    "latency",
    "load",
    "network",
    "one_thread",
    "save_weights",
    "train",
]


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Compute on one thread, and go back to as many as before.

    So small a network gains nothing from a second one, and beside another busy program
    its threads wait for each other: an epoch then takes many times as long.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@dataclass(frozen=True, eq=False)
class Digits:
    """1,797 pictures of 8 by 8 pixels: the last fifth is kept for testing.

    The set is in the order of its writers, so the test digits come from hands that
    training has not seen.
    """

    images: torch.Tensor
    labels: torch.Tensor
    test_images: torch.Tensor
    test_labels: torch.Tensor


def load() -> Digits:
    """Return the digits, brightness from 0 to 1."""
    found = load_digits()
    images = torch.tensor(found.images, dtype=torch.float32).unsqueeze(1) / 16
    labels = torch.tensor(found.target)
    first = len(images) * 4 // 5
    return Digits(images[:first], labels[:first], images[first:], labels[first:])


class Block(nn.Module):
    """Two convolutions and a way around them."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(outputs)
        self.around = (
            nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )
            if stride > 1 or inputs != outputs
            else nn.Identity()
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return both ways added up."""
        y = functional.relu(self.norm1(self.conv1(x)))
        return functional.relu(self.norm2(self.conv2(y)) + self.around(x))


class Network(nn.Module):
    """A residual network for pictures of 8 by 8 pixels."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(1, 32, 3, padding=1, bias=False), nn.BatchNorm2d(32), nn.ReLU()
        )
        self.blocks = nn.Sequential(Block(32, 32, 1), Block(32, 64, 2), Block(64, 64, 1))
        self.classify = nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return one score a digit."""
        y: torch.Tensor = self.blocks(self.stem(x)).mean((2, 3))
        scores: torch.Tensor = self.classify(y)
        return scores


def network(seed: int = 0) -> Network:
    """Return an untrained network; the same one for the same seed."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return Network()


def train(model: nn.Module, data: Digits, epochs: int, rate: float, seed: int = 0) -> None:
    """Train `model` in place, the learning rate falling from `rate` to nothing."""
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(model.parameters(), rate, weight_decay=1e-2)
    batches = -(-len(data.images) // 64)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs * batches)
    model.train()
    for _ in range(epochs):
        for rows in torch.randperm(len(data.images), generator=generator).split(64):
            optimizer.zero_grad()
            functional.cross_entropy(model(data.images[rows]), data.labels[rows]).backward()
            optimizer.step()
            schedule.step()
    model.eval()


@torch.no_grad()
def accuracy(model: nn.Module, data: Digits) -> float:
    """Return the share of test digits that `model` reads right."""
    model.eval()
    right = model(data.test_images).argmax(1) == data.test_labels
    return float(right.float().mean())


@torch.no_grad()
def latency(models: Sequence[nn.Module], data: Digits, repeats: int = 60) -> list[float]:
    """Return the median seconds a batch of 64 takes in each model.

    The models take turns, so that another program's load falls on all of them.
    """
    batch = data.test_images[:64]
    taken: list[list[float]] = [[] for _ in models]
    for repeat in range(repeats + 5):
        for model, own in zip(models, taken, strict=True):
            start = time.perf_counter()
            model(batch)
            if repeat >= 5:  # the first runs warm up
                own.append(time.perf_counter() - start)
    return [statistics.median(own) for own in taken]


@torch.no_grad()
def difference(one: nn.Module, other: nn.Module, data: Digits) -> float:
    """Return the largest difference between two models' scores on the test digits."""
    one.eval()
    other.eval()
    return float((one(data.test_images) - other(data.test_images)).abs().max())


def save_weights(model: nn.Module, path: Path) -> None:
    """Write a model's weights alone, to compare sizes with."""
    save_file(model.state_dict(), path)

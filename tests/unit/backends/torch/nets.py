"""The small models that the tests of this backend cut, and what is compared of a model."""

from __future__ import annotations

import random

import numpy as np
import torch
from torch import nn

__all__ = [
    "Branching",
    "Chain",
    "Fixed",
    "Held",
    "Helped",
    "Within",
    "fingerprint",
    "image",
    "learn",
    "output",
]


def image(batch=2, size=8):
    return torch.randn(batch, 3, size, size)


class Chain(nn.Module):
    """Two convolutions with norms, then a classifier; nothing in `forward` depends on a width."""

    def __init__(self):
        super().__init__()
        self.a = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.b = nn.Conv2d(8, 12, 3, padding=1)
        self.drop = nn.Dropout(0.5)
        self.head = nn.Linear(12, 5)

    def forward(self, x):
        y = self.b(self.norm(self.a(x)).relu()).relu()
        return self.head(self.drop(y.mean((2, 3))))


class Fixed(nn.Module):
    """`forward` holds a number that a cut of `conv` makes wrong, so it comes back traced."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.drop = nn.Dropout2d(0.5)
        self.head = nn.Linear(8 * 16, 10)
        self.last = nn.Dropout(0.3)

    def forward(self, x):
        y = self.drop(self.norm(self.conv(x)).relu())
        return self.last(self.head(y.reshape(-1, 8 * 16)))


class Held(nn.Module):
    """`forward` reads the number from the module, where it can be changed."""

    def __init__(self):
        super().__init__()
        self.width = 8
        self.shape = (8, (4, 4))
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.head = nn.Linear(8 * 16, 10)

    def forward(self, x):
        y = self.conv(x).relu().reshape(len(x), self.width, 16)
        channels, (rows, columns) = self.shape
        return self.head(y.reshape(len(x), channels, rows, columns).flatten(1))


class Branching(nn.Module):
    """Looks at values, so that only its parts can be traced."""

    def __init__(self, backbone):
        super().__init__()
        self.backbone = backbone
        self.head = nn.Linear(5, 2)

    def forward(self, x):
        y = self.backbone(x)
        if y.sum() > 0:
            y = -y
        return self.head(y)


class Within(nn.Module):
    """Calls a nested part, with a keyword."""

    def __init__(self, part):
        super().__init__()
        self.outer = nn.Module()
        self.outer.inner = part

    def forward(self, x):
        y = self.outer.inner(x=x)
        return y if y.sum() > 0 else y * 2


def output(model, *args, **kwargs):
    """Return what `model` answers in evaluation mode; its modes stay."""
    modes = {module: module.training for module in model.modules()}
    try:
        with torch.no_grad():
            return model.eval()(*args, **kwargs)
    finally:
        for module, training in modes.items():
            module.training = training


def learn(model, *args, steps=5, rate=0.05):
    """Return the losses of some steps of training."""
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    losses = []
    for _ in range(steps):
        torch.manual_seed(1)  # the same dropout in each step
        loss = (model(*args) - 1).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def fingerprint(model):
    """Return tensors, gradients, modes, attributes, hooks and random state: all must stay."""
    tensors = [*model.named_parameters(), *model.named_buffers()]
    return (
        [(n, id(t), t.data_ptr(), t._version, t.dtype, t.requires_grad) for n, t in tensors],
        [t.detach().clone().flatten().tolist() for _, t in tensors],
        [None if t.grad is None else t.grad.flatten().tolist() for _, t in tensors],
        [(n, id(m), type(m), m.training, sorted(vars(m))) for n, m in model.named_modules()],
        [
            {k: v for k, v in vars(m).items() if isinstance(v, int | str | float | tuple)}
            for m in model.modules()
        ],
        [
            [(k, id(h)) for k, h in table.items()]
            for m in model.modules()
            for table in (m._forward_hooks, m._forward_pre_hooks, m._backward_hooks)
        ],
        torch.random.get_rng_state().tolist(),
        random.getstate(),
        [str(part) for part in np.random.get_state()],
    )


class Helped(nn.Module):
    """An auxiliary head that runs in training only, as GoogLeNet's do."""

    def __init__(self, width=None):
        super().__init__()
        self.a = nn.Conv2d(3, 8, 3, padding=1)
        self.helper = nn.Sequential(nn.Conv2d(8, 6, 1), nn.BatchNorm2d(6), nn.Conv2d(6, 5, 1))
        self.head = nn.Linear(8, 5)
        self.width = width

    def forward(self, x):
        y = self.a(x).relu()
        result = self.head(y.mean((2, 3)))
        if not self.training:
            return result
        if self.width:
            y = y.view(-1, self.width, 8, 8)
        return result, self.helper(y)

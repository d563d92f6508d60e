"""Exact mode on small real networks: to the sample what the naive loop gives."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import prunus
from prunus.core.study import database

from ...unit.naive import called, naive, top  # noqa: TID252

CLASSES = 6


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    torch.set_num_threads(1)
    torch.manual_seed(0)
    monkeypatch.setattr(database, "SYNCHRONOUS", "OFF")


def conv(inputs, outputs, **more):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1, bias=False, **more),
        nn.BatchNorm2d(outputs),
        nn.ReLU(),
    )


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.one, self.two = conv(3, 8), conv(8, 6), conv(6, 8)
        self.head = nn.Linear(8, CLASSES)

    def forward(self, x):
        x = self.stem(x)
        x = x + self.two(self.one(x))
        return self.head(x.mean((2, 3)))


class Concat(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.left, self.right = conv(3, 6), conv(6, 4), conv(6, 8)
        self.last, self.head = conv(12, 6), nn.Linear(6, CLASSES)

    def forward(self, x):
        x = self.stem(x)
        y = torch.cat([self.left(x), self.right(x)], 1)
        return self.head(F.max_pool2d(self.last(y), 2).mean((2, 3)))


class Depthwise(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            conv(3, 8), conv(8, 8, groups=8), nn.Conv2d(8, 10, 1), nn.Hardswish(), conv(10, 8)
        )
        self.head = nn.Linear(8, CLASSES)

    def forward(self, x):
        return self.head(self.layers(x).mean((2, 3)))


class Shuffled(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.grouped = conv(3, 8), conv(8, 8, groups=2)
        self.shuffle, self.last = nn.ChannelShuffle(2), conv(8, 8, groups=2)
        self.head = nn.Linear(8, CLASSES)

    def forward(self, x):
        y = self.shuffle(self.grouped(self.stem(x)))
        left, right = self.last(y).chunk(2, 1)
        return self.head(torch.cat([right, left], 1).mean((2, 3)))


class Normed(nn.Module):
    """A patch embedding and a block of a transformer's feed-forward."""

    def __init__(self):
        super().__init__()
        self.patch, self.norm = nn.Conv2d(3, 8, 4, stride=4), nn.LayerNorm(8)
        self.up, self.down, self.head = nn.Linear(8, 16), nn.Linear(16, 8), nn.Linear(8, CLASSES)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = x + self.down(F.gelu(self.up(self.norm(x))))
        return self.head(x.mean(1))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.convs = nn.Sequential(conv(3, 8), conv(8, 6))
        self.lstm, self.head = nn.LSTM(6, 5, batch_first=True), nn.Linear(5, CLASSES)

    def forward(self, x):
        y = self.convs(x).mean(2).transpose(1, 2)
        return self.head(self.lstm(y)[0][:, -1])


class Answers(Residual):
    """Takes its input by keyword, and answers with a dict."""

    def forward(self, pixels):
        return {"logits": super().forward(pixels), "other": pixels.mean()}


class Several(nn.Module):
    def __init__(self):
        super().__init__()
        self.left, self.right, self.head = conv(3, 8), conv(3, 8), nn.Linear(8, CLASSES)

    def forward(self, x, y):
        return self.head((self.left(x) * self.right(y)).mean((2, 3)))


class Segments(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = conv(3, 8), nn.Conv2d(8, 8, 3, stride=2, padding=1)
        self.up, self.head = nn.ConvTranspose2d(8, 6, 2, stride=2), nn.Conv2d(14, CLASSES, 1)

    def forward(self, x):
        y = self.one(x)
        return self.head(torch.cat([y, self.up(F.silu(self.two(y)))], 1))


def images(size):
    return torch.randn(size, 3, 8, 8)


def classes(size):
    return torch.randint(0, CLASSES, (size,))


def logits(output):
    return output["logits"]


NETS = {
    "residual": (Residual, images, classes, {}),
    "concat": (Concat, images, classes, {"metric": "top5"}),
    "depthwise": (Depthwise, images, classes, {}),
    "shuffle": (Shuffled, images, classes, {}),
    "layer norm": (Normed, images, classes, {}),
    "recurrent": (Recurrent, images, classes, {}),
    "dict in, dict out": (
        Answers,
        lambda size: {"pixels": images(size)},
        classes,
        {"forward": lambda model, batch: model(**batch[0])["logits"]},
    ),
    "several inputs": (Several, lambda size: (images(size), images(size)), classes, {}),
    "segmentation": (
        Segments,
        images,
        lambda size: torch.randint(0, CLASSES, (size, 8, 8)),
        {},
    ),
    "segmentation, top5": (
        Segments,
        images,
        lambda size: torch.randint(0, CLASSES, (size, 8, 8)),
        {"metric": "top5"},
    ),
}


def trained_a_little(model, example):
    """Return the model with statistics of its own, so that a norm does something."""
    model.train()
    with torch.no_grad():
        for _ in range(3):
            called(model, example)
    return model.eval()


@pytest.mark.parametrize("name", NETS)
def test_exact_mode_is_the_naive_loop(name, tmp_path):
    build, inputs, targets, how = NETS[name]
    example = inputs(2)
    model = trained_a_little(build(), example)
    data = [(inputs(size), targets(size)) for size in (9, 9, 4)]
    work = prunus.Evaluation(data, **how)
    study = prunus.analyze(model, example, work, study=tmp_path / "a.study", ratios=(0.3, 0.6))
    forward = how.get("forward")
    scores = top(5 if how.get("metric") == "top5" else 1)
    whole, cells = naive(model, example, data, scores, study, forward=forward)
    assert study.baseline == whole
    assert {cell.key: cell.metric for cell in study.cells if cell.measured} == cells
    assert cells
    assert {cell.kind for cell in study.cells} <= {"exact", "nothing"}
    assert study.header.note == ""  # no whole model ran

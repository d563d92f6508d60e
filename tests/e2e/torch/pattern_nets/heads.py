"""Inputs and outputs of every shape: tuples, dicts, several heads, outputs used further on."""

from __future__ import annotations

from functools import partial

import torch
from torch import nn
from torch.nn import functional as F

from .base import bn, conv, image, linear, pattern


def pair(batch):
    return torch.randn(batch, 3, 4, 4), torch.randn(batch, 6)


def keywords(batch):
    return {"picture": torch.randn(batch, 3, 4, 4), "extra": torch.randn(batch, 6)}


def nested(batch):
    return ([torch.randn(batch, 3, 4, 4), {"extra": torch.randn(batch, 6)}],)


@pattern(pair, cut="a.weight e.weight", a=conv(3, 8), e=linear(6, 8), b=linear(8, 5))
def two_arguments(m, x, extra):
    return m.b(m.a(x).mean((2, 3)) + m.e(extra))


@pattern(keywords, cut="a.weight e.weight", a=conv(3, 8), e=linear(6, 8), b=linear(16, 5))
def keyword_arguments(m, picture, extra):
    return m.b(torch.cat([m.a(picture).mean((2, 3)), m.e(extra)], 1))


@pattern(nested, cut="a.weight e.weight", a=conv(3, 8), e=linear(6, 8), b=linear(8, 5))
def nested_arguments(m, batch):
    x, more = batch
    return m.b(m.a(x).mean((2, 3)) * m.e(more["extra"]))


@pattern(image, cut="a.weight", a=conv(3, 8), b=conv(8, 5), c=conv(8, 2))
def dict_of_outputs(m, x):
    y = m.a(x)
    return {"boxes": m.b(y), "rest": [m.c(y), (m.b(y).mean(), 3)]}


@pattern(image, cut="a.weight c.weight", a=conv(3, 8), b=linear(8, 5), c=conv(8, 6), d=linear(6, 4))
def auxiliary_head(m, x):
    y = m.a(x)
    return m.d(m.c(y).mean((2, 3))), m.b(y.mean((2, 3)))


@pattern(
    image,
    cut="c.weight",
    frozen="a.weight",
    because="output",
    a=conv(3, 8),
    c=conv(8, 6),
    b=conv(6, 5),
)
def output_used_further_on(m, x):
    y = m.a(x)
    return y, m.b(m.c(y))


@pattern(image, cut="a.weight lateral.weight", frozen="b.weight", because="output", a=conv(3, 8),
         lateral=conv(8, 6), box=conv(6, 4), kind=conv(6, 3), b=conv(7, 5))  # fmt: skip
def detection_head(m, x):
    y = m.lateral(m.a(x).relu()).relu()
    small = F.max_pool2d(y, 2)
    outs = [torch.cat([m.box(z), m.kind(z)], 1).flatten(2) for z in (y, small)]
    return m.b(torch.cat(outs, 2).unsqueeze(-1))


@pattern(lambda n: torch.randn(3, 4, 4), cut="a.weight", a=conv(3, 8), b=conv(8, 5))
def no_batch_axis(m, x):
    return m.b(m.a(x).relu())


@pattern(image, cut="body.0.weight body.3.weight", head=linear(6, 5),
         body=lambda: nn.Sequential(nn.Conv2d(3, 8, 1), nn.BatchNorm2d(8), nn.ReLU(inplace=True),
                                    nn.Conv2d(8, 6, 1), nn.Dropout(0.3), nn.ReLU6(), nn.Flatten(2)))  # fmt: skip
def sequential(m, x):
    return m.head(m.body(x).mean(2))


@pattern(image, cut="a.weight c.weight", a=conv(3, 8), n=bn(8), c=conv(8, 6), b=conv(6, 5),
         drop=partial(nn.Dropout2d, 0.5))  # fmt: skip
def dropout_of_channels(m, x):
    return m.b(m.drop(m.c(m.n(m.a(x)).relu_())))


@pattern(image, cut="a.weight b.weight", mixes="sum", a=conv(3, 8), b=conv(3, 8), c=linear(8, 8))
def similarity_of_two_towers(m, x):
    a, b = m.a(x).mean((2, 3)), m.b(x.flip(3)).mean((2, 3))
    return (a * b).sum(1), m.c(a)


@pattern(image, cut="a.weight b.weight", mixes="einsum", a=conv(3, 8), b=conv(3, 8))
def correlation_of_two_towers(m, x):
    a, b = m.a(x).flatten(2), m.b(x.flip(3)).flatten(2)
    return torch.einsum("ncp,ncq->npq", a, b)


@pattern(image, cut="a.weight", mixes="mean", over="a.weight", a=conv(3, 8))
def mean_of_channels_is_the_output(m, x):
    y = m.a(x)
    return (y if m.only is None else y[:, m.only]).mean(1)


@pattern(image, cut="a.weight", mixes="sum", a=conv(3, 8))
def sum_of_channels_is_the_output(m, x):
    return m.a(x).square().sum(1)


@pattern(
    image,
    cut="c.weight",
    frozen="a.weight",
    because="output",
    a=conv(3, 8),
    c=conv(8, 6),
    d=conv(6, 8),
)
def last_residual_is_the_output(m, x):
    y = m.a(x)
    return (y + m.d(m.c(y).relu())).flatten(1)


@pattern(image, cut="a.weight", how="traced", a=conv(3, 8), b=conv(8, 6), c=conv(6, 5))
def width_checked_in_code(m, x):
    y = m.a(x)
    if y.shape[1] != 8:
        raise ValueError("8 channels wanted")
    return m.c(m.b(y))

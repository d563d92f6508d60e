"""Grouped, depthwise and transposed convolutions, of one, two and three dimensions."""

from __future__ import annotations

from functools import partial

import torch
from torch import nn

from .base import bn, conv, image, pattern, sequence


def up(inputs, outputs, kernel=2, **options):
    return partial(nn.ConvTranspose2d, inputs, outputs, kernel, **options)


def volume(batch: int) -> torch.Tensor:
    return torch.randn(batch, 3, 3, 4, 4)


@pattern(image, cut="a.weight d.weight", a=conv(3, 8), d=conv(8, 8, 3, padding=1, groups=8), n=bn(8),
         b=conv(8, 5))  # fmt: skip
def depthwise(m, x):
    return m.b(m.n(m.d(m.a(x))).relu())


@pattern(image, cut="a.weight d.weight", a=conv(3, 6), d=conv(6, 12, 3, groups=6), b=conv(12, 5))
def depthwise_with_multiplier(m, x):
    return m.b(m.d(m.a(x)))


@pattern(image, cut="d.weight a.weight b.weight:1",
         d=conv(3, 12, 3, groups=3), a=conv(12, 8), b=conv(8, 5))  # fmt: skip
def multiplier_on_the_input(m, x):
    return m.b(m.a(m.d(x)))


@pattern(image, cut="a.weight d.weight", a=conv(3, 12), d=conv(12, 4, 3, groups=4), b=conv(4, 5))
def many_inputs_to_one_output(m, x):
    return m.b(m.d(m.a(x)))


@pattern(image, cut="a.weight g.weight", a=conv(3, 12), g=conv(12, 18, groups=3), b=conv(18, 5))
def grouped(m, x):
    return m.b(m.g(m.a(x)).relu())


@pattern(image, cut="a.weight g.weight", a=conv(3, 10), g=conv(10, 15, groups=5), b=conv(15, 5))
def five_groups(m, x):
    return m.b(m.g(m.a(x)))


@pattern(image, cut="a.weight g.weight h.weight", a=conv(3, 24), g=conv(24, 24, groups=2),
         h=conv(24, 24, groups=3), b=conv(24, 5))  # fmt: skip
def two_group_counts_in_a_row(m, x):
    return m.b(m.h(m.g(m.a(x))))


@pattern(image, cut="a.weight g.weight h.weight", a=conv(3, 24), g=conv(24, 24, groups=2),
         h=conv(24, 24, groups=3), b=conv(24, 5))  # fmt: skip
def two_group_counts_on_one_input(m, x):
    y = m.a(x)
    return m.b(m.g(y) + m.h(y))


@pattern(image, cut="a.weight g.weight h.weight", a=conv(3, 24), g=conv(24, 24, groups=4),
         h=conv(24, 24, groups=6), b=conv(24, 5))  # fmt: skip
def coupled_group_counts_and_shortcut(m, x):
    y = m.a(x)
    return m.b(y + m.h(m.g(y)))


@pattern(image, cut="a.weight g.weight", a=conv(3, 12), g=conv(12, 12, groups=3), b=conv(12, 5))
def grouped_with_shortcut(m, x):
    y = m.a(x)
    return m.b(y + m.g(y))


@pattern(image, cut="a.weight c.weight g.weight", a=conv(3, 8), c=conv(3, 4), g=conv(12, 12, groups=3),
         b=conv(12, 5))  # fmt: skip
def grouped_after_concat(m, x):
    return m.b(m.g(torch.cat([m.a(x), m.c(x)], 1)))


@pattern(image, cut="a.weight c.weight g.weight", a=conv(3, 5), c=conv(3, 7), g=conv(12, 12, groups=2),
         b=conv(12, 5))  # fmt: skip
def grouped_after_uneven_concat(m, x):
    return m.b(m.g(torch.cat([m.a(x), m.c(x)], 1)))


@pattern(image, cut="a.weight g.weight", a=conv(3, 9), g=conv(12, 12, groups=2), b=conv(12, 5))
def grouped_after_concat_with_input(m, x):
    return m.b(m.g(torch.cat([m.a(x), x], 1)))


@pattern(image, cut="a.weight d.weight g.weight", a=conv(3, 12), d=conv(12, 12, 3, groups=12, padding=1),
         g=conv(12, 24, groups=4), b=conv(24, 5))  # fmt: skip
def depthwise_then_grouped(m, x):
    return m.b(m.g(m.d(m.a(x))))


@pattern(image, cut="a.weight u.weight", a=conv(3, 6), u=up(6, 8, stride=2), b=conv(8, 5))
def transposed(m, x):
    return m.b(m.u(m.a(x)).relu())


@pattern(image, cut="a.weight u.weight", a=conv(3, 12), u=up(12, 18, groups=3, stride=2),
         b=conv(18, 5))  # fmt: skip
def transposed_grouped(m, x):
    return m.b(m.u(m.a(x)))


@pattern(
    image, cut="a.weight u.weight", a=conv(3, 8), u=up(8, 8, groups=8, bias=False), b=conv(8, 5)
)
def transposed_depthwise(m, x):
    return m.b(m.u(m.a(x)))


@pattern(image, cut="a.weight u.weight", a=conv(3, 6), u=up(6, 12, groups=6), b=conv(12, 5))
def transposed_depthwise_with_multiplier(m, x):
    return m.b(m.u(m.a(x)))


@pattern(image, cut="a.weight u.weight", a=conv(3, 12), u=up(12, 4, groups=4), b=conv(4, 5))
def transposed_many_to_one(m, x):
    return m.b(m.u(m.a(x)))


@pattern(sequence, cut="a.weight d.weight", a=partial(nn.Conv1d, 3, 8, 3),
         d=partial(nn.Conv1d, 8, 8, 3, groups=8), n=partial(nn.BatchNorm1d, 8),
         b=partial(nn.Conv1d, 8, 5, 1))  # fmt: skip
def one_dimension(m, x):
    return m.b(m.n(m.d(m.a(x))).relu())


@pattern(volume, cut="a.weight d.weight", a=partial(nn.Conv3d, 3, 8, 1),
         d=partial(nn.Conv3d, 8, 8, 3, groups=8), n=partial(nn.BatchNorm3d, 8),
         b=partial(nn.Conv3d, 8, 5, 1))  # fmt: skip
def three_dimensions(m, x):
    return m.b(m.n(m.d(m.a(x))).relu())


@pattern(volume, cut="a.weight", a=conv(3, 8), n=bn(8), b=partial(nn.Conv3d, 8, 5, 1))
def frames_folded_into_the_batch(m, x):
    n, c, t, h, w = x.shape
    y = m.n(m.a(x.transpose(1, 2).reshape(n * t, c, h, w)))
    return m.b(y.view(n, t, -1, h, w).transpose(1, 2))


@pattern(image, cut="a.weight g.weight", a=conv(3, 12), g=conv(12, 12, groups=3), b=conv(12, 5),
         p=partial(nn.Conv2d, 12, 12, 3, padding=1, padding_mode="reflect"))  # fmt: skip
def reflected_padding(m, x):
    return m.b(m.g(m.p(m.a(x))))

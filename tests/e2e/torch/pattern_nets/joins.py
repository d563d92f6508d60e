"""Concatenations, shortcuts and sums: where channels of several makers meet."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from .base import conv, image, linear, numbers, pattern


@pattern(image, cut="a.weight b.weight c.weight:1", a=conv(3, 6), b=conv(3, 4), c=conv(10, 5))
def concat(m, x):
    return m.c(torch.cat([m.a(x), m.b(x)], 1))


@pattern(image, cut="a.weight", a=conv(3, 8), b=conv(11, 5))
def concat_with_input(m, x):
    return m.b(torch.cat([m.a(x), x], 1))


@pattern(image, cut="a.weight", a=conv(3, 8), b=conv(11, 5))
def concat_input_first(m, x):
    return m.b(torch.cat([x, m.a(x)], 1).relu())


@pattern(image, cut="a.weight", a=conv(3, 8), b=conv(24, 5))
def concat_with_itself(m, x):
    y = m.a(x)
    return m.b(torch.cat([y, y.relu(), y.flip(1)], 1))


@pattern(image, cut="a.weight b.weight", a=conv(3, 6), b=conv(9, 6), c=conv(15, 5))
def dense_block(m, x):
    x = torch.cat([x, m.a(x)], 1)
    return m.c(torch.cat([x, m.b(x)], 1))


@pattern(image, cut="a.weight b.weight", a=conv(3, 6), b=conv(3, 6), c=conv(12, 5))
def concat_in_two_orders(m, x):
    a, b = m.a(x), m.b(x)
    return m.c(torch.cat([a, b], 1) + torch.cat([b, a], 1))


@pattern(image, cut="a.weight b.weight c.weight", a=conv(3, 6), b=conv(3, 4), c=conv(3, 10),
         d=conv(10, 5))  # fmt: skip
def concat_plus_one_maker(m, x):
    return m.d(torch.cat([m.a(x), m.b(x)], 1) + m.c(x))


@pattern(image, cut="a.weight b.weight", a=conv(3, 6), b=conv(3, 6), c=conv(6, 5))
def concat_of_pictures(m, x):
    return m.c(torch.cat([m.a(x), m.b(x)], 2))


@pattern(image, cut="a.weight", a=conv(3, 6), b=conv(12, 5))
def concat_with_pooled(m, x):
    y = m.a(x)
    pooled = F.adaptive_avg_pool2d(y, 1).expand(-1, -1, 4, 4)
    return m.b(torch.cat([y, pooled], 1))


@pattern(image, cut="a.weight", a=conv(3, 6), b=conv(8, 5))
def concat_with_coordinates(m, x):
    y = m.a(x)
    rows = torch.arange(4, dtype=x.dtype).view(1, 1, 4, 1).expand(x.shape[0], 1, 4, 4)
    return m.b(torch.cat([y, rows, rows.transpose(2, 3)], 1))


@pattern(image, cut="a.weight", a=conv(3, 6), b=conv(9, 5))
def concat_with_zeros(m, x):
    return m.b(torch.cat([m.a(x), torch.zeros_like(x)], 1))


@pattern(image, cut="a.weight", a=conv(3, 6), b=conv(7, 5))
def concat_with_mean_channel(m, x):
    return m.b(torch.cat([m.a(x), x.mean(1, keepdim=True)], 1))


@pattern(image, cut="a.weight b.weight c.weight", a=conv(3, 8), b=conv(8, 8), c=conv(8, 6),
         d=conv(6, 8), e=conv(8, 5))  # fmt: skip
def residual_chain(m, x):
    y = m.a(x)
    y = y + m.b(y).relu()
    return m.e(y + m.d(m.c(y).relu()))


@pattern(image, frozen="a.weight", because="input", cut="b.weight", a=conv(3, 3), b=conv(3, 8),
         c=conv(8, 5))  # fmt: skip
def residual_on_the_input(m, x):
    return m.c(m.b(m.a(x) + x))


@pattern(image, cut="a.weight b.weight", a=conv(3, 6), b=conv(6, 10), c=conv(10, 5))
def zero_padded_shortcut(m, x):
    y = m.a(x)
    return m.c(m.b(y) + F.pad(y, (0, 0, 0, 0, 0, 4)))


@pattern(image, cut="a.weight", a=conv(3, 6), b=conv(6, 10), c=conv(10, 5))
def zero_padded_shortcut_on_both_sides(m, x):
    y = m.a(x)
    return m.c(m.b(y).relu() + F.pad(y[:, :, ::2, ::2], (0, 2, 2, 0, 2, 2)))


@pattern(image, cut="a.weight b.weight", how="traced", a=conv(3, 6), b=conv(6, 10), c=conv(10, 5))
def zeros_joined_to_shortcut(m, x):
    y = m.a(x)
    zeros = torch.zeros(y.shape[0], 4, 4, 4, dtype=y.dtype)
    return m.c(m.b(y) + torch.cat([y, zeros], 1))


@pattern(image, cut="a.weight b.weight", how="traced", a=conv(3, 6), b=conv(6, 10), c=conv(10, 5))
def zeros_like_a_slice_joined(m, x):
    y = m.a(x)
    z = m.b(y)
    return m.c(z + torch.cat([y, torch.zeros_like(z[:, 6:])], 1))


@pattern(image, cut="a.weight", a=conv(3, 6), b=conv(6, 12), c=conv(12, 5))
def shortcut_joined_to_its_zeros(m, x):
    y = m.a(x)
    return m.c(m.b(y) + torch.cat([y, y * 0], 1))


@pattern(image, cut="a.weight b.weight:1", a=conv(3, 6), b=conv(6, 3))
def output_plus_input(m, x):
    return x + m.b(m.a(x))


@pattern(image, cut="a.weight b.weight", mix=numbers(1), a=conv(3, 6), b=conv(3, 6), c=conv(6, 5))
def learned_mix(m, x):
    return m.c(torch.lerp(m.a(x), m.b(x), m.mix.sigmoid()))


@pattern(image, cut="a.weight b.weight", a=conv(3, 6, 3, padding=1), b=conv(3, 6, stride=2),
         c=conv(6, 5))  # fmt: skip
def pyramid(m, x):
    up = F.interpolate(m.b(x), scale_factor=2, mode="nearest")
    return m.c(up + m.a(x))


@pattern(image, cut="a.weight b.weight", a=conv(3, 6), b=conv(6, 6, 3, padding=1, stride=2),
         c=conv(6, 8), d=conv(14, 5))  # fmt: skip
def u_net(m, x):
    y = m.a(x)
    up = F.interpolate(m.c(m.b(y)), size=y.shape[2:], mode="bilinear", align_corners=False)
    return m.d(torch.cat([y, up], 1))


@pattern(image, cut="a.weight b.weight", a=conv(3, 6), b=conv(3, 6), c=conv(6, 5))
def maxout_of_two_layers(m, x):
    return m.c(torch.maximum(m.a(x), m.b(x)))


@pattern(image, cut="a.weight", a=conv(3, 12), b=conv(4, 5))
def maxout_by_view(m, x):
    y = m.a(x)
    n, c, h, w = y.shape
    return m.b(y.view(n, 3, c // 3, h, w).amax(1))


@pattern(image, cut="a.weight", a=conv(3, 12), b=conv(4, 5))
def maxout_of_neighbours(m, x):
    y = m.a(x)
    n, c, h, w = y.shape
    return m.b(y.view(n, c // 3, 3, h, w).amax(2))


@pattern(image, cut="a.weight", frozen="b.weight", because="folds it together", mixes="",
         a=conv(3, 6), b=conv(3, 6), c=linear(36, 5))  # fmt: skip
def bilinear_pooling(m, x):
    a, b = m.a(x).flatten(2), m.b(x).flatten(2)
    return m.c(torch.bmm(a, b.transpose(1, 2)).flatten(1))


@pattern(image, cut="a.weight", layers=lambda: nn.ModuleList([nn.Conv2d(3, 6, 1) for _ in range(3)]),
         a=conv(3, 6), c=conv(6, 5))  # fmt: skip
def sum_of_a_list(m, x):
    return m.c(m.a(x) + sum(layer(x) for layer in m.layers))

"""Shuffles, flips, flattening, pixel shuffles: the same elements in another order."""

from __future__ import annotations

from functools import partial

import torch
from torch import nn
from torch.nn import functional as F

from .base import bn, conv, image, linear, numbers, pattern


@pattern(image, cut="a.weight n.weight b.weight:1", a=conv(3, 12), n=bn(12), b=conv(12, 5))
def plain_chain(m, x):
    return m.b(m.n(m.a(x)).relu())


@pattern(image, cut="a.weight", how="traced", a=conv(3, 12), b=conv(12, 5))
def shuffle_by_view_numbers_in_code(m, x):
    y = m.a(x).view(-1, 3, 4, 4, 4).transpose(1, 2).reshape(-1, 12, 4, 4)
    return m.b(y)


@pattern(image, cut="a.weight", a=conv(3, 12), b=conv(12, 5))
def shuffle_by_view_of_sizes(m, x):
    y = m.a(x)
    n, c, h, w = y.shape
    return m.b(y.view(n, 3, c // 3, h, w).transpose(1, 2).reshape(n, c, h, w))


@pattern(image, cut="a.weight", width=12, a=conv(3, 12), b=conv(12, 5))
def shuffle_by_view_width_on_module(m, x):
    y = m.a(x).reshape(-1, 2, m.width // 2, 16).transpose(1, 2).reshape(-1, m.width, 4, 4)
    return m.b(y)


@pattern(image, cut="a.weight", s=partial(nn.ChannelShuffle, 4), a=conv(3, 12), b=conv(12, 5))
def shuffle_module(m, x):
    return m.b(m.s(m.a(x)).tanh())


@pattern(
    image, cut="a.weight c.weight d.weight", s=partial(nn.ChannelShuffle, 2),
    a=conv(3, 12), c=conv(6, 6, 3, padding=1), d=conv(6, 6), b=conv(12, 5),
)  # fmt: skip
def shuffle_unit(m, x):
    left, right = m.a(x).chunk(2, 1)
    y = m.s(torch.cat([left, m.c(right).relu()], 1))
    left, right = y.chunk(2, 1)
    return m.b(m.s(torch.cat([left, m.d(right)], 1)))


@pattern(
    image, cut="a.weight g.weight", s=partial(nn.ChannelShuffle, 3),
    a=conv(3, 18), g=conv(18, 18, groups=3), b=conv(18, 5),
)  # fmt: skip
def shuffle_then_groups(m, x):
    return m.b(m.g(m.s(m.a(x))))


@pattern(image, cut="a.weight", a=conv(3, 8), b=conv(8, 5))
def flip_channels(m, x):
    return m.b(m.a(x).flip(1))


@pattern(image, cut="a.weight", a=conv(3, 8), b=conv(8, 5))
def flip_channels_and_rows(m, x):
    return m.b(torch.flip(m.a(x), (1, -2)))


@pattern(image, cut="a.weight", a=conv(3, 8), b=conv(8, 5))
def flip_and_add(m, x):
    y = m.a(x)
    return m.b(y + y.flip(1))


@pattern(image, cut="a.weight", a=conv(3, 8), b=conv(8, 5))
def roll_channels(m, x):
    return m.b(torch.roll(m.a(x), 3, 1))


@pattern(image, cut="a.weight", a=conv(3, 8), b=conv(8, 5))
def roll_channels_back(m, x):
    return m.b(torch.roll(m.a(x), -2, 1))


@pattern(image, cut="a.weight", a=conv(3, 8), b=conv(8, 5))
def roll_pictures(m, x):
    return m.b(torch.roll(m.a(x), (1, 2), (2, 3)))


@pattern(image, cut="a.weight b.weight:1", a=conv(3, 8), b=linear(128, 5))
def flatten_to_linear(m, x):
    return m.b(m.a(x).flatten(1))


@pattern(image, cut="a.weight b.weight:1", a=conv(3, 8), b=linear(128, 5))
def permute_before_flatten(m, x):
    return m.b(m.a(x).permute(0, 2, 3, 1).flatten(1))


@pattern(image, cut="a.weight", how="traced", a=conv(3, 8), b=linear(128, 5))
def flatten_by_number(m, x):
    return m.b(m.a(x).view(-1, 8 * 4 * 4))


@pattern(image, cut="a.weight", how="traced", a=conv(3, 8), b=linear(8, 5))
def flatten_pooled_by_number(m, x):
    return m.b(F.adaptive_avg_pool2d(m.a(x), 1).view(x.shape[0], 8))


@pattern(image, cut="a.weight", a=conv(3, 8), b=linear(8, 5))
def channels_last_linear(m, x):
    return m.b(m.a(x).permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


@pattern(image, cut="a.weight b.weight", a=conv(3, 8), b=linear(8, 8), c=linear(8, 5))
def tokens_and_back(m, x):
    y = m.a(x)
    t = y.flatten(2).transpose(1, 2)
    t = t + m.b(t).relu()
    return m.c(t.transpose(1, 2).reshape(y.shape).mean((2, 3)))


@pattern(image, frozen="a.weight", because="input", a=conv(3, 4), b=conv(4, 5))
def channels_become_rows(m, x):
    return m.b(m.a(x).transpose(1, 2) + F.pad(x, (0, 0, 0, 0, 0, 1)))


@pattern(image, cut="a.weight b.weight", s=partial(nn.PixelShuffle, 2),
         a=conv(3, 24), b=conv(6, 8), c=conv(8, 5))  # fmt: skip
def pixel_shuffle(m, x):
    return m.c(m.b(m.s(m.a(x))))


@pattern(image, cut="a.weight", s=partial(nn.PixelUnshuffle, 2), a=conv(3, 6), b=conv(24, 5))
def pixel_unshuffle(m, x):
    return m.b(m.s(m.a(x)))


@pattern(image, cut="a.weight", a=conv(3, 32), b=conv(8, 5))
def pixel_shuffle_by_view(m, x):
    y = m.a(x)
    n, c, h, w = y.shape
    y = y.view(n, c // 4, 2, 2, h, w).permute(0, 1, 4, 2, 5, 3)
    return m.b(y.reshape(n, c // 4, h * 2, w * 2))


@pattern(image, cut="a.weight", how="traced", a=conv(3, 12), b=conv(3, 5))
def pixel_shuffle_by_view_few_channels(m, x):
    y = m.a(x).view(-1, 3, 2, 2, 4, 4).permute(0, 1, 4, 2, 5, 3)
    return m.b(y.reshape(-1, 3, 8, 8))


@pattern(image, cut="a.weight", a=conv(3, 6), b=conv(24, 5))
def pixel_unshuffle_by_view(m, x):
    y = m.a(x)
    n, c, h, w = y.shape
    y = y.view(n, c, h // 2, 2, w // 2, 2).permute(0, 1, 3, 5, 2, 4)
    return m.b(y.reshape(n, c * 4, h // 2, w // 2))


@pattern(image, cut="a.weight", a=conv(3, 6), b=conv(24, 5))
def focus_by_slices(m, x):
    y = m.a(x)
    parts = [y[..., ::2, ::2], y[..., 1::2, ::2], y[..., ::2, 1::2], y[..., 1::2, 1::2]]
    return m.b(torch.cat(parts, 1))


@pattern(image, cut="a.weight", a=conv(3, 6), b=linear(54, 5))
def unfold_to_columns(m, x):
    return m.b(F.unfold(m.a(x), 3).transpose(1, 2))


@pattern(image, cut="a.weight", a=conv(3, 24), b=conv(6, 5))
def fold_to_picture(m, x):
    return m.b(F.fold(m.a(x).flatten(2), (8, 8), 2, stride=2))


@pattern(image, cut="a.weight", a=conv(3, 8), b=conv(8, 5))
def unsqueeze_and_squeeze(m, x):
    return m.b(m.a(x).unsqueeze(1).unsqueeze(-1).relu().squeeze(-1).squeeze(1))


@pattern(image, cut="a.weight b.weight:1", a=conv(3, 8), b=conv(8, 1), c=linear(4, 5))
def squeeze_to_one_channel(m, x):
    return m.c(m.b(m.a(x)).squeeze(1))


@pattern(image, cut="a.weight", a=conv(3, 8), b=conv(8, 5))
def swap_rows_and_columns(m, x):
    return m.b(m.a(x).transpose(2, 3).contiguous())


@pattern(image, cut="a.weight b.weight", a=conv(3, 8), b=conv(3, 8), c=conv(8, 5))
def stack_and_sum(m, x):
    return m.c(torch.stack([m.a(x), m.b(x)], 1).sum(1))


@pattern(image, cut="a.weight", a=conv(3, 8), b=conv(16, 5))
def stack_after_channels_and_flatten(m, x):
    y = m.a(x)
    return m.b(torch.stack([y, y.square()], 2).flatten(1, 2))


@pattern(image, cut="a.weight b.weight:1", a=conv(3, 6), b=conv(6, 5), w=numbers(6, 9))
def windows_weighed_per_channel(m, x):
    y = m.a(x)
    n, c, h, w = y.shape
    windows = F.unfold(y, 3, padding=1).view(n, c, 9, h * w)
    return m.b((windows * m.w[None, :, :, None]).sum(2).view(n, c, h, w))


@pattern(image, cut="a.weight", a=conv(3, 12), k=conv(12, 18), b=conv(12, 5),
         frozen="k.weight", because="its length is set by view")  # fmt: skip
def involution(m, x):
    y = m.a(x)
    n, c, h, w = y.shape
    kernel = m.k(y).view(n, 2, 1, 9, h, w)
    windows = F.unfold(y, 3, padding=1).view(n, 2, c // 2, 9, h, w)
    return m.b((windows * kernel).sum(3).view(n, c, h, w))


@pattern(image, cut="a.weight", a=conv(3, 4), b=conv(4, 5))
def each_repeated_often_and_averaged(m, x):
    y = m.a(x)
    return m.b(y.repeat_interleave(6, 1).unflatten(1, (y.shape[1], 6)).mean(2))


@pattern(image, cut="a.weight c.weight d.weight b.weight:1", how="module",
         a=conv(3, 8), c=conv(3, 8), d=linear(8, 8), b=conv(8, 5))  # fmt: skip
def tokens_viewed_as_another_picture(m, x):
    y = m.a(x)
    t = m.d(m.c(x).flatten(2).transpose(1, 2)).transpose(1, 2)
    return m.b(y.relu() + 1), m.b(t.reshape_as(y)).square()


@pattern(image, cut="a.weight", frozen="c.weight", because="for an axis that stays",
         a=conv(3, 6), c=conv(6, 12), b=conv(12, 5))  # fmt: skip
def input_viewed_as_a_layer(m, x):
    y = m.c(m.a(x))
    wide = x.flatten(1).repeat(1, 4).view_as(y)
    return m.b(wide) + m.b(y).mean()


@pattern(image, cut="a.weight b.weight:1", a=conv(3, 8), b=conv(8, 5))
def turned_pictures(m, x):
    y = m.a(x)
    return m.b(torch.rot90(y, 1, (2, 3)) + y)


@pattern(image, cut="a.weight b.weight:1 d.weight", a=conv(3, 8), b=conv(8, 6), d=conv(6, 8),
         e=conv(8, 5))  # fmt: skip
def pooled_and_unpooled(m, x):
    y, places = F.max_pool2d(m.a(x), 2, return_indices=True)
    return m.e(F.max_unpool2d(m.d(m.b(y)), places, 2))


@pattern(image, cut="a.weight b.weight:1", a=conv(3, 8), b=conv(8, 5))
def cast_to_the_type_of_a_weight(m, x):
    return m.b(m.a(x).type_as(m.b.weight).to(m.a.bias))


@pattern(image, frozen="a.weight", because="the plain tensor 'mask'", mask=torch.ones(8),
         a=conv(3, 8), b=conv(8, 5))  # fmt: skip
def mask_that_is_no_buffer(m, x):
    return m.b(m.a(x) * m.mask.view(1, -1, 1, 1))


@pattern(
    image, frozen="a.weight", because="a tensor that `forward` builds", a=conv(3, 4), b=conv(4, 5)
)
def mask_built_in_forward(m, x):
    return m.b(m.a(x) * torch.tensor([1.0, 2.0, 3.0, 4.0]).to(x)[None, :, None, None])

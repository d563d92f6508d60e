"""Chunks, splits, slices, gated halves, and channels that are written or repeated."""

from __future__ import annotations

import torch
from torch.nn import functional as F

from .base import conv, image, linear, pattern, tokens


@pattern(image, cut="a.weight", a=conv(3, 12), b=conv(12, 5))
def chunks_joined_in_another_order(m, x):
    first, second, third = m.a(x).chunk(3, 1)
    return m.b(torch.cat([third, first.relu(), second], 1))


@pattern(image, cut="a.weight", how="traced", a=conv(3, 12), b=conv(12, 5))
def unequal_split_joined(m, x):
    first, second = m.a(x).split([4, 8], 1)
    return m.b(torch.cat([second, first.relu()], 1))


@pattern(image, cut="a.weight c.weight d.weight", how="traced", a=conv(3, 12), c=conv(3, 6), d=conv(6, 4),
         b=conv(10, 5))  # fmt: skip
def unequal_split_of_which_one_goes_on(m, x):
    first, second = m.a(x).split([6, 6], 1)
    return m.b(torch.cat([first * m.c(x), m.d(second)], 1))


@pattern(image, cut="a.weight", how="traced", a=conv(3, 14), b=conv(14, 5))
def split_with_a_shorter_last_part(m, x):
    return m.b(torch.cat(m.a(x).split(4, 1)[::-1], 1))


@pattern(image, cut="a.weight", a=conv(3, 10), b=conv(10, 5))
def chunk_with_a_shorter_last_part(m, x):
    return m.b(torch.cat(m.a(x).chunk(3, 1)[::-1], 1))


@pattern(image, cut="a.weight", how="traced", a=conv(3, 12), b=conv(12, 5))
def tensor_split_at_places(m, x):
    first, second, third = torch.tensor_split(m.a(x), (3, 7), 1)
    return m.b(torch.cat([third, second, first], 1))


@pattern(image, cut="a.weight", parts=(8, 4), a=conv(3, 12), b=conv(8, 5), c=conv(4, 5))
def split_by_sizes_on_module(m, x):
    first, second = m.a(x).split(m.parts, 1)
    return m.b(first) + m.c(second)


@pattern(image, cut="a.weight b.weight:1", a=conv(3, 12), b=conv(6, 5))
def glu(m, x):
    return m.b(F.glu(m.a(x), 1))


@pattern(tokens, cut="a.weight b.weight:1", a=linear(6, 16), b=linear(8, 5))
def glu_over_tokens(m, x):
    return m.b(F.glu(m.a(x)))


@pattern(image, cut="a.weight b.weight:1", a=conv(3, 12), b=conv(6, 5))
def gated_halves(m, x):
    value, gate = m.a(x).chunk(2, 1)
    return m.b(value * F.silu(gate))


@pattern(image, cut="a.weight", how="traced", a=conv(3, 12), b=conv(6, 5))
def gated_halves_by_number(m, x):
    y = m.a(x)
    return m.b(y[:, :6].tanh() * y[:, 6:].sigmoid())


@pattern(tokens, cut="a.weight g.weight", a=linear(6, 8), g=linear(6, 8), b=linear(8, 5))
def gated_by_two_layers(m, x):
    return m.b(F.gelu(m.a(x)) * m.g(x))


@pattern(image, cut="a.weight", how="traced", a=conv(3, 12), b=conv(4, 5))
def max_feature_map_of_three(m, x):
    first, second, third = torch.split(m.a(x), 4, 1)
    return m.b(torch.max(torch.max(first, second), third))


@pattern(image, cut="a.weight c.weight", how="traced", a=conv(3, 12), c=conv(4, 4, 3, padding=1),
         b=conv(12, 5))  # fmt: skip
def partial_convolution(m, x):
    first, rest = torch.split(m.a(x), [4, 8], 1)
    return m.b(torch.cat([m.c(first), rest], 1))


@pattern(image, cut="a.weight", a=conv(3, 12), b=conv(6, 5))
def every_second_channel(m, x):
    return m.b(m.a(x)[:, ::2])


@pattern(image, cut="a.weight", a=conv(3, 12), b=conv(6, 5))
def even_gated_by_odd(m, x):
    y = m.a(x)
    return m.b(y[:, ::2] * y[:, 1::2].sigmoid())


@pattern(image, cut="a.weight", a=conv(3, 12), b=conv(12, 5))
def even_then_odd(m, x):
    y = m.a(x)
    return m.b(torch.cat([y[:, ::2], y[:, 1::2].relu()], 1))


@pattern(image, frozen="a.weight", because="every 5th channel", a=conv(3, 12), b=conv(3, 5))
def every_fifth_channel(m, x):
    return m.b(m.a(x)[:, ::5])


@pattern(image, cut="a.weight", how="traced", a=conv(3, 12), b=conv(5, 5))
def narrow(m, x):
    return m.b(m.a(x).narrow(1, 4, 5))


@pattern(image, cut="a.weight", how="traced", a=conv(3, 12), b=conv(9, 5))
def last_channels_from_behind(m, x):
    return m.b(m.a(x)[:, -9:])


@pattern(image, cut="a.weight", how="traced", a=conv(3, 12), b=conv(8, 5))
def overlapping_slices(m, x):
    y = m.a(x)
    return m.b(y[:, :8] + y[:, 4:])


@pattern(image, cut="a.weight c.weight", how="traced", a=conv(3, 12), c=conv(3, 4), b=conv(12, 5))
def slice_assigned(m, x):
    y = m.a(x).clone()
    y[:, :4] = m.c(x)
    return m.b(y)


@pattern(image, cut="a.weight", how="traced", a=conv(3, 12), b=conv(12, 5))
def slice_added_in_place(m, x):
    y = m.a(x).clone()
    y[:, 4:7] += y[:, :3]
    y[:, 8:].mul_(2)
    return m.b(y)


@pattern(image, cut="a.weight c.weight", how="traced", a=conv(3, 12), c=conv(4, 4, 3, padding=1),
         b=conv(12, 5))  # fmt: skip
def partial_convolution_in_place(m, x):
    y = m.a(x).clone()
    y[:, :4] = m.c(y[:, :4].clone())
    return m.b(y)


@pattern(image, cut="a.weight", how="traced", fold=3, a=conv(3, 12), b=conv(12, 5))
def shift_by_slices(m, x):
    y = m.a(x)
    out = torch.zeros_like(y)
    out[:, :3, 1:] = y[:, :3, :-1]
    out[:, 3:6, :-1] = y[:, 3:6, 1:]
    out[:, 6:] = y[:, 6:]
    return m.b(out)


@pattern(
    image, frozen="a.weight", because="picks one channel by number", a=conv(3, 8), b=conv(1, 5)
)
def one_channel_by_number(m, x):
    return m.b(m.a(x)[:, 2].unsqueeze(1))


@pattern(image, frozen="a.weight", because="by number", a=conv(3, 8), b=conv(4, 5))
def channels_by_a_list(m, x):
    return m.b(m.a(x)[:, [0, 2, 5, 1]])


@pattern(image, frozen="a.weight", because="number", order=lambda: torch.nn.Buffer(torch.arange(7, -1, -1)),
         a=conv(3, 8), b=conv(8, 5))  # fmt: skip
def channels_by_a_stored_table(m, x):
    return m.b(torch.index_select(m.a(x), 1, m.order))


@pattern(image, cut="a.weight", a=conv(3, 6), b=conv(18, 5))
def repeat(m, x):
    return m.b(m.a(x).repeat(1, 3, 1, 1))


@pattern(image, cut="a.weight b.weight", a=conv(3, 4), b=conv(3, 8), c=conv(8, 5))
def repeat_to_meet_a_wider_one(m, x):
    return m.c(m.a(x).tile(1, 2, 1, 1) + m.b(x))


@pattern(image, cut="a.weight", a=conv(3, 6), b=conv(12, 5))
def repeat_interleave(m, x):
    return m.b(torch.repeat_interleave(m.a(x), 2, 1))


@pattern(image, cut="a.weight", a=conv(3, 6), b=conv(12, 5))
def repeat_by_expand(m, x):
    y = m.a(x)
    n, c, h, w = y.shape
    return m.b(y.unsqueeze(2).expand(n, c, 2, h, w).reshape(n, 2 * c, h, w))


@pattern(image, frozen="a.weight", because="stretches", a=conv(3, 1), b=conv(6, 5))
def one_channel_stretched(m, x):
    return m.b(m.a(x).expand(-1, 6, -1, -1))


@pattern(image, cut="a.weight", a=conv(3, 8), b=conv(4, 5))
def mean_of_two_halves_by_view(m, x):
    y = m.a(x)
    n, c, h, w = y.shape
    return m.b(y.view(n, 2, c // 2, h, w).mean(1))


@pattern(image, cut="a.weight", how="traced", a=conv(3, 12), b=conv(9, 5))
def all_but_first_and_last_two(m, x):
    return m.b(m.a(x)[:, 1:-2])


@pattern(
    image, cut="a.weight", frozen="a.weight", because="single channel", a=conv(3, 9), b=conv(9, 5)
)
def first_channel_gates_all(m, x):
    y = m.a(x)
    return m.b(y * y[:, :1].sigmoid())


@pattern(image, cut="a.weight", how="traced", frozen="a.weight", because="single channel", a=conv(3, 9),
         b=conv(8, 5))  # fmt: skip
def last_channel_gates_the_rest(m, x):
    y, gate = m.a(x).split([8, 1], 1)
    return m.b(y) * gate.sigmoid()

"""Bare parameters and functional layers: no module that could be asked for its width."""

from __future__ import annotations

import torch
from torch.nn import functional as F

from .base import conv, image, linear, numbers, pattern, tokens


@pattern(image, cut="w u:1", w=numbers(8, 3, 1, 1), c=numbers(8), u=numbers(5, 8, 1, 1))
def functional_convolutions(m, x):
    return F.conv2d(F.conv2d(x, m.w, m.c).relu(), m.u)


@pattern(tokens, cut="w c u:1", w=numbers(8, 6), c=numbers(8), u=numbers(5, 8))
def functional_linear(m, x):
    return F.linear(F.linear(x, m.w, m.c).relu(), m.u)


@pattern(tokens, cut="w:1 c u:0", w=numbers(6, 8), c=numbers(8), u=numbers(8, 5))
def product_with_a_parameter(m, x):
    return (x @ m.w + m.c).relu() @ m.u


@pattern(tokens, cut="w:1 u:0", w=numbers(6, 8), u=numbers(8, 5))
def einsum_with_parameters(m, x):
    return torch.einsum("ntd,do->nto", torch.einsum("btc,cd->btd", x, m.w).relu(), m.u)


@pattern(image, cut="a.weight w:0", w=numbers(8, 6), a=conv(3, 8), b=conv(6, 5))
def einsum_over_channels(m, x):
    return m.b(torch.einsum("nchw,cd->ndhw", m.a(x), m.w))


@pattern(image, cut="a.weight w", w=numbers(8), v=numbers(8), a=conv(3, 8), b=conv(8, 5))
def parameter_viewed_per_channel(m, x):
    return m.b(m.a(x) * m.w.view(1, -1, 1, 1) + m.v[:, None, None])


@pattern(image, cut="a.weight w", how="traced", w=numbers(8), a=conv(3, 8), b=conv(8, 5))
def parameter_viewed_by_number(m, x):
    return m.b(m.a(x) * m.w.view(1, 8, 1, 1))


@pattern(image, cut="a.weight w", w=numbers(8), s=numbers(8), a=conv(3, 8), b=conv(8, 5),
         mean=lambda: torch.nn.Buffer(torch.zeros(8)), var=lambda: torch.nn.Buffer(torch.ones(8)))  # fmt: skip
def functional_batch_norm(m, x):
    return m.b(F.batch_norm(m.a(x), m.mean, m.var, m.w, m.s))


@pattern(image, cut="a.weight w", w=numbers(8), a=conv(3, 8), b=conv(8, 5))
def functional_prelu(m, x):
    return m.b(F.prelu(m.a(x), m.w))


@pattern(image, cut="a.weight w", w=numbers(8, 1, 3, 3), a=conv(3, 8), b=conv(8, 5))
def functional_depthwise(m, x):
    y = m.a(x)
    return m.b(F.conv2d(y, m.w, padding=1, groups=y.shape[1]))


@pattern(image, cut="a.weight w", how="traced", w=numbers(8, 1, 3, 3), a=conv(3, 8), b=conv(8, 5))
def functional_depthwise_by_number(m, x):
    return m.b(F.conv2d(m.a(x), m.w, padding=1, groups=8))


@pattern(image, cut="a.weight w", w=numbers(8, 6, 2, 2), a=conv(3, 8), b=conv(6, 5))
def functional_transposed(m, x):
    return m.b(F.conv_transpose2d(m.a(x), m.w, stride=2))


@pattern(image, cut="a.weight b.weight", w=numbers(8, 6), a=conv(3, 8), b=conv(6, 7), c=conv(7, 5))
def matrix_turned_into_a_kernel(m, x):
    return m.c(m.b(F.conv2d(m.a(x), m.w.t()[:, :, None, None])))


@pattern(image, cut="a.weight", mixes="bmm", a=conv(3, 8), hyper=linear(3, 40))
def dynamic_convolution(m, x):
    y = m.a(x)
    weight = m.hyper(x.mean((2, 3))).view(x.shape[0], 5, -1)
    return torch.bmm(weight, y.flatten(2))


@pattern(image, cut="w:1 u:1", w=numbers(3, 8, 3, 1, 1), u=numbers(5, 8, 1, 1), route=numbers(3))
def mixture_of_kernels(m, x):
    kernel = (m.w * m.route.softmax(0).view(-1, 1, 1, 1, 1)).sum(0)
    return F.conv2d(F.conv2d(x, kernel).relu(), m.u)


@pattern(lambda n: torch.randint(0, 9, (n, 5)), cut="e.weight:1 b.weight:1",
         e=lambda: torch.nn.Embedding(9, 8), b=linear(8, 5))  # fmt: skip
def embedding(m, x):
    return m.b(m.e(x).relu())


@pattern(image, cut="a.weight b.weight:1", a=conv(3, 8), b=conv(8, 5))
def constants_and_masks(m, x):
    y = m.a(x)
    y = torch.where(y > 0.1, y, y * 0.1).clamp(-2, 2)
    return m.b(y.masked_fill(y.abs() > 1.5, 0.0) + torch.ones_like(y) * 0.3)


@pattern(image, cut="a.weight", a=conv(3, 8), b=conv(8, 5))
def pooled_in_many_ways(m, x):
    y = m.a(x)
    y = F.max_pool2d(y, 2) + F.avg_pool2d(y, 2) + F.adaptive_max_pool2d(y, 2) + F.lp_pool2d(y, 2, 2)
    return m.b(F.interpolate(y, scale_factor=2, mode="bicubic"))


@pattern(image, cut="a.weight w:1", a=conv(3, 8), w=numbers(8, 6), b=linear(6, 5))
def tensordot_with_a_parameter(m, x):
    return m.b(torch.tensordot(m.a(x), m.w, dims=([1], [0])))


@pattern(image, cut="a.weight u b.weight:1", a=conv(3, 8), u=numbers(8), v=numbers(4), b=conv(8, 5))
def outer_product_of_parameters(m, x):
    return m.b(m.a(x) * torch.outer(m.u, m.v)[None, :, :, None])


@pattern(image, cut="a.weight c.weight d.weight d.weight:1 d.weight:2 b.weight:1", a=conv(3, 8),
         c=conv(3, 6), d=lambda: torch.nn.Bilinear(8, 6, 7), b=linear(7, 5))  # fmt: skip
def bilinear_layer(m, x):
    return m.b(m.d(m.a(x).mean((2, 3)), m.c(x).amax((2, 3))))


@pattern(image, cut="a.weight w w:1", a=conv(3, 8), w=numbers(8, 6), b=linear(8, 5))
def one_matrix_both_ways(m, x):
    t = m.a(x).permute(0, 2, 3, 1)
    return m.b(F.linear(F.linear(t, m.w.t()).relu(), m.w))


@pattern(image, cut="a.weight w b.weight:1", a=conv(3, 8), w=numbers(8, 4, 3, 2), b=conv(8, 5))
def filter_of_frequencies(m, x):
    waves = torch.fft.rfft2(m.a(x), norm="ortho") * torch.view_as_complex(m.w)
    return m.b(torch.fft.irfft2(waves, s=(4, 4), norm="ortho"))


@pattern(
    image, cut="a.weight w", mixes="einsum", a=conv(3, 8), w=numbers(8, 6, 4, 3, 2), b=conv(6, 5)
)
def operator_on_frequencies(m, x):
    waves = torch.fft.rfftn(m.a(x), dim=(-2, -1))
    mixed = torch.einsum("bixy,ioxy->boxy", waves, torch.view_as_complex(m.w))
    return m.b(torch.fft.irfftn(mixed, dim=(-2, -1)))


@pattern(image, frozen="a.weight", because="works along it", a=conv(3, 8), b=conv(8, 5))
def frequencies_of_channels(m, x):
    return m.b(torch.fft.fft(m.a(x), dim=1).real)


@pattern(image, cut="a.weight b.weight:1", a=conv(3, 8), b=conv(8, 5))
def complex_numbers_in_between(m, x):
    y = m.a(x)
    z = torch.complex(y, y.flip(3))
    return m.b((z * z.conj()).real + torch.view_as_real(z).sum(-1) + z.imag)

"""Weights that are computed from others: weight norm, spectral norm, sharing, freezing."""

from __future__ import annotations

import warnings

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations, parametrize

from .base import bn, conv, image, linear, numbers, pattern


def wrapped(wrapper, factory, **options):
    """Return a factory of a wrapped layer; the old hooks say that they are old."""

    def make():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return wrapper(factory(), **options)

    return make


@pattern(image, cut="a.weight_g a.weight_v b.weight:1", mixes="weight_norm", divided="a.weight_v",
         a=wrapped(nn.utils.weight_norm, conv(3, 8)), b=conv(8, 5))  # fmt: skip
def weight_norm_by_hook(m, x):
    return m.b(m.a(x).relu())


@pattern(image, cut="a.weight c.weight_v:1", mixes="weight_norm", divided="c.weight_v", a=conv(3, 8),
         c=wrapped(nn.utils.weight_norm, conv(8, 8)), b=conv(8, 5))  # fmt: skip
def weight_norm_by_hook_on_the_consumer(m, x):
    return m.b(m.c(m.a(x)).relu())


@pattern(image, cut="a.parametrizations.weight.original0 b.weight:1",
         mixes="weight_norm", divided="a.parametrizations.weight.original1",
         a=wrapped(parametrizations.weight_norm, conv(3, 8)), b=conv(8, 5))  # fmt: skip
def weight_norm_by_parametrization(m, x):
    return m.b(m.a(x).relu())


@pattern(image, cut="a.weight_orig a.weight_u b.weight:1",
         a=wrapped(nn.utils.spectral_norm, conv(3, 8)), b=conv(8, 5))  # fmt: skip
def spectral_norm_by_hook(m, x):
    return m.b(m.a(x).relu())


@pattern(image, cut="a.parametrizations.weight.original b.weight:1", mixes="vdot",
         a=wrapped(parametrizations.spectral_norm, conv(3, 8)), b=conv(8, 5))  # fmt: skip
def spectral_norm_by_parametrization(m, x):
    return m.b(m.a(x).relu())


@pattern(image, cut="a.weight c.parametrizations.weight.original:1", mixes="mv", a=conv(3, 8, 3),
         c=wrapped(parametrizations.spectral_norm, conv(8, 6, 2)), b=conv(6, 5))  # fmt: skip
def spectral_norm_on_the_consumer(m, x):
    return m.b(m.c(m.a(x)).relu())


class Doubled(nn.Module):
    def forward(self, weight):
        return weight * 2


def doubled():
    layer = nn.Conv2d(3, 8, 1)
    parametrize.register_parametrization(layer, "weight", Doubled())
    return layer


@pattern(image, cut="a.parametrizations.weight.original", a=doubled, b=conv(8, 5))
def a_parametrization_of_ones_own(m, x):
    return m.b(m.a(x))


@pattern(
    image, cut="a.weight c.weight", a=conv(3, 8), c=conv(8, 8, 3, padding=1), n=bn(8), b=conv(8, 5)
)
def module_called_twice(m, x):
    y = m.a(x)
    for _ in range(2):
        y = m.n(m.c(y)).relu()
    return m.b(y)


@pattern(image, cut="a.weight c.weight", a=conv(3, 8), c=conv(3, 8), n=bn(8), b=conv(8, 5))
def one_norm_for_two_layers(m, x):
    return m.b(m.n(m.a(x)) * m.n(m.c(x)))


def tied():
    pair = nn.ModuleList([nn.Conv2d(8, 8, 1, bias=False), nn.Conv2d(8, 8, 1, bias=False)])
    pair[1].weight = pair[0].weight
    return pair


@pattern(image, cut="a.weight pair.0.weight", a=conv(3, 8), pair=tied, b=conv(8, 5))
def tied_layers(m, x):
    return m.b(m.pair[1](m.pair[0](m.a(x)).relu()))


@pattern(image, cut="a.weight", a=linear(4, 8), b=linear(8, 5))
def tied_encoder_and_decoder(m, x):
    y = F.linear(m.a(x).relu(), m.a.weight.t())
    return m.b(m.a(y).relu())


def frozen_conv():
    return nn.Conv2d(3, 8, 1).requires_grad_(False)


@pattern(image, cut="a.weight b.weight:1", a=frozen_conv, n=lambda: nn.BatchNorm2d(8).requires_grad_(False),
         b=conv(8, 5))  # fmt: skip
def frozen_parameters(m, x):
    return m.b(m.n(m.a(x)).relu())


@pattern(image, cut="a.weight b.weight:1", quant=torch.ao.quantization.QuantStub,
         dequant=torch.ao.quantization.DeQuantStub, a=conv(3, 8), b=conv(8, 5))  # fmt: skip
def quantisation_stubs(m, x):
    return m.dequant(m.b(m.a(m.quant(x)).relu()))


@pattern(image, cut="a.weight b.weight:1", a=conv(3, 8), b=conv(8, 5))
def fake_quantisation(m, x):
    y = m.a(x)
    return m.b(
        y + (torch.fake_quantize_per_tensor_affine(y.float(), 0.05, 0, -128, 127) - y).detach()
    )


@pattern(
    image,
    cut="a.weight c.weight n.weight",
    a=conv(3, 8, 3, padding=1),
    c=conv(3, 8),
    n=bn(8),
    b=conv(8, 5),
)
def re_parametrised_branches(m, x):
    return m.b(m.n(m.a(x) + m.c(x)).relu())


@pattern(image, cut="base b.weight:1", base=numbers(8, 3, 1, 1), low=numbers(8, 2), high=numbers(2, 3),
         b=conv(8, 5))  # fmt: skip
def low_rank_addition(m, x):
    weight = m.base + (m.low @ m.high)[:, :, None, None]
    return m.b(F.conv2d(x, weight))

"""Norms of every kind, stored statistics, blur kernels, and scales."""

from __future__ import annotations

from functools import partial

import torch
from torch import nn
from torch.nn import functional as F

from .base import bn, conv, image, linear, numbers, pattern, tokens


@pattern(image, cut="a.weight w:0", how="traced", mixes="layer_norm", over="a.weight", a=conv(3, 8),
         w=numbers(8, 4, 4), b=conv(8, 5))  # fmt: skip
def layer_norm_over_pictures_functional(m, x):
    y = m.a(x)
    if m.only is None:
        return m.b(F.layer_norm(y, (8, 4, 4), m.w))
    seen = F.layer_norm(y[:, m.only], (len(m.only), 4, 4), m.w[m.only])
    return m.b(torch.zeros_like(y).index_copy(1, m.only, seen))


@pattern(image, cut="a.weight n.weight", mixes="layer_norm", a=conv(3, 8),
         n=partial(nn.LayerNorm, (8, 4, 4)), b=conv(8, 5))  # fmt: skip
def layer_norm_over_pictures(m, x):
    return m.b(m.n(m.a(x)))


@pattern(tokens, cut="a.weight n.weight", mixes="layer_norm", a=linear(6, 8), n=partial(nn.LayerNorm, 8),
         b=linear(8, 5))  # fmt: skip
def layer_norm_over_tokens(m, x):
    return m.b(m.n(m.a(x)))


@pattern(image, cut="a.weight n.weight", mixes="layer_norm", a=conv(3, 8), n=partial(nn.LayerNorm, 8),
         b=conv(8, 5))  # fmt: skip
def layer_norm_channels_last(m, x):
    return m.b(m.n(m.a(x).permute(0, 2, 3, 1)).permute(0, 3, 1, 2))


@pattern(tokens, cut="a.weight", mixes="layer_norm", over="a.weight", a=linear(6, 8), b=linear(8, 5),
         n=partial(nn.LayerNorm, 8, elementwise_affine=False))  # fmt: skip
def layer_norm_without_weights(m, x):
    y = m.a(x)
    if m.only is None:
        return m.b(m.n(y))
    seen = y[..., m.only]
    return m.b(torch.zeros_like(y).index_copy(-1, m.only, F.layer_norm(seen, seen.shape[-1:])))


@pattern(image, cut="a.weight gain:1", gain=numbers(1, 8, 1, 1), mixes="mean", over="a.weight", a=conv(3, 8),
         b=conv(8, 5))  # fmt: skip
def layer_norm_by_hand(m, x):
    y = m.a(x)
    seen = y if m.only is None else y[:, m.only]
    mean, var = seen.mean(1, keepdim=True), seen.var(1, keepdim=True, unbiased=False)
    return m.b((y - mean) / (var + 1e-5).sqrt() * m.gain)


@pattern(tokens, cut="a.weight n.weight", mixes="norm", a=linear(6, 8), n=partial(nn.RMSNorm, 8),
         b=linear(8, 5))  # fmt: skip
def rms_norm(m, x):
    return m.b(m.n(m.a(x)))


@pattern(tokens, cut="a.weight gain", gain=numbers(8), mixes="mean", over="a.weight", a=linear(6, 8),
         b=linear(8, 5))  # fmt: skip
def rms_norm_by_hand(m, x):
    y = m.a(x)
    seen = y if m.only is None else y[..., m.only]
    return m.b(y * torch.rsqrt(seen.pow(2).mean(-1, keepdim=True) + 1e-6) * m.gain)


@pattern(image, cut="a.weight n.weight", mixes="group_norm", a=conv(3, 12), n=partial(nn.GroupNorm, 3, 12),
         b=conv(12, 5))  # fmt: skip
def group_norm(m, x):
    return m.b(m.n(m.a(x)).relu())


@pattern(image, cut="a.weight n.weight", mixes="group_norm", a=conv(3, 12), n=partial(nn.GroupNorm, 1, 12),
         b=conv(12, 5))  # fmt: skip
def group_norm_of_one_group(m, x):
    return m.b(m.n(m.a(x)).relu())


@pattern(image, cut="a.weight n.weight", a=conv(3, 8), n=partial(nn.GroupNorm, 8, 8), b=conv(8, 5))
def group_norm_of_single_channels(m, x):
    return m.b(m.n(m.a(x)).relu())


@pattern(image, cut="a.weight g.weight", mixes="group_norm", a=conv(3, 12), n=partial(nn.GroupNorm, 3, 12),
         g=conv(12, 12, groups=2), b=conv(12, 5))  # fmt: skip
def group_norm_before_other_groups(m, x):
    return m.b(m.g(m.n(m.a(x))))


@pattern(image, cut="a.weight n.weight", a=conv(3, 8), n=partial(nn.InstanceNorm2d, 8, affine=True),
         b=conv(8, 5))  # fmt: skip
def instance_norm(m, x):
    return m.b(m.n(m.a(x)))


@pattern(image, cut="a.weight", a=conv(3, 8), n=partial(nn.InstanceNorm2d, 8), b=conv(8, 5))
def instance_norm_without_weights(m, x):
    return m.b(m.n(m.a(x)))


@pattern(image, cut="a.weight n.running_mean", a=conv(3, 8), b=conv(8, 5),
         n=partial(nn.InstanceNorm2d, 8, track_running_stats=True))  # fmt: skip
def instance_norm_with_statistics(m, x):
    return m.b(m.n(m.a(x)))


@pattern(image, cut="a.weight", a=conv(3, 8), n=partial(nn.InstanceNorm2d, 4, affine=True), c=bn(4),
         b=conv(8, 5))  # fmt: skip
def half_instance_half_batch_norm(m, x):
    first, second = m.a(x).chunk(2, 1)
    return m.b(torch.cat([m.n(first), m.c(second)], 1))


@pattern(image, cut="a.weight n.running_mean", a=conv(3, 8), n=bn(8, affine=False), b=conv(8, 5))
def batch_norm_without_weights(m, x):
    return m.b(m.n(m.a(x)))


@pattern(
    image, cut="a.weight n.weight", a=conv(3, 8), n=bn(8, track_running_stats=False), b=conv(8, 5)
)
def batch_norm_without_statistics(m, x):
    return m.b(m.n(m.a(x)))


@pattern(
    image,
    cut="a.weight n.weight b.weight:1",
    n=partial(nn.BatchNorm1d, 8),
    a=conv(3, 8),
    b=linear(8, 5),
)
def batch_norm_on_a_vector(m, x):
    return m.b(m.n(m.a(x).mean((2, 3))))


class FrozenBatchNorm(nn.Module):
    """As in torchvision's detection models: four buffers, no parameter."""

    def __init__(self, channels):
        super().__init__()
        for name, value in (("weight", 1.0), ("bias", 0.0), ("mean", 0.0), ("var", 1.0)):
            self.register_buffer(name, torch.full((channels,), value))

    def forward(self, x):
        w, b, mean, var = (
            one.reshape(1, -1, 1, 1) for one in (self.weight, self.bias, self.mean, self.var)
        )
        scale = w * (var + 1e-5).rsqrt()
        return x * scale + (b - mean * scale)


@pattern(
    image, cut="a.weight n.mean n.var", a=conv(3, 8), n=partial(FrozenBatchNorm, 8), b=conv(8, 5)
)
def frozen_batch_norm(m, x):
    return m.b(m.n(m.a(x)))


class BlurPool(nn.Module):
    """A fixed kernel, stored once for each channel."""

    def __init__(self, channels):
        super().__init__()
        row = torch.tensor([1.0, 2.0, 1.0]) / 4
        self.register_buffer("kernel", (row[:, None] * row).repeat(channels, 1, 1, 1))

    def forward(self, x):
        padded = F.pad(x, (1, 1, 1, 1), mode="reflect")
        return F.conv2d(padded, self.kernel, stride=2, groups=x.shape[1])


@pattern(image, cut="a.weight p.kernel", a=conv(3, 8), p=partial(BlurPool, 8), b=conv(8, 5))
def blur_pooling(m, x):
    return m.b(m.p(m.a(x).relu()))


class BlurPoolOfOne(nn.Module):
    """A fixed kernel, stored once and expanded for as many channels as there are."""

    def __init__(self):
        super().__init__()
        row = torch.tensor([1.0, 2.0, 1.0]) / 4
        self.register_buffer("kernel", (row[:, None] * row)[None, None])

    def forward(self, x):
        kernel = self.kernel.expand(x.shape[1], -1, -1, -1)
        return F.conv2d(x, kernel, stride=2, groups=x.shape[1])


@pattern(image, cut="a.weight", a=conv(3, 8), p=BlurPoolOfOne, b=conv(8, 5))
def blur_pooling_with_an_expanded_kernel(m, x):
    return m.b(m.p(m.a(x).relu()))


class StandardizedConv(nn.Conv2d):
    """As in normalizer-free networks: weights of mean 0 and length 1, with a learned gain."""

    def __init__(self, inputs, outputs):
        super().__init__(inputs, outputs, 3, padding=1)
        self.gain = nn.Parameter(torch.ones(outputs, 1, 1, 1))

    def forward(self, x):
        size = self.weight[0].numel()
        weight = F.batch_norm(
            self.weight.reshape(1, self.out_channels, -1), None, None,
            weight=(self.gain * size**-0.5).view(-1), training=True, momentum=0.0, eps=1e-6,
        ).reshape_as(self.weight)  # fmt: skip
        return F.conv2d(x, weight, self.bias, self.stride, self.padding)


@pattern(image, frozen="a.weight", because="", a=partial(StandardizedConv, 3, 8), b=conv(8, 5))
def standardized_convolution(m, x):
    return m.b(m.a(x).relu())


class CentredConv(nn.Conv2d):
    """Weight standardisation by hand, with mean and deviation."""

    def forward(self, x):
        mean = self.weight.mean(dim=[1, 2, 3], keepdim=True)
        std = self.weight.std(dim=[1, 2, 3], keepdim=True) + 1e-5
        return F.conv2d(x, (self.weight - mean) / std, self.bias, self.stride, self.padding)


@pattern(image, cut="a.weight", a=partial(CentredConv, 3, 8, 3), b=conv(8, 5))
def centred_convolution(m, x):
    return m.b(m.a(x).relu())


@pattern(image, cut="a.weight c.weight", alpha=0.2, gain=numbers(1), a=conv(3, 8), c=conv(8, 8), d=conv(8, 8),
         b=conv(8, 5))  # fmt: skip
def scaled_residual_without_norms(m, x):
    y = m.a(x)
    z = m.d(F.silu(m.c(F.silu(y) * 1.7)) * 1.7)
    return m.b(y + z * m.gain * m.alpha)


@pattern(image, cut="a.weight p.weight", a=conv(3, 8), p=partial(nn.PReLU, 8), b=conv(8, 5))
def prelu(m, x):
    return m.b(m.p(m.a(x)))


@pattern(image, cut="a.weight", a=conv(3, 8), p=nn.PReLU, b=conv(8, 5))
def prelu_of_one_slope(m, x):
    return m.b(m.p(m.a(x)))


@pattern(image, cut="b.weight", frozen="a.weight", because="", a=conv(3, 8),
         n=partial(nn.LocalResponseNorm, 3), b=conv(8, 6), c=conv(6, 5))  # fmt: skip
def local_response_norm(m, x):
    return m.c(m.b(m.n(m.a(x))))

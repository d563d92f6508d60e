"""Attention between tokens: heads stay whole, everything around them can be cut."""

from __future__ import annotations

from functools import partial

import torch
from torch import nn
from torch.nn import functional as F

from .base import conv, image, linear, numbers, pattern, tokens


@pattern(tokens, frozen="qkv.weight", because="heads stay whole", cut="up.weight", qkv=linear(6, 24),
         o=linear(8, 6), up=linear(6, 12), down=linear(12, 5))  # fmt: skip
def fused_qkv_with_numbers_in_code(m, x):
    n, t, _ = x.shape
    q, k, v = m.qkv(x).reshape(n, t, 3, 2, 4).permute(2, 0, 3, 1, 4)
    near = (q @ k.transpose(-2, -1) * 0.5).softmax(-1)
    return m.down(m.up(m.o((near @ v).transpose(1, 2).reshape(n, t, 8))).relu())


@pattern(tokens, frozen="qkv.weight", because="heads stay whole", cut="up.weight", heads=2,
         qkv=linear(6, 24), o=linear(8, 6), up=linear(6, 12), down=linear(12, 5))  # fmt: skip
def fused_qkv_through_one_operator(m, x):
    n, t, _ = x.shape
    q, k, v = m.qkv(x).reshape(n, t, 3, m.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
    y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(n, t, -1)
    return m.down(m.up(m.o(y)).relu())


@pattern(tokens, frozen="q.weight", because="heads stay whole", cut="a.weight", a=linear(6, 10),
         q=linear(10, 8), k=linear(10, 8), v=linear(10, 8), o=linear(8, 5))  # fmt: skip
def heads_by_three_layers(m, x):
    y = m.a(x)
    n, t, _ = y.shape
    q, k, v = (part(y).view(n, t, 2, 4).transpose(1, 2) for part in (m.q, m.k, m.v))
    near = (q @ k.transpose(2, 3) / 2).softmax(-1)
    return m.o((near @ v).transpose(1, 2).flatten(2))


@pattern(tokens, frozen="mha.in_proj_weight", because="", cut="up.weight",
         mha=partial(nn.MultiheadAttention, 6, 2, batch_first=True), up=linear(6, 12),
         down=linear(12, 5))  # fmt: skip
def attention_module(m, x):
    return m.down(F.gelu(m.up(x + m.mha(x, x, x, need_weights=False)[0])))


@pattern(tokens, cut="encoder.linear1.weight",
         encoder=partial(nn.TransformerEncoderLayer, 6, 2, 12, batch_first=True),
         o=linear(6, 5))  # fmt: skip
def encoder_layer(m, x):
    return m.o(m.encoder(x))


@pattern(tokens, cut="v.weight", q=linear(6, 8), k=linear(6, 8), v=linear(6, 8), o=linear(8, 5))
def single_head_through_one_operator(m, x):
    return m.o(F.scaled_dot_product_attention(m.q(x), m.k(x), m.v(x)))


@pattern(tokens, cut="q.weight v.weight", mixes="einsum", q=linear(6, 8), k=linear(6, 8), v=linear(6, 8),
         o=linear(8, 5))  # fmt: skip
def single_head_by_einsum(m, x):
    near = torch.einsum("ntd,nsd->nts", m.q(x), m.k(x)).mul(0.3).softmax(-1)
    return m.o(torch.einsum("nts,nsd->ntd", near, m.v(x)))


@pattern(tokens, cut="up.weight", one=numbers(6), two=numbers(6), n=partial(nn.LayerNorm, 6),
         up=linear(6, 12), down=linear(12, 6), o=linear(6, 5))  # fmt: skip
def layer_scale_on_tokens(m, x):
    x = x + m.one * m.down(F.gelu(m.up(m.n(x))))
    return m.o(x * m.two)


@pattern(image, cut="a.weight scale down.weight", scale=numbers(8), a=conv(3, 8), up=linear(8, 16),
         down=linear(16, 8), b=conv(8, 5))  # fmt: skip
def layer_scale_on_pictures(m, x):
    y = m.a(x)
    z = m.down(F.gelu(m.up(y.permute(0, 2, 3, 1)))) * m.scale
    return m.b(y + z.permute(0, 3, 1, 2))


@pattern(image, cut="a.weight place:2", place=numbers(1, 16, 8), a=conv(3, 8), b=linear(8, 5))
def positional_embedding(m, x):
    return m.b(m.a(x).flatten(2).transpose(1, 2) + m.place)


@pattern(image, cut="a.weight place:2 first:2", place=numbers(1, 17, 8), first=numbers(1, 1, 8), a=conv(3, 8),
         b=linear(8, 5))  # fmt: skip
def class_token_and_positions(m, x):
    t = m.a(x).flatten(2).transpose(1, 2)
    t = torch.cat([m.first.expand(t.shape[0], -1, -1), t], 1) + m.place
    return m.b(t[:, 0])


@pattern(image, cut="a.weight place:1", place=numbers(1, 8, 2, 2), a=conv(3, 8), b=conv(8, 5))
def positions_resized(m, x):
    place = F.interpolate(m.place, size=(4, 4), mode="bilinear", align_corners=False)
    return m.b(m.a(x) + place)


@pattern(image, cut="a.weight", a=conv(3, 8), b=linear(8, 5), q=numbers(1, 1, 8))
def attention_pooling(m, x):
    t = m.a(x).flatten(2).transpose(1, 2)
    weight = (m.q @ t.transpose(1, 2)).softmax(-1)
    return m.b((weight @ t).squeeze(1))


@pattern(tokens, cut="up.weight mix.weight", mix=linear(5, 7), back=linear(7, 5), up=linear(6, 12),
         down=linear(12, 6), o=linear(6, 5))  # fmt: skip
def mixer(m, x):
    x = x + m.back(F.gelu(m.mix(x.transpose(1, 2)))).transpose(1, 2)
    return m.o(x + m.down(F.gelu(m.up(x))))


@pattern(tokens, cut="up.weight", up=linear(6, 16), space=linear(5, 5), down=linear(8, 5))
def spatial_gating_unit(m, x):
    u, v = F.gelu(m.up(x)).chunk(2, -1)
    return m.down(u * m.space(v.transpose(1, 2)).transpose(1, 2))

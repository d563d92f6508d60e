"""LSTM, GRU and plain recurrent layers behind and before convolutions."""

from __future__ import annotations

from functools import partial

import torch
from torch import nn

from .base import conv, image, linear, pattern, tokens


@pattern(image, cut="a.weight r.weight_ih_l0 b.weight:1", a=conv(3, 8),
         r=partial(nn.LSTM, 8, 6, batch_first=True), b=linear(6, 5))  # fmt: skip
def lstm_head(m, x):
    y, _ = m.r(m.a(x).mean(2).transpose(1, 2))
    return m.b(y)


@pattern(image, cut="a.weight r.weight_ih_l0", a=conv(3, 8), r=partial(nn.LSTM, 8, 6, batch_first=True),
         b=linear(6, 5))  # fmt: skip
def lstm_last_state(m, x):
    _, (h, _) = m.r(m.a(x).mean(2).transpose(1, 2))
    return m.b(h[-1])


@pattern(tokens, cut="r.weight_ih_l0 r.weight_ih_l0_reverse b.weight:1",
         r=partial(nn.LSTM, 6, 6, batch_first=True, bidirectional=True), b=linear(12, 5))  # fmt: skip
def lstm_both_ways(m, x):
    return m.b(m.r(x)[0])


@pattern(tokens, cut="r.weight_ih_l0 r.weight_ih_l1",
         r=partial(nn.LSTM, 6, 6, 2, batch_first=True, bidirectional=True), b=linear(12, 5))  # fmt: skip
def lstm_two_layers_both_ways(m, x):
    return m.b(m.r(x)[0].relu()[:, -1])


@pattern(image, cut="a.weight r.weight_ih_l0", a=conv(3, 8), r=partial(nn.GRU, 8, 6, batch_first=True),
         b=linear(6, 5))  # fmt: skip
def gru_head(m, x):
    y, h = m.r(m.a(x).flatten(2).transpose(1, 2))
    return m.b(y[:, -1] + h[0])


@pattern(tokens, cut="r.weight_ih_l0 r.weight_ih_l1",
         r=partial(nn.GRU, 6, 8, 2, batch_first=True, bias=False), b=linear(8, 5))  # fmt: skip
def gru_two_layers_without_bias(m, x):
    return m.b(m.r(x)[0])


@pattern(tokens, cut="r.weight_ih_l0", r=partial(nn.RNN, 6, 8, batch_first=True), b=linear(8, 5))
def plain_recurrence(m, x):
    return m.b(m.r(x)[0])


@pattern(image, cut="a.weight start.weight r.weight_ih_l0", a=conv(3, 8), start=linear(3, 6),
         r=partial(nn.GRU, 8, 6, batch_first=True), b=linear(6, 5))  # fmt: skip
def state_from_another_layer(m, x):
    first = m.start(x.mean((2, 3))).unsqueeze(0)
    return m.b(m.r(m.a(x).flatten(2).transpose(1, 2), first)[0])


@pattern(image, cut="a.weight r.weight_ih_l0 s.weight_ih_l0", a=conv(3, 8, 4),
         r=partial(nn.LSTM, 8, 6, batch_first=True, bidirectional=True), e=linear(12, 8),
         s=partial(nn.LSTM, 8, 6, batch_first=True, bidirectional=True), b=linear(12, 5))  # fmt: skip
def text_recogniser(m, x):
    steps = m.a(torch.cat([x] * 3, 3)).squeeze(2).permute(0, 2, 1)
    return m.b(m.s(m.e(m.r(steps)[0]))[0])


@pattern(tokens, cut="a.weight r.weight_ih r.weight_hh r.weight_hh:1", a=linear(6, 8),
         r=partial(nn.LSTMCell, 8, 6), b=linear(6, 5))  # fmt: skip
def lstm_cell_in_a_loop(m, x):
    state = None
    for t in range(3):
        state = m.r(m.a(x[:, t]), state)
    return m.b(state[0])


@pattern(
    tokens, cut="r.weight_ih r.weight_hh", how="traced", r=partial(nn.GRUCell, 6, 8), b=linear(8, 5)
)
def gru_cell_in_a_loop_from_zeros(m, x):
    state = torch.zeros(x.shape[0], 8, dtype=x.dtype)
    for t in range(3):
        state = m.r(x[:, t], state)
    return m.b(state)

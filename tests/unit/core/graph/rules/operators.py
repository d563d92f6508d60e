"""The operators in NumPy, written down as their definitions say: the ground truth of the rules.

Each takes the node's attributes, then its inputs, then its weights by role. Those that
mix channels skip NaN, which is how the judge tells them to ignore a channel.
"""

from __future__ import annotations

from math import prod

import numpy as np

# Contraction.


def linear(attrs, x, weight, bias=0.0):
    return x @ weight.T + bias


def conv(attrs, x, weight, bias=None):
    """Valid convolution, stride 1, over any number of spatial axes."""
    groups, (batch, inputs), (outputs, each) = attrs["groups"], x.shape[:2], weight.shape[:2]
    if inputs != groups * each or outputs % groups:
        raise ValueError(f"{inputs} -> {outputs} channels in {groups} groups of {each}")
    kernel = weight.shape[2:]
    windows = np.lib.stride_tricks.sliding_window_view(x, kernel, tuple(range(2, x.ndim)))
    spatial = windows.shape[2 : x.ndim]
    windows = windows.reshape(batch, groups, each, prod(spatial), prod(kernel))
    filters = weight.reshape(groups, outputs // groups, each, prod(kernel))
    y = np.einsum("ngipk,goik->ngop", windows, filters).reshape(batch, outputs, *spatial)
    return y if bias is None else y + bias.reshape(-1, *[1] * len(kernel))


def conv_transpose(attrs, x, weight, bias=None):
    """The full convolution with the kernel turned around; weight[i, o, ...]."""
    groups, (inputs, each), kernel = attrs["groups"], weight.shape[:2], weight.shape[2:]
    if x.shape[1] != inputs or inputs % groups:
        raise ValueError(f"{x.shape[1]} channels for {inputs} filters in {groups} groups")
    padded = np.pad(x, [(0, 0), (0, 0), *[(k - 1, k - 1) for k in kernel]])
    turned = np.flip(weight, tuple(range(2, weight.ndim)))
    turned = turned.reshape(groups, inputs // groups, each, *kernel).swapaxes(1, 2)
    return conv(attrs, padded, turned.reshape(groups * each, inputs // groups, *kernel), bias)


def einsum(attrs, *operands, **params):
    operands = (*operands, *params.values())
    return np.einsum(attrs["equation"], *[np.nan_to_num(one, nan=0.0) for one in operands])


def matmul(attrs, a, b):
    return np.nan_to_num(a) @ np.nan_to_num(b)


def embedding(attrs, x, weight):
    return weight[x]


# Element by element.


def add_all(attrs, *inputs, **params):
    return sum((*inputs, *params.values()))


def prelu(attrs, x, weight):
    scale = weight.reshape(-1, *[1] * (x.ndim - 2)) if weight.size > 1 else weight
    return np.maximum(x - 1, 0) + scale * np.minimum(x - 1, 0)


# Layout.


def reshape(attrs, x):
    return x.reshape(attrs["shape"])


def reshape_as(_attrs, x, like):
    return x.reshape(like.shape)


def transpose(attrs, x):
    return x.transpose(attrs["order"])


def concat(attrs, *inputs):
    return np.concatenate(inputs, attrs["axis"])


def split(attrs, x):
    if sum(attrs["sizes"]) != x.shape[attrs["axis"]]:
        raise ValueError(f"{attrs['sizes']} is not {x.shape[attrs['axis']]}")
    return tuple(np.split(x, np.cumsum(attrs["sizes"])[:-1], attrs["axis"]))


def chunk(attrs, x):
    """The same as a split, asked for as "halves"."""
    return tuple(np.split(x, len(attrs["sizes"]), attrs["axis"]))


def slice_(attrs, x):
    if attrs["step"] == 1 and attrs["stop"] > x.shape[attrs["axis"]]:
        raise ValueError(f"{attrs['stop']} is beyond {x.shape[attrs['axis']]}")
    part = slice(attrs["start"], attrs["stop"], attrs["step"])
    return x[(slice(None),) * attrs["axis"] + (part,)]


def every_second(attrs, x):
    """Neighbours in pairs, the first of each: what code with `x[::2]` means."""
    return np.take(x, range(0, x.shape[attrs["axis"]], 2), attrs["axis"])


def second_third(attrs, x):
    """The middle one of three equal parts, asked for as such."""
    return np.split(x, 3, attrs["axis"])[1]


def flip(attrs, x):
    return np.flip(x, attrs["axis"])


def roll(attrs, x):
    return np.roll(x, attrs["shift"], attrs["axis"])


def select(attrs, x):
    return np.take(x, attrs["index"], attrs["axis"])


def expand(attrs, x):
    return np.broadcast_to(x, attrs["shape"])


def expand_as(attrs, x, like):
    return np.broadcast_to(x, like.shape)


def fill(attrs):
    return np.zeros(attrs["shape"])


def constant(attrs, *inputs):
    return np.arange(4.0)


def pad(attrs, x):
    return np.pad(x, attrs["amounts"])


def pad_circular(attrs, x):
    return np.pad(x, attrs["amounts"], mode="wrap")


def repeat(attrs, x):
    return np.tile(x, attrs["times"])


def repeat_each(attrs, x):
    return np.repeat(x, attrs["times"], attrs["axis"])


def write(attrs, x, part):
    y = x.copy()
    place = slice(attrs["start"], attrs["stop"])
    if y[(slice(None),) * attrs["axis"] + (place,)].shape != part.shape:
        raise ValueError("the part does not fit its place")
    y[(slice(None),) * attrs["axis"] + (place,)] = part
    return y


def write_first_half(attrs, x, part):
    length = x.shape[attrs["axis"]]
    if length % 2:
        raise ValueError(f"{length} has no halves")
    return write({**attrs, "start": 0, "stop": length // 2}, x, part)


def windows(attrs, x):
    return np.lib.stride_tricks.sliding_window_view(x, 2, attrs["axis"])


def take_axis_1(attrs, x, index):
    return np.take(x, index, 1)


def largest_two(attrs, x):
    return np.sort(x, axis=1)[:, -2:]


def crossed(attrs, *inputs):
    """Something that depends on every number of channels."""
    return sum(float(one.size) for one in inputs) * inputs[0]


# Normalisation.


def _scaled(y, weight, bias, places):
    shape = [y.shape[axis] if axis in places else 1 for axis in range(y.ndim)]
    y = y if weight is None else y * weight.reshape(shape)
    return y if bias is None else y + bias.reshape(shape)


def _standard(x, axes):
    centred = x - np.nanmean(x, axes, keepdims=True)
    return centred / np.sqrt(np.nanmean(centred**2, axes, keepdims=True) + 1e-5)


def batch_norm(attrs, x, weight=None, bias=None, mean=None, var=None):
    if attrs["from_input"]:
        y = _standard(x, (0, *range(2, x.ndim)))
    else:
        shape = (-1, *[1] * (x.ndim - 2))
        y = (x - mean.reshape(shape)) / np.sqrt(var.reshape(shape) + 1e-5)
    return _scaled(y, weight, bias, (1,))


def instance_norm(attrs, x, weight=None, bias=None):
    if x.shape[1] != attrs.get("channels", x.shape[1]):
        raise ValueError(f"{x.shape[1]} channels, and the module expects {attrs['channels']}")
    if attrs.get("channels", x.shape[1]) != x.shape[1]:
        raise ValueError(f"{x.shape[1]} channels, where {attrs['channels']} were told")
    return _scaled(_standard(x, tuple(range(2, x.ndim))), weight, bias, (1,))


def layer_norm(attrs, x, weight=None, bias=None):
    axes = tuple(range(x.ndim - attrs["axes"], x.ndim))
    if list(x.shape[-attrs["axes"] :]) != list(attrs["normalized_shape"]):
        raise ValueError(f"{x.shape} does not end in {attrs['normalized_shape']}")
    return _scaled(_standard(x, axes), weight, bias, axes)


def group_norm(attrs, x, weight=None, bias=None):
    batch, channels, *rest = x.shape
    runs = x.reshape(batch, attrs["groups"], channels // attrs["groups"], *rest)
    if channels % attrs["groups"]:
        raise ValueError(f"{channels} channels in {attrs['groups']} groups")
    return _scaled(_standard(runs, tuple(range(2, runs.ndim))).reshape(x.shape), weight, bias, (1,))


def softmax(attrs, x):
    (axis,) = attrs["axes"]
    return np.exp(x) / np.nansum(np.exp(x), axis, keepdims=True)


def cumsum(attrs, x):
    return np.nancumsum(x, attrs["axes"][0])


def weight_norm(attrs, direction, length):
    axes = tuple(axis for axis in range(direction.ndim) if axis != attrs["axis"])
    return length * direction / np.sqrt(np.nansum(direction**2, axes, keepdims=True))


# Gathering.


def max_pool(attrs, x):
    return np.maximum(x[..., :-1], x[..., 1:])


def max_pool_with_indices(attrs, x):
    return max_pool(attrs, x), (x[..., :-1] < x[..., 1:]).astype(float)


def mean(attrs, x):
    return np.nanmean(x, tuple(attrs["axes"]), keepdims=attrs["keepdim"])


def argmax(attrs, x):
    """An index is compared as a number, which is what makes cuts of lower channels wrong."""
    return np.argmax(x, attrs["axes"][0], keepdims=attrs["keepdim"]).astype(float)


def mean_and_variance(attrs, x):
    first = mean(attrs, x)
    return first, np.nanvar(x, tuple(attrs["axes"]), keepdims=attrs["keepdim"])


def unfold(attrs, x):
    """Kernel 2 x 2, stride 1."""
    batch, channels = x.shape[:2]
    seen = np.lib.stride_tricks.sliding_window_view(x, (2, 2), (2, 3))
    high, wide = seen.shape[2:4]
    return seen.transpose(0, 1, 4, 5, 2, 3).reshape(batch, channels * 4, high * wide)


def fold(attrs, x):
    """Blocks of 2 x 2 that do not overlap, to one row of blocks."""
    batch, rows, columns = x.shape
    if rows % 4:
        raise ValueError(f"{rows} rows are no windows of 4")
    blocks = x.reshape(batch, rows // 4, 2, 2, columns)
    return blocks.transpose(0, 1, 2, 4, 3).reshape(batch, rows // 4, 2, columns * 2)


# Attention.


def attention(attrs, q, k, v, mask=0.0):
    scale = 1 / np.sqrt(q.shape[-1]) if attrs.get("scaled_by_length", True) else 1.0
    if k.ndim > 2 and k.shape[-3] not in (1, q.shape[-3]):  # grouped queries
        k, v = (np.repeat(one, q.shape[-3] // one.shape[-3], -3) for one in (k, v))
    scores = np.einsum("...nd,...md->...nm", np.nan_to_num(q), np.nan_to_num(k)) * scale + mask
    if attrs.get("causal"):
        scores = scores + np.triu(np.full(scores.shape, -1e9), 1)
    # A key that is NaN throughout is no key.
    scores = np.where(np.isnan(k).all(-1)[..., None, :], -np.inf, scores)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    return np.einsum("...nm,...me->...ne", weights, np.nan_to_num(v))


# Recurrent layers, as PyTorch defines them.


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


def _lstm_step(x, state, w_ih, w_hh, b_ih, b_hh):
    hidden, cell = state
    i, f, g, o = np.split(x @ w_ih.T + b_ih + hidden @ w_hh.T + b_hh, 4, -1)
    cell = _sigmoid(f) * cell + _sigmoid(i) * np.tanh(g)
    return _sigmoid(o) * np.tanh(cell), cell


def _gru_step(x, state, w_ih, w_hh, b_ih, b_hh):
    (hidden,) = state
    r_x, z_x, n_x = np.split(x @ w_ih.T + b_ih, 3, -1)
    r_h, z_h, n_h = np.split(hidden @ w_hh.T + b_hh, 3, -1)
    r, z = _sigmoid(r_x + r_h), _sigmoid(z_x + z_h)
    return ((1 - z) * np.tanh(n_x + r * n_h) + z * hidden,)


def _plain_step(x, state, w_ih, w_hh, b_ih, b_hh):
    return (np.tanh(x @ w_ih.T + b_ih + state[0] @ w_hh.T + b_hh),)


_STEPS = {4: _lstm_step, 3: _gru_step, 1: _plain_step}


def recurrent(attrs, x, *states, **params):
    """x[time, batch, c]; a state is [layer and direction, batch, hidden]."""
    finals = [[] for _ in states]
    number = 0
    for layer in range(attrs["layers"]):
        sides = []
        for suffix in [f"l{layer}", f"l{layer}_reverse"][: 1 + attrs["bidirectional"]]:
            # Small numbers, or every tanh would answer 1.
            weights = [0.2 * params.get(f"{kind}_{suffix}", np.zeros(1)) for kind in _KINDS]
            backward = suffix.endswith("reverse")
            state, seen = tuple(one[number] for one in states), []
            for step in x[::-1] if backward else x:
                state = _STEPS[attrs["gates"]](step, state, *weights)
                seen.append(state[0])
            sides.append(np.stack(seen[::-1] if backward else seen))
            for final, one in zip(finals, state, strict=True):
                final.append(one)
            number += 1
        x = np.concatenate(sides, -1)
    return (x, *map(np.stack, finals))


_KINDS = ("w_ih", "w_hh", "b_ih", "b_hh")

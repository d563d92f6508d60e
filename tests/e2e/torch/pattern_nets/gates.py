"""Channel gates, spatial gates and gates from elsewhere."""

from __future__ import annotations

from functools import partial

import torch
from torch import nn
from torch.nn import functional as F

from .base import conv, image, linear, numbers, pattern


def pooled(x: torch.Tensor) -> torch.Tensor:
    return F.adaptive_avg_pool2d(x, 1)


@pattern(image, cut="a.weight down.weight up.weight", a=conv(3, 8), down=conv(8, 4), up=conv(4, 8),
         b=conv(8, 5))  # fmt: skip
def squeeze_excite(m, x):
    y = m.a(x)
    return m.b(y * m.up(m.down(pooled(y)).relu()).sigmoid())


@pattern(
    image,
    cut="a.weight down.weight",
    a=conv(3, 8),
    down=linear(8, 4),
    up=linear(4, 8),
    b=conv(8, 5),
)
def squeeze_excite_with_views(m, x):
    y = m.a(x)
    n, c, _, _ = y.shape
    gate = pooled(y).view(n, c)
    return m.b(y * m.up(m.down(gate).relu()).sigmoid().view(n, c, 1, 1).expand_as(y))


@pattern(image, cut="a.weight down.weight", how="traced", a=conv(3, 8), down=linear(8, 4),
         up=linear(4, 8), b=conv(8, 5))  # fmt: skip
def squeeze_excite_with_numbers_in_code(m, x):
    y = m.a(x)
    gate = m.up(m.down(pooled(y).view(-1, 8)).relu()).sigmoid()
    return m.b(y * gate.view(-1, 8, 1, 1))


@pattern(image, cut="a.weight down.weight", width=8, a=conv(3, 8), down=linear(8, 4), up=linear(4, 8),
         b=conv(8, 5))  # fmt: skip
def squeeze_excite_with_width_on_module(m, x):
    y = m.a(x)
    gate = m.up(m.down(y.mean((2, 3)).reshape(-1, m.width)).relu())
    return m.b(y * gate.reshape(-1, m.width, 1, 1).sigmoid())


@pattern(image, frozen="a.weight", because="along it", a=conv(3, 8), k=partial(nn.Conv1d, 1, 1, 3, padding=1),
         b=conv(8, 5))  # fmt: skip
def efficient_channel_attention(m, x):
    y = m.a(x)
    gate = m.k(pooled(y).squeeze(-1).transpose(1, 2)).transpose(1, 2).unsqueeze(-1)
    return m.b(y * gate.sigmoid())


@pattern(image, cut="a.weight down.weight", mixes="mean", over="a.weight", a=conv(3, 8), down=conv(8, 4),
         up=conv(4, 8), k=conv(2, 1, 3, padding=1), b=conv(8, 5))  # fmt: skip
def block_attention(m, x):
    y = m.a(x)
    gate = m.up(m.down(pooled(y)).relu()) + m.up(m.down(F.adaptive_max_pool2d(y, 1)).relu())
    y = y * gate.sigmoid()
    seen = y if m.only is None else y[:, m.only]
    both = torch.cat([seen.mean(1, keepdim=True), seen.max(1, keepdim=True)[0]], 1)
    return m.b(y * m.k(both).sigmoid())


@pattern(image, cut="a.weight", mixes="mean", over="a.weight", a=conv(3, 8), k=conv(2, 1, 3, padding=1),
         b=conv(8, 5))  # fmt: skip
def spatial_attention(m, x):
    y = m.a(x)
    seen = y if m.only is None else y[:, m.only]
    both = torch.stack([seen.mean(1), seen.amax(1)], 1)
    return m.b(y * m.k(both).sigmoid())


@pattern(
    image,
    cut="a.weight down.weight",
    a=conv(3, 8),
    down=linear(8, 4),
    up=linear(4, 8),
    b=conv(8, 5),
)
def gate_from_a_detached_branch(m, x):
    y = m.a(x)
    gate = m.up(m.down(y.detach().mean((2, 3))).relu()).sigmoid()
    return m.b(y * gate[:, :, None, None])


@pattern(image, cut="a.weight g.weight", a=conv(3, 8), g=conv(3, 8), b=conv(8, 5))
def gate_without_gradient(m, x):
    with torch.no_grad():
        gate = F.hardsigmoid(m.g(x))
    return m.b(m.a(x) * gate)


@pattern(image, cut="a.weight", frozen="g.weight", because="stretches", a=conv(3, 8), g=conv(3, 1),
         b=conv(8, 5))  # fmt: skip
def one_channel_gates_all(m, x):
    return m.b(m.a(x) * m.g(x).sigmoid())


@pattern(image, cut="a.weight down.weight", a=conv(3, 8), key=conv(8, 1), down=conv(8, 4), up=conv(4, 8),
         b=conv(8, 5))  # fmt: skip
def global_context(m, x):
    y = m.a(x)
    weight = m.key(y).flatten(2).softmax(-1)
    context = torch.einsum("ncp,nkp->nck", y.flatten(2), weight).unsqueeze(-1)
    return m.b(y + m.up(m.down(context).relu()))


@pattern(image, cut="a.weight c.weight down.weight", a=conv(3, 8), c=conv(3, 8, 3, padding=1),
         down=linear(8, 4), first=linear(4, 8), second=linear(4, 8), b=conv(8, 5))  # fmt: skip
def selective_kernel(m, x):
    branches = torch.stack([m.a(x), m.c(x)], 1)
    squeezed = m.down(branches.sum(1).mean((2, 3))).relu()
    gate = torch.stack([m.first(squeezed), m.second(squeezed)], 1).softmax(1)
    return m.b((branches * gate[..., None, None]).sum(1))


@pattern(
    image, cut="a.weight down.weight", a=conv(3, 16), down=conv(8, 4), up=conv(4, 16), b=conv(8, 5)
)
def split_attention(m, x):
    y = m.a(x)
    n, c, h, w = y.shape
    parts = y.reshape(n, 2, c // 2, h, w)
    gate = m.up(m.down(pooled(parts.sum(1))).relu()).view(n, 2, c // 2).softmax(1)
    return m.b((parts * gate[..., None, None]).sum(1))


@pattern(image, cut="a.weight scale.weight shift.weight", a=conv(3, 8), scale=linear(3, 8),
         shift=linear(3, 8), b=conv(8, 5))  # fmt: skip
def feature_modulation(m, x):
    condition = x.mean((2, 3))
    scale, shift = m.scale(condition), m.shift(condition)
    return m.b(m.a(x) * (1 + scale[..., None, None]) + shift[..., None, None])


@pattern(image, cut="a.weight c.weight", a=conv(3, 8), c=linear(3, 16), b=conv(8, 5))
def modulation_from_one_layer(m, x):
    scale, shift = m.c(x.mean((2, 3))).unsqueeze(-1).unsqueeze(-1).chunk(2, 1)
    return m.b(m.a(x) * scale + shift)


@pattern(image, cut="a.weight t.weight", a=conv(3, 8), t=conv(8, 8), b=conv(8, 5))
def highway(m, x):
    y = m.a(x)
    gate = m.t(y).sigmoid()
    return m.b(gate * y.tanh() + (1 - gate) * y)


@pattern(image, cut="a.weight down.weight", a=conv(3, 8), down=conv(8, 6), rows=conv(6, 8),
         columns=conv(6, 8), b=conv(8, 5))  # fmt: skip
def coordinate_attention(m, x):
    y = m.a(x)
    h, w = y.shape[2:]
    both = torch.cat([y.mean(3, keepdim=True), y.mean(2, keepdim=True).transpose(2, 3)], 2)
    rows, columns = torch.split(m.down(both).relu(), [h, w], 2)
    return m.b(y * m.rows(rows).sigmoid() * m.columns(columns.transpose(2, 3)).sigmoid())


@pattern(image, cut="a.weight q.weight v.weight", mixes="bmm", a=conv(3, 8), q=conv(8, 4), k=conv(8, 4), v=conv(8, 6),
         o=conv(6, 8), b=conv(8, 5))  # fmt: skip
def non_local(m, x):
    y = m.a(x)
    n, _, h, w = y.shape
    q, k, v = (layer(y).flatten(2) for layer in (m.q, m.k, m.v))
    near = torch.bmm(q.transpose(1, 2), k).softmax(-1)
    return m.b(y + m.o(torch.bmm(v, near.transpose(1, 2)).view(n, -1, h, w)))


@pattern(image, cut="a.weight q.weight v.weight", how="traced", mixes="matmul", a=conv(3, 8), q=conv(8, 4), k=conv(8, 4),
         v=conv(8, 6), o=conv(6, 8), b=conv(8, 5))  # fmt: skip
def non_local_with_numbers_in_code(m, x):
    y = m.a(x)
    q = m.q(y).view(-1, 4, 16).permute(0, 2, 1)
    near = torch.matmul(q, m.k(y).view(-1, 4, 16)) / 16
    v = torch.matmul(near, m.v(y).view(-1, 6, 16).permute(0, 2, 1))
    return m.b(y + m.o(v.permute(0, 2, 1).contiguous().view(-1, 6, 4, 4)))


@pattern(image, cut="a.weight", mixes="softmax", over="a.weight", a=conv(3, 8), b=conv(8, 5))
def softmax_over_channels(m, x):
    y = m.a(x)
    if m.only is None:
        return m.b(y.softmax(1))
    return m.b(torch.zeros_like(y).index_copy(1, m.only, y[:, m.only].softmax(1)))


@pattern(image, cut="a.weight", mixes="norm", a=conv(3, 8), b=conv(8, 5))
def unit_length(m, x):
    return m.b(F.normalize(m.a(x), dim=1))


@pattern(image, frozen="a.weight", because="number", a=conv(3, 8), b=conv(1, 5))
def largest_channel_by_number(m, x):
    return m.b(m.a(x).argmax(1, keepdim=True).to(x.dtype))


@pattern(image, cut="a.weight", mixes="sum", a=conv(3, 8), b=conv(8, 5))
def response_normalisation_over_pictures_and_channels(m, x):
    y = m.a(x)
    energy = y.norm(2, (2, 3), keepdim=True)
    return m.b(y * energy / (energy.sum(1, keepdim=True) + 1))


@pattern(image, cut="a.weight", gamma=numbers(1, 8, 1, 1), beta=numbers(1, 8, 1, 1), over="a.weight",
         mixes="mean", a=conv(3, 8), b=conv(8, 5))  # fmt: skip
def global_response_norm(m, x):
    y = m.a(x)
    energy = y.norm(2, (2, 3), keepdim=True)
    seen = energy if m.only is None else energy[:, m.only]
    return m.b(m.gamma * (y * energy / (seen.mean(1, keepdim=True) + 1e-6)) + m.beta + y)


@pattern(image, cut="a.weight b.weight", mixes="cosine_similarity", a=conv(3, 8), b=conv(3, 8))
def likeness_of_two_branches(m, x):
    return F.cosine_similarity(m.a(x).tanh(), m.b(x), dim=1)


@pattern(image, cut="a.weight", mixes="softmax", over="a.weight", a=conv(3, 8), b=conv(8, 5))
def noisy_choice_of_channels(m, x):
    y = m.a(x)
    noise = torch.empty_like(y).exponential_()
    scores = y + 0 * noise  # the judge draws other numbers
    if m.only is None:
        return m.b(scores.softmax(1))
    return m.b(torch.zeros_like(y).index_copy(1, m.only, scores[:, m.only].softmax(1)))


@pattern(image, cut="a.weight b.weight:1", a=conv(3, 8), b=conv(8, 5))
def triangles_of_pictures(m, x):
    y = m.a(x)
    return m.b(y.tril() + y.triu(1) * 2)

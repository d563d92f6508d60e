"""A judge of cuts that shares no code with prunus.

The original runs in double precision on random weights of which none is zero, with
every slice that `pruned.cut` names set to zero, in makers and in users alike. The
cut model, made from the same weights, must compute the same.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils._pytree import tree_leaves, tree_map

__all__ = ["blinded", "differ", "look_only_at_what_stays", "ready", "run", "sliced", "wide"]

Cut = Mapping[str, Mapping[int, tuple[int, ...]]]


def wide(example: Any) -> Any:
    """Return an example in double precision."""
    return tree_map(_wide, example)


def _wide(value: Any) -> Any:
    if isinstance(value, torch.Tensor) and value.is_floating_point():
        return value.double()
    return value


def ready(model: nn.Module, seed: int = 0) -> nn.Module:
    """Return `model` in evaluation mode and double precision, on random weights."""
    model = model.double().eval()
    generator = torch.Generator().manual_seed(seed)

    def noise(like: torch.Tensor) -> torch.Tensor:
        return torch.rand(like.shape, generator=generator, dtype=like.dtype)

    with torch.no_grad():
        for value in model.parameters():
            sign = torch.where(noise(value) < 0.5, -1.0, 1.0)
            value.copy_((noise(value) * 0.6 + 0.2) * sign)
        for value in model.buffers():
            if value.is_floating_point():
                value.add_(noise(value) * 0.5)  # a variance stays positive
    return model


def run(model: nn.Module, example: Any) -> list[torch.Tensor]:
    """Call `model`, and return the tensors among what it answers."""
    if isinstance(example, dict):
        answer = model(**example)
    else:
        answer = model(*example) if isinstance(example, tuple) else model(example)
    return [leaf for leaf in tree_leaves(answer) if isinstance(leaf, torch.Tensor)]


def _tensors(model: nn.Module) -> dict[str, torch.Tensor]:
    return {
        **dict(model.named_parameters(remove_duplicate=False)),
        **dict(model.named_buffers(remove_duplicate=False)),
    }


def blinded(model: nn.Module, cut: Cut, divided: tuple[str, ...] = ()) -> nn.Module:
    """Return a copy with zeros for every slice in `cut`.

    A weight in `divided` is divided by the length of its filters, and zeros there would
    be 0 / 0: of such a weight the filters stay, and its other axes are set to zero.
    """
    computed = [
        value
        for module in model.modules()
        for value in vars(module).values()
        if isinstance(value, torch.Tensor) and not value.is_leaf
    ]
    # What an old hook computed before the last call cannot be copied, and need not be.
    model = copy.deepcopy(model, {id(value): value.detach() for value in computed})
    tensors = _tensors(model)
    with torch.no_grad():
        for name, axes in cut.items():
            for axis, lost in axes.items():
                if tensors[name].is_floating_point() and not (name in divided and axis == 0):
                    tensors[name].index_fill_(axis, torch.tensor(lost), 0)
    return model


def sliced(tensor: torch.Tensor, axes: Mapping[int, tuple[int, ...]]) -> torch.Tensor:
    """Return `tensor` without the indices that are lost on each axis."""
    for axis, lost in axes.items():
        kept = [k for k in range(tensor.shape[axis]) if k not in lost]
        tensor = tensor.index_select(axis, torch.tensor(kept))
    return tensor


def differ(left: list[torch.Tensor], right: list[torch.Tensor]) -> float:
    """Return the largest difference, relative to the largest value; infinite for other shapes."""
    if [one.shape for one in left] != [one.shape for one in right]:
        return float("inf")
    worst = 0.0
    for a, b in zip(left, right, strict=True):
        if not (torch.isfinite(a).all() and torch.isfinite(b).all()):
            return float("inf")
        if a.numel():
            worst = max(worst, float((a - b).abs().max()) / max(1e-30, float(a.abs().max())))
    return worst


class _Only(nn.Module):
    """A norm that looks at the kept channels alone, and leaves zeros for the others."""

    def __init__(self, norm: nn.Module, kept: torch.Tensor, axis: int) -> None:
        super().__init__()
        self.norm, self.axis = norm, axis
        self.register_buffer("kept", kept)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        axis = self.axis % x.ndim
        seen = x.index_select(axis, self.kept)
        return torch.zeros_like(x).index_copy(axis, self.kept, self.small(seen))

    def small(self, seen: torch.Tensor) -> torch.Tensor:
        norm = self.norm
        if isinstance(norm, nn.GroupNorm):
            weight, bias = norm.weight[self.kept], norm.bias[self.kept]
            return F.group_norm(seen, norm.num_groups, weight, bias, norm.eps)
        weight = norm.weight[self.kept]
        if isinstance(norm, nn.RMSNorm):
            return F.rms_norm(seen, weight.shape, weight, norm.eps)
        return F.layer_norm(seen, weight.shape, weight, norm.bias[self.kept], norm.eps)


def look_only_at_what_stays(model: nn.Module, cut: Cut) -> nn.Module:
    """Replace the norms that mix channels by norms over those that stay."""
    for name, layer in list(model.named_modules()):
        axes = cut.get(f"{name}.weight", {})
        mixing = isinstance(layer, nn.LayerNorm | nn.RMSNorm | nn.GroupNorm)
        if not mixing or 0 not in axes:
            continue
        if isinstance(layer, nn.GroupNorm) and layer.num_groups == layer.num_channels:
            continue
        kept = [k for k in range(layer.weight.shape[0]) if k not in axes[0]]
        axis = 1 if isinstance(layer, nn.GroupNorm) else -layer.weight.ndim
        parent = model.get_submodule(name.rpartition(".")[0])
        setattr(parent, name.rpartition(".")[2], _Only(layer, torch.tensor(kept), axis))
    return model

"""An independent judge of a cut: shares no code with `prunus.backends.torch.verify`.

The original is run with every slice that `pruned.cut` names set to zero, as the eager
module that it is. Normalisations, which would count those zeros, are intercepted
where PyTorch's functional interface is called, and look only at channels that are not
zero everywhere. A model with a mixing operator outside of that interface is not judged.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map

F = torch.nn.functional


def randomise(model: torch.nn.Module, seed: int = 0) -> None:
    """Give what is zero, and vectors that are constant, values away from 0 and 1, as training does.

    A residual branch whose last scale is zero at the start would hide any error in it.
    """
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, value in (*model.named_parameters(), *model.named_buffers()):
            if not value.is_floating_point():
                continue
            noise = torch.rand(value.shape, generator=generator)
            if value.numel() != max(value.shape, default=0):
                if not value.any():
                    value.copy_(0.1 * noise - 0.05)
            elif "running_mean" in name or not value.any():
                value.copy_(0.2 * noise - 0.1)
            elif value.numel() > 1 and (value == value.flatten()[0]).all():
                value.copy_(0.5 + noise)


class _OnlyLiving(TorchFunctionMode):
    """Normalisations over channels skip those that are zero everywhere."""

    def __init__(self) -> None:
        super().__init__()
        self.handled = 0

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        # Code that insists on single precision gets double, like everything else here.
        args, kwargs = tree_map(_wide, (args, kwargs or {}))
        if function is torch.Tensor.float:
            return args[0].double()
        if function is F.layer_norm:
            return self._layer_norm(*args, **kwargs)
        if function is F.rms_norm:
            return self._rms_norm(*args, **kwargs)
        if function is F.group_norm:
            return self._group_norm(*args, **kwargs)
        if function is F.batch_norm and (len(args) < 3 or args[1] is None):
            return self._standardise(function, args, kwargs)
        return function(*args, **kwargs)

    def _layer_norm(
        self, x: Any, shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5
    ) -> Any:
        if len(shape) != 1:
            return F.layer_norm(x, shape, weight, bias, eps)
        alive = x.abs().flatten(0, -2).amax(0) > 0
        self.handled += int(not alive.all())
        part = F.layer_norm(x[..., alive], [int(alive.sum())], None, None, eps)
        return _laid_back(part, alive, weight, bias)

    def _rms_norm(self, x: Any, shape: Any, weight: Any = None, eps: Any = None) -> Any:
        alive = x.abs().flatten(0, -2).amax(0) > 0
        self.handled += int(not alive.all())
        part = F.rms_norm(x[..., alive], [int(alive.sum())], None, eps)
        return _laid_back(part, alive, weight, None)

    def _group_norm(
        self, x: Any, groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5
    ) -> Any:
        alive = x.abs().transpose(0, 1).flatten(1).amax(1) > 0
        self.handled += int(not alive.all())
        part = F.group_norm(x[:, alive], groups, None, None, eps).movedim(1, -1)
        return _laid_back(part, alive, weight, bias).movedim(-1, 1)

    def _standardise(self, function: Any, args: Any, kwargs: Any) -> Any:
        """Weight standardisation: a batch norm over a weight laid out as (1, filters, rest)."""
        x = args[0]
        alive = x.abs().flatten(0, 1).amax(0) > 0
        self.handled += int(not alive.all())
        part = function(x[..., alive], *args[1:], **kwargs)
        done = x.new_zeros(x.shape)
        done[..., alive] = part
        return done


def _wide(value: Any) -> Any:
    if isinstance(value, torch.Tensor) and value.dtype is torch.float32:
        return value.double()  # a tensor that the model holds without saying so
    return torch.float64 if value is torch.float32 else value


def _laid_back(part: Any, alive: Any, weight: Any, bias: Any) -> Any:
    whole = part.new_zeros((*part.shape[:-1], len(alive)))
    whole[..., alive] = part
    whole = whole if weight is None else whole * weight
    return whole if bias is None else whole + bias * alive


def judge(
    original: torch.nn.Module, pruned: Any, example: tuple[Any, ...]
) -> tuple[float, float, bool]:
    """Return the error of the cut model, how much the cut changed, and whether norms took part."""
    blind = copy.deepcopy(original).double().eval()
    stored = dict(
        [
            *blind.named_parameters(remove_duplicate=False),
            *blind.named_buffers(remove_duplicate=False),
        ]
    )
    fresh = tree_map(_fresh, example)
    small = copy.deepcopy(pruned.model).double().eval()
    with torch.no_grad():
        with _OnlyLiving():
            whole = blind(*fresh)
        for name, axes in pruned.cut.items():
            for axis, lost in axes.items():
                if stored[name].is_floating_point():
                    stored[name].index_fill_(axis, torch.tensor(lost), 0)
        with _OnlyLiving() as mode:
            expected = blind(*fresh)
        with _OnlyLiving():
            actual = small(*fresh)
    return _apart(expected, actual), _apart(whole, expected), mode.handled > 0


def _fresh(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    shape = (2, *value.shape[1:])
    return torch.randn(shape, generator=torch.Generator().manual_seed(7), dtype=torch.float64)


def _apart(expected: Any, actual: Any) -> float:
    worst = 0.0
    for a, b in zip(tree_leaves(expected), tree_leaves(actual), strict=True):
        if isinstance(a, torch.Tensor):
            if a.shape != b.shape:
                return float("inf")
            if not (a.isfinite().all() and b.isfinite().all()):
                return float("inf")
            worst = max(worst, float((a - b).abs().max()) / (float(a.abs().max()) or 1.0))
    return worst

"""Take channels out of an eager module: a copy of the user's own, with smaller tensors."""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.conv import _ConvNd, _ConvTransposeNd
from torch.utils._pytree import tree_leaves

from prunus.backends.torch.trace import TorchTrace
from prunus.core.cut.cut import Cut, Resize
from prunus.core.errors import PrunusError

__all__ = [
    "Kept",
    "check_optimizer",
    "copied",
    "cut_in_place",
    "cut_module",
    "cut_optimizer",
    "describe",
    "held_by_code",
    "kept_indices",
    "repair",
    "smaller",
    "take",
]

Kept = Mapping[str, Mapping[int, torch.Tensor]]
"""For every tensor that shrinks, for every axis that does: the indices that stay."""


def kept_indices(cut: Cut) -> Kept:
    """Return what stays, by tensor and axis."""
    kept: dict[str, dict[int, torch.Tensor]] = defaultdict(dict)
    for dim, lost in cut.removed.items():
        stay = torch.ones(cut.channels.graph.size(dim), dtype=torch.bool)
        stay[torch.from_numpy(lost)] = False
        kept[dim.tensor][dim.axis] = stay.nonzero().squeeze(1)
    return dict(kept)


def take(tensor: torch.Tensor, kept: Mapping[int, torch.Tensor]) -> torch.Tensor:
    """Return `tensor` without what goes, along every axis that shrinks."""
    part = tensor
    for axis, index in kept.items():
        part = part.index_select(axis, index.to(tensor.device))
    for order in (torch.channels_last, torch.channels_last_3d):
        if _ordered(tensor, order) and not tensor.is_contiguous():
            return part.contiguous(memory_format=order)
    return part


def _ordered(tensor: torch.Tensor, order: torch.memory_format) -> bool:
    rank = 4 if order is torch.channels_last else 5
    return tensor.ndim == rank and tensor.is_contiguous(memory_format=order)


def cut_module(
    model: nn.Module, cut: Cut, kept: Kept, traced: TorchTrace
) -> tuple[nn.Module, dict[int, Any]]:
    """Return a cut copy, and the memo of the copy (old tensor's id to new tensor)."""
    memo: dict[int, Any] = {
        id(traced.stored[name]): smaller(traced.stored[name], axes) for name, axes in kept.items()
    }
    done = copied(model, memo)
    _correct_attributes(done, _own_names(kept, traced), cut.resizes)
    return done, memo


def copied(model: nn.Module, memo: dict[int, Any]) -> nn.Module:
    """Return a deep copy of `model`, with what `memo` holds in the place of the originals.

    The old hooks (weight norm, magnitude masks) leave the weight that they compute
    beside the parameters. It is no leaf, so it cannot be copied as it is, and need
    not be: the next call computes it again. So it is with what `forward` remembers.
    A plain copy would also lose the gradients and the users' marks on parameters.
    """
    for value in tree_leaves([list(vars(module).values()) for module in model.modules()]):
        if isinstance(value, torch.Tensor) and not value.is_leaf:
            memo.setdefault(id(value), value.detach().clone())
    for value in model.parameters():
        if id(value) not in memo:
            memo[id(value)] = smaller(value, {})
    try:
        return copy.deepcopy(model, memo)
    except Exception as error:  # the user's own attributes may refuse in any way
        raise PrunusError(
            f"the model cannot be copied: {type(error).__name__}: {error}",
            fix="see that copy.deepcopy(model) works: delete the attribute that cannot be copied "
            "before the cut, and set it again on the result",
        ) from error


def _compute_hooked(module: nn.Module) -> None:
    """Compute what the old hooks compute before each call, for weights that are cut."""
    hooks = [
        hook
        for hook in module._forward_pre_hooks.values()
        if type(hook).__module__.startswith("torch.nn.utils.")
    ]
    for hook in hooks:
        hook(module, ())


def cut_in_place(model: nn.Module, cut: Cut, kept: Kept, traced: TorchTrace) -> None:
    """Cut `model` itself."""
    for name, axes in kept.items():
        old = traced.stored[name]
        new = smaller(old, axes)
        # `.data` keeps the tensor's identity, which optimisers and ties rely on.
        old.grad = None
        old.data = new.data
        old.grad = new.grad
    _correct_attributes(model, _own_names(kept, traced), cut.resizes)


def _own_names(kept: Kept, traced: TorchTrace) -> set[str]:
    return {name.removeprefix(traced.prefix) for name in kept}


def smaller(old: torch.Tensor, kept: Mapping[int, torch.Tensor]) -> torch.Tensor:
    """Return a copy of a parameter or buffer without what goes, its gradient and marks too."""
    with torch.no_grad():
        data = take(old.detach(), kept) if kept else old.detach().clone()
        if not isinstance(old, nn.Parameter):
            return data
        new = nn.Parameter(data, old.requires_grad) if kept else copy.deepcopy(old)
        if old.grad is not None:
            new.grad = take(old.grad, kept) if kept else old.grad.clone()
    for key, value in vars(old).items():  # marks that users put on parameters
        setattr(new, key, value)
    return new


def _correct_attributes(model: nn.Module, small: Iterable[str], resizes: Iterable[Resize]) -> None:
    """Bring the numbers that modules hold in line with their tensors."""
    owners = {name.rpartition(".")[0].split(".parametrizations.")[0] for name in small}
    modules = dict(model.named_modules(remove_duplicate=False))
    for resize in resizes:
        module = modules.get(resize.node.where)
        name = _OWN_NAMES.get((resize.node.op, resize.attr))
        if module is not None and name is not None and hasattr(module, name):
            _set_number(module, name, resize.position, resize.new)
    for path, module in modules.items():
        if path in owners or any(owner.startswith(f"{path}.") for owner in owners if path):
            describe(module)


_OWN_NAMES = {
    ("conv", "groups"): "groups",
    ("conv_transpose", "groups"): "groups",
    ("group_norm", "groups"): "num_groups",
    ("batch_norm", "channels"): "num_features",
    ("instance_norm", "channels"): "num_features",
    ("layer_norm", "normalized_shape"): "normalized_shape",
}


def held_by_code(resizes: Iterable[Resize]) -> bool:
    """Tell whether a number that changes may stand in the user's code, not in a layer of theirs."""
    return any((one.node.op, one.attr) not in _OWN_NAMES for one in resizes)


def _set_number(module: nn.Module, name: str, position: int | None, value: int) -> None:
    old = getattr(module, name)
    if isinstance(old, tuple | list | torch.Size) and position is not None:
        changed = list(old)
        changed[position] = value
        setattr(module, name, type(old)(changed) if not isinstance(old, torch.Size) else changed)
    elif isinstance(old, int):
        setattr(module, name, value)


def describe(module: nn.Module) -> None:
    """Set the sizes that a layer of `torch.nn` shows, and partly runs by, from its tensors."""
    # To read a weight that is computed is to compute it, which in training moves its estimates.
    modes = [(part, part.training) for part in module.modules()]
    for part, _ in modes:
        part.training = False
    with torch.no_grad():
        _compute_hooked(module)
        _describe(module)
    for part, training in modes:
        part.training = training


def _describe(module: nn.Module) -> None:
    if isinstance(module, _ConvNd):
        first, second = module.weight.shape[:2]
        turned = isinstance(module, _ConvTransposeNd)
        module.out_channels = second * module.groups if turned else first
        module.in_channels = first if turned else second * module.groups
    elif isinstance(module, nn.Linear):
        module.out_features, module.in_features = module.weight.shape
    elif isinstance(module, _NormBase):
        known = module.weight if module.weight is not None else module.running_mean
        if known is not None:
            module.num_features = len(known)
    elif isinstance(module, nn.LayerNorm) and module.weight is not None:
        module.normalized_shape = tuple(module.weight.shape)
    elif isinstance(module, nn.GroupNorm) and module.weight is not None:
        module.num_channels = len(module.weight)
    elif isinstance(module, nn.Bilinear):
        module.out_features, module.in1_features, module.in2_features = module.weight.shape
    elif isinstance(module, nn.Embedding):
        module.embedding_dim = module.weight.shape[1]
    elif isinstance(module, nn.PReLU):
        module.num_parameters = module.weight.numel()
    elif isinstance(module, nn.RNNCellBase):
        module.hidden_size = module.weight_hh.shape[1]
        module.input_size = module.weight_ih.shape[1]
    elif isinstance(module, nn.RNNBase):
        module.hidden_size = module.weight_hh_l0.shape[1]  # type: ignore[index,assignment]
        module.input_size = module.weight_ih_l0.shape[1]  # type: ignore[index,assignment]
        # The flat list holds the tensors themselves; a plain copy would keep the old ones.
        module._flat_weights = [getattr(module, name) for name in module._flat_weights_names]
        module.flatten_parameters()


def repair(model: nn.Module, resizes: Iterable[Resize]) -> list[str]:
    """Change the numbers in the user's own modules that the cut made wrong.

    A module whose `forward` reshapes to `self.width`, and ran an operator with that
    number, gets the new one. This is a guess by value, so the caller verifies it;
    what was changed comes back as text.
    """
    modules = dict(model.named_modules(remove_duplicate=False))
    wanted: dict[tuple[str, str], set[tuple[int, int]]] = defaultdict(set)
    for resize in resizes:
        module = modules.get(resize.node.where)
        if module is None or type(module).__module__.startswith("torch.nn."):
            continue
        for name, value in vars(module).items():
            if _holds(value, resize.old) and name != "training":
                wanted[resize.node.where, name].add((resize.old, resize.new))
    changed = []
    for (where, name), pairs in wanted.items():
        module, table = modules[where], dict(pairs)
        if len(table) < len(pairs):
            continue  # one number would have to become two
        old = getattr(module, name)
        new = _replaced(old, table)
        setattr(module, name, new)
        changed.append(f"{where}.{name}: {old} -> {new}" if where else f"{name}: {old} -> {new}")
    return changed


def _holds(value: object, number: int) -> bool:
    if isinstance(value, tuple | list):
        return any(_holds(one, number) for one in value)
    return type(value) is int and value == number and number > 1


def _replaced(value: Any, table: Mapping[int, int]) -> Any:
    if isinstance(value, tuple | list):
        return type(value)(_replaced(one, table) for one in value)
    return table.get(value, value) if type(value) is int else value


def cut_optimizer(
    optimizer: torch.optim.Optimizer,
    memo: dict[int, Any],
    kept: Kept,
    stored: Mapping[str, torch.Tensor],
    shapes: Mapping[str, tuple[int, ...]],
    *,
    inplace: bool,
) -> torch.optim.Optimizer:
    """Return an optimiser of the cut model, its state (moments, averages) cut along.

    `shapes` are those before the cut. What the optimiser holds of other modules (a loss
    with weights of its own) it goes on holding.
    """
    if not inplace:
        for group in optimizer.param_groups:
            for weight in group["params"]:
                memo.setdefault(id(weight), weight)
    done = optimizer if inplace else copy.deepcopy(optimizer, memo)
    for name, axes in kept.items():
        new = stored[name] if inplace else memo.get(id(stored[name]))
        state = done.state.get(new, {}) if new is not None else {}
        for key, value in state.items():
            if isinstance(value, torch.Tensor):
                state[key] = take(value, _shared_axes(value, shapes[name], axes))
    return done


def check_optimizer(
    optimizer: object, model: nn.Module, kept: Kept, stored: Mapping[str, torch.Tensor]
) -> None:
    """Refuse an optimiser that cannot be cut along, before anything is changed."""
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise PrunusError(
            f"optimizer= is a {type(optimizer).__name__}, and must be a torch.optim.Optimizer",
            fix="pass the optimiser that trains this model, or leave optimizer= out",
        )
    held = {id(weight) for group in optimizer.param_groups for weight in group["params"]}
    if held.isdisjoint(map(id, model.parameters())):
        raise PrunusError(
            f"the {type(optimizer).__name__} in optimizer= holds no parameter of this model",
            fix="pass the optimiser that was built on the parameters of this very model",
        )
    for name in kept:
        for key, value in optimizer.state.get(stored[name], {}).items():
            parts = [one for one in tree_leaves(value) if isinstance(one, torch.Tensor)]
            fits = isinstance(value, torch.Tensor) and _fits(value, stored[name].shape)
            if parts and not fits and any(one.numel() > 1 for one in parts):
                raise PrunusError(
                    f"{key!r}, which {type(optimizer).__name__} keeps for {name!r}, is not of the "
                    f"shape {tuple(stored[name].shape)} of that weight, so it cannot be cut along",
                    fix="cut without optimizer=, and build a new one on pruned.model.parameters()",
                )


def _fits(state: torch.Tensor, shape: Sequence[int]) -> bool:
    """Tell whether a state lies along a weight: an axis that was averaged away has length 1."""
    return state.ndim == len(shape) and all(
        own in (1, length) for own, length in zip(state.shape, shape, strict=True)
    )


def _shared_axes(
    state: torch.Tensor, shape: Sequence[int], axes: Mapping[int, torch.Tensor]
) -> dict[int, torch.Tensor]:
    if not _fits(state, shape):
        return {}  # a step count
    return {axis: index for axis, index in axes.items() if state.shape[axis] == shape[axis]}

"""Cut models on disk: one safetensors file that a freshly built model loads from.

The header tells all that is needed: the shapes of the original (so that another
architecture is refused), the numbers in modules that the cut changed, and, for a
traced module, the example and the removed indices, from which it is traced and cut
again. Nothing in it is executed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.torch
import torch
from torch import nn
from torch.utils._pytree import tree_map

from prunus.backends.torch.edit import describe, kept_indices
from prunus.backends.torch.prune import Fitted
from prunus.backends.torch.trace import Example, TracedModel, stored_tensors, trace
from prunus.backends.torch.traced import traced_module
from prunus.backends.torch.within import submodule
from prunus.core.cut.cut import Cut, cut_of
from prunus.core.errors import LoadError, UnknownNameError
from prunus.core.graph.channels import close
from prunus.core.graph.ir import Dim

__all__ = ["load", "recipe_of", "save"]

FORMAT = "1"
_DTYPES = {str(dtype): dtype for dtype in vars(torch).values() if isinstance(dtype, torch.dtype)}


def recipe_of(traced: TracedModel, fitted: Fitted, cut: Cut) -> dict[str, str]:
    """Return the header: how to make the cut model out of a freshly built original."""
    stored, _ = stored_tensors(traced.whole)
    prefix = traced.inner.prefix
    numbers: dict[str, dict[str, Any]] = {}
    if fitted.how == "module":
        for path, changed in _changed_numbers(traced.part, fitted.model).items():
            numbers[(prefix + path).rstrip(".")] = changed
    return {
        "prunus": FORMAT,
        "how": fitted.how,
        "within": prefix.removesuffix("."),
        "original": json.dumps({name: list(value.shape) for name, value in stored.items()}),
        "attributes": json.dumps(numbers),
        "removed": json.dumps(cut.by_name()),
        "example": json.dumps(_described(traced.example)) if fitted.how == "traced" else "",
    }


def _changed_numbers(original: nn.Module, result: nn.Module) -> dict[str, dict[str, Any]]:
    """Return the whole numbers, and lists of them, that differ between two equal module trees."""
    before = dict(original.named_modules(remove_duplicate=False))
    found: dict[str, dict[str, Any]] = {}
    for path, module in result.named_modules(remove_duplicate=False):
        old = vars(before[path]) if path in before else {}
        for name, value in vars(module).items():
            if _is_number(value) and name in old and old[name] != value:
                found.setdefault(path, {})[name] = value
    return found


def _is_number(value: object) -> bool:
    if isinstance(value, tuple | list):
        return bool(value) and all(type(one) is int for one in value)
    return type(value) is int


def _described(example: Example) -> list[Any]:
    def one(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return {"tensor": list(value.shape), "dtype": str(value.dtype)}
        return value

    return [tree_map(one, list(example.args)), tree_map(one, example.kwargs)]


def _rebuilt(described: Any, device: torch.device) -> Any:
    if isinstance(described, dict) and set(described) == {"tensor", "dtype"}:
        dtype = _DTYPES[described["dtype"]]
        return torch.ones(described["tensor"], dtype=dtype, device=device)
    if isinstance(described, dict):
        return {key: _rebuilt(value, device) for key, value in described.items()}
    if isinstance(described, list):
        return [_rebuilt(value, device) for value in described]
    return described


def save(model: nn.Module, path: Path, recipe: Mapping[str, str]) -> None:
    """Write the model's tensors; a file of that name is replaced once the new one is whole."""
    removed = json.loads(recipe["removed"])
    tensors = {}
    for name, value in _held(model).items():
        persistent = name in removed or name in model.state_dict(keep_vars=True)
        if persistent or isinstance(value, nn.Parameter):
            tensors[name] = value.detach().contiguous().cpu()
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        safetensors.torch.save_file(tensors, part, metadata=dict(recipe))
        os.replace(part, path)
    except OSError as error:
        raise LoadError(
            f"cannot write {str(path)!r}: {error}",
            fix="choose a folder that exists, may be written to and has room",
        ) from error
    finally:
        part.unlink(missing_ok=True)


def _held(model: nn.Module) -> dict[str, torch.Tensor]:
    stored, _ = stored_tensors(model)
    return stored


@dataclass(frozen=True)
class _File:
    path: Path
    recipe: Mapping[str, str]
    tensors: Mapping[str, torch.Tensor]


def load(model: nn.Module, path: Path) -> nn.Module:
    """Give a freshly built model the shapes and values of a file."""
    file = _read(path)
    _compare(model, file)
    if file.recipe["how"] == "traced":
        model = _traced_again(model, file)
    else:
        _set_numbers(model, json.loads(file.recipe["attributes"]))
    _fill(model, file)
    return model


def _read(path: Path) -> _File:
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            recipe = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, safetensors.SafetensorError) as error:
        raise LoadError(
            f"{str(path)!r} cannot be read as a safetensors file: {error}",
            fix="give the path of a file written by prunus.save",
        ) from error
    if recipe.get("prunus") != FORMAT:
        raise LoadError(
            f"{str(path)!r} was not written by prunus.save, or by a newer version "
            f"(format {recipe.get('prunus', 'absent')!r}, this version reads {FORMAT!r})",
            fix="write it with prunus.save, or install the newer version",
        )
    return _File(path, recipe, tensors)


def _compare(model: nn.Module, file: _File) -> None:
    """Refuse another architecture, naming the first difference."""
    wanted = {name: tuple(shape) for name, shape in json.loads(file.recipe["original"]).items()}
    have = {name: tuple(value.shape) for name, value in _held(model).items()}
    problem = ""
    for name, shape in wanted.items():
        if name not in have:
            problem = f"the file is of a model with {name!r}, which this model lacks"
        elif shape != have[name]:
            problem = f"{name!r} was {shape} in the original, and is {have[name]} here"
        if problem:
            break
    extra = [name for name in have if name not in wanted]
    if not problem and extra:
        problem = f"this model has {extra[0]!r}, which the file's original lacks"
    if problem:
        raise LoadError(
            f"{str(file.path)!r} belongs to another architecture: {problem}",
            fix="build the model exactly as it was before pruning, untouched, and load into that",
        )


def _set_numbers(model: nn.Module, attributes: Mapping[str, Mapping[str, Any]]) -> None:
    modules = dict(model.named_modules(remove_duplicate=False))
    for path, numbers in attributes.items():
        for name, value in numbers.items():
            old = getattr(modules[path], name)
            setattr(modules[path], name, tuple(value) if isinstance(old, tuple) else value)


def _traced_again(model: nn.Module, file: _File) -> nn.Module:
    """Trace the fresh model on the file's example, and make the file's cut."""
    within = file.recipe["within"]
    try:
        part = submodule(model, within) if within else model
    except UnknownNameError as error:
        raise LoadError(str(error), fix="build the model as it was before pruning") from error
    device = next((value.device for value in model.parameters()), torch.device("cpu"))
    args, kwargs = _rebuilt(json.loads(file.recipe["example"]), device)
    prefix = f"{within}." if within else ""
    traced = trace(part, Example(tuple(args), kwargs), prefix=prefix, any_batch=True)
    channels = close(traced.graph)
    gone = np.zeros(channels.count, bool)
    for name, axes in json.loads(file.recipe["removed"]).items():
        for axis, lost in axes.items():
            gone[channels.sets[Dim(name, int(axis))][lost]] = True
    cut = cut_of(channels, gone)
    small = traced_module(part, traced, cut.resizes, kept_indices(cut))
    if not within:
        return small
    parent, _, child = within.rpartition(".")
    setattr(model.get_submodule(parent), child, small)
    return model


def _fill(model: nn.Module, file: _File) -> None:
    stored, aliases = stored_tensors(model)
    for name, value in file.tensors.items():
        old = stored[aliases[name]]
        # `.data` keeps the tensor's identity, so that tied weights stay tied.
        old.data = value.to(device=old.device, dtype=old.dtype)
    for module in model.modules():
        describe(module)

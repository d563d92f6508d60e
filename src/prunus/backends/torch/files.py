"""Cut models on disk: one safetensors file that a freshly built model loads from.

The header tells all that is needed: the shapes of the original (so that another
architecture is refused), the numbers in modules that the cut changed, and, for a
traced module, the example and the removed indices, from which it is traced and cut
again. Nothing in it is executed, and nothing is changed before all of it is checked.
"""

from __future__ import annotations

import contextlib
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
from prunus.backends.torch.recipe import FORMAT, Recipe, changed_like, parsed
from prunus.backends.torch.trace import Example, stored_tensors, trace
from prunus.backends.torch.traced import traced_module
from prunus.backends.torch.within import submodule
from prunus.core.cut.cut import cut_of
from prunus.core.errors import LoadError, PrunusError
from prunus.core.graph.channels import close
from prunus.core.graph.ir import Dim
from prunus.core.graph.rules import Rules

__all__ = ["load", "save"]


def save(model: nn.Module, path: Path, header: Mapping[str, str]) -> None:
    """Write the model's tensors; a file of that name is replaced once the new one is whole."""
    tensors = _to_write(model, path, header)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        safetensors.torch.save_file(tensors, part, metadata=dict(header))
        os.replace(part, path)
    except (OSError, safetensors.SafetensorError) as error:
        raise LoadError(
            f"cannot write {str(path)!r}: {error}",
            fix="choose a folder that exists, may be written to and has room",
        ) from error
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)


def _to_write(model: nn.Module, path: Path, header: Mapping[str, str]) -> dict[str, torch.Tensor]:
    """Return what goes into the file: what a state dict holds, and whatever was cut."""
    if header["how"] == "traced" and not header["example"]:
        raise LoadError(
            f"cannot write {str(path)!r}: a traced module is traced again when it is loaded, and "
            "its example holds more than tensors, numbers, text, lists and dicts",
            fix="cut with a plainer example, or keep the module with torch.save(pruned.model, ...)",
        )
    recipe = parsed(header)
    stored, aliases = stored_tensors(model)
    originals = {aliases.get(name, name) for name in recipe.original}
    persistent = {aliases.get(name) for name in model.state_dict()}
    cut = {aliases.get(name) for name in recipe.removed}
    tensors, seen = {}, set()
    for name, value in stored.items():
        kept = name in persistent or isinstance(value, nn.Parameter)
        if name not in originals and kept:
            raise _changed_since(path, name, tuple(value.shape))
        if kept or name in cut:
            tensor = value.detach().contiguous().cpu()
            memory = tensor.untyped_storage().data_ptr()
            # The format refuses two tensors in one place, such as two views of one weight.
            tensors[name] = tensor.clone() if memory in seen else tensor
            seen.add(memory)
    for name in recipe.original:
        held = stored.get(aliases.get(name, ""))
        if held is not None and tuple(held.shape) != recipe.shape(name):
            raise _changed_since(path, name, tuple(held.shape))
    return tensors


def _changed_since(path: Path, name: str, shape: tuple[int, ...]) -> LoadError:
    return LoadError(
        f"cannot write {str(path)!r}: {name!r}, now {shape}, is not what the cut left there",
        fix="save before other layers are put in; weights may change, shapes and names may not",
    )


@dataclass(frozen=True)
class _File:
    path: Path
    recipe: Recipe
    tensors: Mapping[str, torch.Tensor]

    def damaged(self, problem: object) -> LoadError:
        return _damaged(self.path, problem)


def _damaged(path: Path, problem: object) -> LoadError:
    return LoadError(
        f"{str(path)!r} is damaged, or was not written by prunus.save: {problem}",
        fix="write the file again with prunus.save, and copy it whole",
    )


def load(model: nn.Module, path: Path, rules: Rules | None = None) -> nn.Module:
    """Give a freshly built model the shapes and values of a file."""
    file = _read(path)
    _compare(model, file)
    tensors = _checked(model, file)
    if file.recipe.how == "traced":
        model = _traced_again(model, file, rules)
    else:
        _set_numbers(model, file)
    _fill(model, file, tensors)
    return model


def _read(path: Path) -> _File:
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            header = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, safetensors.SafetensorError) as error:
        raise LoadError(
            f"{str(path)!r} cannot be read as a safetensors file: {error}",
            fix="give the path of a file written by prunus.save, copied whole",
        ) from error
    written = header.get("prunus")
    if written is None:
        raise LoadError(
            f"{str(path)!r} was not written by prunus.save: it does not say how the model was cut",
            fix="write it with prunus.save; plain weights go into model.load_state_dict",
        )
    if written != FORMAT:
        raise LoadError(
            f"{str(path)!r} is of format {written!r}, and this version reads {FORMAT!r}",
            fix="install the version of prunus that wrote it",
        )
    try:
        return _File(path, parsed(header), tensors)
    except ValueError as error:
        raise _damaged(path, error) from error


def _compare(model: nn.Module, file: _File) -> None:
    """Refuse another architecture, naming the first difference."""
    wanted = file.recipe.original
    have = {name: tuple(value.shape) for name, value in stored_tensors(model)[0].items()}
    problem = ""
    for name in wanted:
        if name not in have:
            problem = f"the file is of a model with {name!r}, which this model lacks"
        elif wanted[name] != have[name]:
            problem = f"{name!r} was {wanted[name]} in the original, and is {have[name]} here"
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


def _checked(model: nn.Module, file: _File) -> dict[str, torch.Tensor]:
    """Return the file's tensors by canonical name, after checking that all are there and fit."""
    stored, aliases = stored_tensors(model)
    found = {}
    for name, value in file.tensors.items():
        canonical = aliases.get(name)
        if canonical is None:
            raise file.damaged(f"it holds {name!r}, which its own original lacks")
        if tuple(value.shape) != file.recipe.shape(canonical):
            left = file.recipe.shape(canonical)
            raise file.damaged(f"{name!r} is {tuple(value.shape)}, and the cut leaves {left}")
        if _kind(value) != _kind(stored[canonical]):
            raise file.damaged(f"{name!r} is of type {value.dtype}, not {stored[canonical].dtype}")
        found[canonical] = value
    needed = [*model.state_dict(), *(key for key, _ in model.named_parameters())]
    for name in (*needed, *file.recipe.removed):
        if name in aliases and aliases[name] not in found:
            raise file.damaged(f"it lacks {name!r}")
    return found


def _kind(tensor: torch.Tensor) -> tuple[bool, bool]:
    return tensor.is_floating_point(), tensor.is_complex()


def _set_numbers(model: nn.Module, file: _File) -> None:
    modules = dict(model.named_modules(remove_duplicate=False))
    wanted = []
    for path, numbers in file.recipe.attributes.items():
        module = modules.get(path)
        for name, value in numbers.items():
            old = vars(module).get(name) if module is not None else None
            new = changed_like(old, value)
            if module is None or new is None:
                raise file.damaged(
                    f"{f'{path}.{name}'.strip('.')} cannot become {value!r}, for there is no such "
                    "whole number, or list of them, in this model"
                )
            wanted.append((module, name, new))
    for module, name, new in wanted:
        setattr(module, name, new)


def _traced_again(model: nn.Module, file: _File, rules: Rules | None) -> nn.Module:
    """Trace the fresh model on the file's example, and make the file's cut."""
    within, example = file.recipe.within, file.recipe.example
    assert example is not None  # noqa: S101  (a traced module's header has one)
    try:
        part = submodule(model, within) if within else model
        example = _at_home(example, model, file)
        small = _cut_again(part, f"{within}." if within else "", example, file, rules)
    except LoadError:
        raise
    except PrunusError as error:
        raise file.damaged(error.problem) from error
    if not within:
        return small
    parent, _, child = within.rpartition(".")
    setattr(model.get_submodule(parent), child, small)
    return model


def _at_home(example: Example, model: nn.Module, file: _File) -> Example:
    """Return the example on the device of the fresh model, and in its precision."""
    stored, aliases = stored_tensors(model)
    device = next((value.device for value in stored.values()), torch.device("cpu"))
    precision = {
        value.dtype: stored[aliases[name]].dtype
        for name, value in file.tensors.items()
        if value.is_floating_point()
    }

    def move(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        return value.to(device, precision.get(value.dtype, value.dtype))

    return Example(tree_map(move, example.args), tree_map(move, example.kwargs))


def _cut_again(
    part: nn.Module, prefix: str, example: Example, file: _File, rules: Rules | None
) -> nn.Module:
    traced = trace(part, example, prefix=prefix, any_batch=True)
    channels = close(traced.graph, rules)
    gone = np.zeros(channels.count, bool)
    for name, axes in file.recipe.removed.items():
        for axis, lost in axes.items():
            sets = channels.sets.get(Dim(name, axis))
            if sets is not None:
                gone[sets[list(lost)]] = True
    cut = cut_of(channels, gone)
    if cut.by_name() != file.recipe.removed or any(gone[number] for number in channels.frozen):
        raise LoadError(
            f"the cut in {str(file.path)!r} does not fit what this model computes",
            fix="pass load the rules= that the model was cut with; else write the file again",
        )
    return traced_module(part, traced, cut.resizes, kept_indices(cut))


def _fill(model: nn.Module, file: _File, tensors: Mapping[str, torch.Tensor]) -> None:
    stored, aliases = stored_tensors(model)
    for name, value in tensors.items():
        if name not in aliases:
            raise file.damaged(f"the traced module has no {name!r}")
        old = stored[aliases[name]]
        if old.shape != value.shape:
            old.grad = None
        # `.data` keeps the tensor's identity, so that tied weights stay tied.
        old.data = value.to(device=old.device, dtype=old.dtype)
    for module in model.modules():
        describe(module)

"""Trained weights on disk: safetensors, files of `prunus.save`, and PyTorch's own files.

A PyTorch file is a pickle, which can run whatever its author liked; it is read in the
mode that builds tensors and plain values only, and refused where it holds more.
"""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import nn

from prunus.backends.torch import files
from prunus.backends.torch.trace import stored_tensors
from prunus.core.errors import LoadError, nearest
from prunus.core.files import whole_file
from prunus.tasks.models import short

__all__ = ["load_weights", "save_weights", "weights_size", "write_tensors"]

_INSIDE = ("state_dict", "model_state_dict", "model", "net", "weights", "state_dict_ema")
_PREFIXES = ("module.", "_orig_mod.", "model.")
"""What wrappers put before every name: DataParallel, torch.compile, Lightning."""


def save_weights(model: nn.Module, path: str | Path) -> None:
    """Write the tensors of a model's state dict to a safetensors file, tied ones once."""
    write_tensors(path, _to_save(model), {"format": "pt"})


def weights_size(model: nn.Module) -> int:
    """Return how many bytes `save_weights` writes."""
    return len(safetensors.torch.save(_to_save(model), {"format": "pt"}))


def _to_save(model: nn.Module) -> dict[str, torch.Tensor]:
    aliases = stored_tensors(model)[1]
    found = {
        name: value
        for name, value in model.state_dict().items()
        if isinstance(value, torch.Tensor) and aliases.get(name, name) == name
    }
    return separate(found)


def separate(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return the tensors as the format wants them: on the CPU, no two in one place."""
    found, seen = {}, set()
    for name, value in tensors.items():
        tensor = value.detach().cpu().contiguous()
        memory = tensor.untyped_storage().data_ptr()
        found[name] = tensor.clone() if memory in seen else tensor
        seen.add(memory)
    return found


def write_tensors(
    path: str | Path, tensors: Mapping[str, torch.Tensor], header: Mapping[str, str]
) -> None:
    """Write a safetensors file, whole or not at all."""
    content = safetensors.torch.save(dict(tensors), dict(header))
    with whole_file(path) as part:
        part.write_bytes(content)


def load_weights(model: nn.Module, path: str | Path) -> nn.Module:
    """Give `model` the weights of a file, and return it; nothing changes before all is checked.

    For a file of `prunus.save`, `model` is reshaped as the file says, or is replaced by
    the traced module that was saved.
    """
    path = Path(path)
    if not path.is_file():
        raise LoadError(
            f"there is no file of weights {str(path)!r}",
            fix="give the path of a safetensors file, or of a file of torch.save",
        )
    if not _is_torch_file(path) and _is_cut(path):
        return files.load(model, path)
    found = _read_torch(path) if _is_torch_file(path) else _read_safetensors(path)
    _fill(model, _fitting(model, found, path), path)
    return model


def _is_torch_file(path: Path) -> bool:
    with path.open("rb") as file:
        start = file.read(2)
    # A zip archive, or a bare pickle of an old version; a safetensors file begins with a length.
    return start == b"PK" or start[:1] == b"\x80"


def _is_cut(path: Path) -> bool:
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            return "prunus" in (file.metadata() or {})
    except (OSError, safetensors.SafetensorError) as error:
        raise _unreadable(path, error) from error


def _read_safetensors(path: Path) -> dict[str, torch.Tensor]:
    try:
        return safetensors.torch.load_file(path)
    except (OSError, safetensors.SafetensorError) as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: Exception) -> LoadError:
    return LoadError(
        f"{str(path)!r} cannot be read as weights: {short(error)}",
        fix="give a safetensors file or a file of torch.save, copied whole",
    )


def _read_torch(path: Path) -> dict[str, torch.Tensor]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of an unusual pickle: what it needs is there, or not
            found = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise LoadError(
            f"{str(path)!r} holds more than tensors and plain values, which could run anything "
            f"when it is read: {_asked_for(error)}",
            fix="where you trust the file, load it yourself and write its tensors alone: "
            "safetensors.torch.save_file(model.state_dict(), 'weights.safetensors')",
        ) from error
    except (OSError, RuntimeError, EOFError, ValueError, KeyError) as error:
        raise _unreadable(path, error) from error
    return _state_dict(found, path)


def _asked_for(error: Exception) -> str:
    """Return the line that says what the file wanted to build."""
    lines = [line.strip() for line in str(error).splitlines()]
    telling = [line for line in lines if "GLOBAL" in line or "Unsupported" in line]
    return (telling or lines or [""])[0].partition(" was not an allowed")[0]


def _state_dict(found: Any, path: Path) -> dict[str, torch.Tensor]:
    """Return the tensors by name, from wherever a training script has put them."""
    while isinstance(found, Mapping):
        inside = next((key for key in _INSIDE if isinstance(found.get(key), Mapping)), None)
        if inside is None:
            break
        found = found[inside]
    if isinstance(found, Mapping):
        tensors = {str(k): v for k, v in found.items() if isinstance(v, torch.Tensor)}
        if tensors:
            return tensors
    raise LoadError(
        f"{str(path)!r} holds no weights: it is a {type(found).__name__}"
        + (f" with {', '.join(map(repr, list(found)[:5]))}" if isinstance(found, Mapping) else ""),
        fix="write one with torch.save(model.state_dict(), path)",
    )


def _fitting(
    model: nn.Module, found: Mapping[str, torch.Tensor], path: Path
) -> dict[str, torch.Tensor]:
    """Return what goes into the model's state dict, or name the first thing that does not fit."""
    wanted = {k: v for k, v in model.state_dict().items() if isinstance(v, torch.Tensor)}
    found = _unwrapped(found, wanted)
    aliases = stored_tensors(model)[1]
    by_canonical = {aliases.get(name, name): value for name, value in found.items()}
    fitting = {}
    for name, own in wanted.items():
        value = found.get(name, by_canonical.get(aliases.get(name, name)))
        if value is None and name.endswith("num_batches_tracked"):
            value = own  # files of the time before it was counted lack it
        if value is not None:
            fitting[name] = value
    _check(wanted, found, fitting, path)
    return fitting


def _unwrapped(
    found: Mapping[str, torch.Tensor], wanted: Mapping[str, torch.Tensor]
) -> Mapping[str, torch.Tensor]:
    for _ in _PREFIXES:
        for prefix in _PREFIXES:
            inside = all(name.startswith(prefix) for name in found)
            if inside and not any(name.startswith(prefix) for name in wanted):
                found = {name.removeprefix(prefix): value for name, value in found.items()}
    return found


def _check(
    wanted: Mapping[str, torch.Tensor],
    found: Mapping[str, torch.Tensor],
    fitting: Mapping[str, torch.Tensor],
    path: Path,
) -> None:
    missing = [name for name in wanted if name not in fitting]
    unexpected = [name for name in found if name not in wanted]
    shapes = [name for name in fitting if fitting[name].shape != wanted[name].shape]
    problems, fix = [], "build the model as it was when the weights were written"
    if missing:
        problems.append(f"the file lacks {_counted(missing)}")
        fix += f"; the nearest names in the file are {nearest(missing[0], found)}"
    if unexpected:
        problems.append(f"the model lacks {_counted(unexpected)}")
    if shapes:
        name = shapes[0]
        problems.append(
            f"{name!r} is {tuple(fitting[name].shape)} in the file and "
            f"{tuple(wanted[name].shape)} in the model"
            + (f", and {len(shapes) - 1} more differ" if len(shapes) > 1 else "")
        )
        if not missing and not unexpected:
            fix += "; where only the number of classes differs, give it: model.arguments"
    if problems:
        raise LoadError(f"{str(path)!r} does not fit the model: {'; '.join(problems)}", fix=fix)


def _counted(names: list[str]) -> str:
    return repr(names[0]) + (f" and {len(names) - 1} more" if len(names) > 1 else "")


def _fill(model: nn.Module, tensors: Mapping[str, torch.Tensor], path: Path) -> None:
    try:
        model.load_state_dict(dict(tensors), strict=False)
    except RuntimeError as error:
        raise _unreadable(path, error) from error

"""The header of a cut model's file: how to make the model out of a freshly built original.

It is text from a file that anybody may have written, so reading it believes nothing:
each entry is of the expected kind, or the file is refused.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import Any

import torch
from torch import nn

from prunus.backends.torch.prune import Fitted
from prunus.backends.torch.trace import Example, TracedModel, stored_tensors
from prunus.core.cut.cut import Cut

__all__ = ["FORMAT", "Recipe", "changed_like", "parsed", "recipe_of"]

FORMAT = "1"
_DTYPES = {str(dtype): dtype for dtype in vars(torch).values() if isinstance(dtype, torch.dtype)}
_LARGEST_EXAMPLE = 2**28


@dataclass(frozen=True)
class Recipe:
    """What a header says."""

    how: str
    within: str
    original: Mapping[str, tuple[int, ...]]
    """The shape of each of the original's tensors."""
    attributes: Mapping[str, Mapping[str, Any]]
    """By module: the numbers that the cut changed."""
    removed: Mapping[str, Mapping[int, tuple[int, ...]]]
    example: Example | None
    """For a traced module: what to trace it on again."""

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of a tensor after the cut."""
        lost = self.removed.get(name, {})
        return tuple(
            length - len(lost.get(axis, ())) for axis, length in enumerate(self.original[name])
        )


def recipe_of(traced: TracedModel, fitted: Fitted, cut: Cut) -> dict[str, str]:
    """Return the header of a cut model's file."""
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
        "example": _written(traced.example) if fitted.how == "traced" else "",
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
        return any(_is_number(one) for one in value)
    return type(value) is int


def changed_like(old: Any, new: Any) -> Any:
    """Return `new` in the form of `old`, a whole number or a list; None where it does not fit."""
    if type(old) is int:
        return new if type(new) is int else None
    if not (isinstance(old, tuple | list) and isinstance(new, list) and len(old) == len(new)):
        return None
    parts = [b if a == b else changed_like(a, b) for a, b in zip(old, new, strict=True)]
    return None if any(part is None for part in parts) else type(old)(parts)


def _written(example: Example) -> str:
    try:
        return json.dumps([_described(example.args), _described(example.kwargs)])
    except TypeError:
        return ""  # an argument that is no plain value: `save` says so


def _described(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return {"tensor": list(value.shape), "dtype": str(value.dtype)}
    if type(value) is tuple:
        return {"tuple": [_described(one) for one in value]}
    if type(value) is list:
        return [_described(one) for one in value]
    if type(value) is dict and all(type(key) is str for key in value):
        return {"dict": {key: _described(one) for key, one in value.items()}}
    if value is None or type(value) in (bool, int, float, str):
        return value
    raise TypeError(type(value))


def parsed(header: Mapping[str, str]) -> Recipe:
    """Read a header.

    Raises:
        ValueError: For an entry that is missing or not of the expected kind.
    """
    read: dict[str, Any] = {}
    for key in ("original", "attributes", "removed", "example"):
        try:
            read[key] = json.loads(header.get(key) or "null")
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{key!r} is no JSON") from error
    how, within = header.get("how", ""), header.get("within", "")
    _expect(how in ("module", "traced"), f"'how' is {how!r}")
    original = {
        name: _sizes(shape, f"the shape of {name!r}")
        for name, shape in _table(read["original"], "original").items()
    }
    attributes = {
        path: _table(numbers, f"attributes of {path!r}")
        for path, numbers in _table(read["attributes"], "attributes").items()
    }
    removed = {
        name: _removed_axes(name, axes, original)
        for name, axes in _table(read["removed"], "removed").items()
    }
    example = _example(read["example"]) if how == "traced" else None
    return Recipe(how, within, original, attributes, removed, example)


def _expect(right: bool, problem: str) -> None:
    if not right:
        raise ValueError(problem)


def _table(value: Any, what: str) -> dict[str, Any]:
    _expect(isinstance(value, dict), f"{what!r} is no table")
    return dict(value)


def _sizes(value: Any, what: str) -> tuple[int, ...]:
    _expect(isinstance(value, list), f"{what} is no list")
    _expect(all(type(one) is int and one >= 0 for one in value), f"{what} is {value!r}")
    return tuple(value)


def _removed_axes(
    name: str, axes: Any, original: Mapping[str, tuple[int, ...]]
) -> dict[int, tuple[int, ...]]:
    _expect(name in original, f"{name!r} is cut, and is not in the original")
    shape, found = original[name], {}
    for key, lost in _table(axes, f"removed of {name!r}").items():
        _expect(key in {str(axis) for axis in range(len(shape))}, f"{name!r} has no axis {key!r}")
        indices = _sizes(lost, f"what {name!r} lost")
        length = shape[int(key)]
        in_order = all(a < b for a, b in pairwise(indices))
        _expect(
            in_order and len(indices) < length and all(one < length for one in indices),
            f"{name!r} cannot lose those {len(indices)} of {length} channels",
        )
        found[int(key)] = indices
    return found


def _example(described: Any) -> Example:
    args, kwargs = described if isinstance(described, list) and len(described) == 2 else (0, 0)
    args, kwargs = _rebuilt(args), _rebuilt(kwargs)
    _expect(isinstance(args, tuple) and isinstance(kwargs, dict), "'example' is no call")
    return Example(args, kwargs)


def _rebuilt(described: Any) -> Any:
    if isinstance(described, list):
        return [_rebuilt(one) for one in described]
    if not isinstance(described, dict):
        return described
    if set(described) == {"tuple"} and isinstance(described["tuple"], list):
        return tuple(_rebuilt(one) for one in described["tuple"])
    if set(described) == {"dict"} and isinstance(described["dict"], dict):
        return {key: _rebuilt(one) for key, one in described["dict"].items()}
    _expect(set(described) == {"tensor", "dtype"}, "'example' holds an unknown thing")
    shape = _sizes(described["tensor"], "a shape in 'example'")
    dtype = _DTYPES.get(str(described["dtype"]))
    _expect(dtype is not None, f"'example' is of type {described['dtype']!r}")
    _expect(prod(shape) <= _LARGEST_EXAMPLE, f"'example' has the shape {shape}")
    return torch.ones(shape, dtype=dtype)

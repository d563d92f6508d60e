"""A model and an example of its input, from what a person can type on a command line."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from prunus.core.errors import PrunusError, UnknownNameError, nearest

__all__ = ["build", "example_of", "parse_shape"]


def build(spec: str) -> Any:
    """Return the model that `spec` names: "package.module:factory", or ":model" for a ready one."""
    module_name, colon, name = spec.partition(":")
    if not (module_name and colon and name):
        raise PrunusError(
            f"{spec!r} does not say which model: it must read MODULE:FACTORY",
            fix="name the module, a colon, and a function or class that takes no arguments and "
            "gives a model, such as torchvision.models:resnet18",
        )
    factory = _attribute(_module(module_name), module_name, name)
    if _is_model(factory):
        return factory
    if not callable(factory):
        raise PrunusError(
            f"{spec!r} is {_a(factory)}, neither a model nor a function that gives one",
            fix="name a function or class that takes no arguments and gives a torch.nn.Module",
        )
    model = _called(factory, spec)
    if not _is_model(model):
        raise PrunusError(
            f"{spec!r} gives {_a(model)}, which is no model",
            fix="name a function or class that gives a torch.nn.Module",
        )
    return model


def _module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except Exception as error:  # the user's module may raise anything while it is imported
        if isinstance(error, ModuleNotFoundError) and f"{name}.".startswith(f"{error.name}."):
            raise UnknownNameError(
                f"there is no module {error.name!r}",
                fix="run prunus from the folder that holds it, or install the package it is in",
            ) from error
        raise PrunusError(
            f"module {name!r} fails while it is imported: {_short(error)}",
            fix=f'see the whole traceback with: python -c "import {name}"',
        ) from error


def _attribute(module: ModuleType, module_name: str, path: str) -> Any:
    found: Any = module
    for part in path.split("."):
        try:
            found = getattr(found, part)
        except AttributeError as error:
            known = sorted(key for key in dir(found) if key[0] != "_" and _useful(found, key))
            raise UnknownNameError(
                f"module {module_name!r} has no {path!r}",
                fix=f"the nearest names are {nearest(part, known)}"
                if known
                else f"define it there: {module_name} has no public function or class",
            ) from error
    return found


def _useful(owner: Any, name: str) -> bool:
    value = getattr(owner, name, None)
    return callable(value) or _is_model(value)


def _called(factory: Any, spec: str) -> Any:
    try:
        return factory()
    except Exception as error:  # the user's code may raise anything
        module, _, name = spec.partition(":")
        raise PrunusError(
            f"{spec!r} fails when called without arguments: {_short(error)}",
            fix=f'see the whole traceback with: python -c "import {module}; {module}.{name}()"; '
            "where it needs arguments, write a function that passes them",
        ) from error


def _is_model(value: Any) -> bool:
    """Tell a model from anything else, without importing its framework."""
    return any(
        f"{cls.__module__}.{cls.__name__}" == "torch.nn.modules.module.Module"
        for cls in type(value).__mro__
    )


def _a(value: Any) -> str:
    kind = type(value)
    own = kind.__qualname__ if kind.__module__ == "builtins" else _full(kind)
    return "nothing (None)" if value is None else f"an object of class {own}"


def _full(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _short(error: Exception) -> str:
    first = (str(error).strip().splitlines() or [""])[0]
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


def parse_shape(text: str) -> tuple[int, ...]:
    """Read a shape such as "1,3,224,224"."""
    try:
        shape = tuple(int(part) for part in text.split(","))
    except ValueError:
        shape = ()
    if not shape or min(shape) < 1:
        raise PrunusError(
            f"{text!r} is no shape of an input",
            fix="give whole numbers from 1 with commas between, batch first: --shape 1,3,224,224",
        )
    return shape


def example_of(model: Any, shapes: Sequence[tuple[int, ...]]) -> tuple[Any, ...]:
    """Return one random tensor a shape, of the type and on the device of the model's weights."""
    import torch

    generator = torch.Generator().manual_seed(0)
    weight = next((one for one in model.parameters() if one.is_floating_point()), torch.empty(0))
    return tuple(
        torch.rand(shape, generator=generator).to(weight.device, weight.dtype) for shape in shapes
    )

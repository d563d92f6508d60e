"""A model and an example of its input, from what a person can type on a command line."""

from __future__ import annotations

import importlib
import shlex
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

from prunus.core.errors import MissingExtraError, PrunusError, UnknownNameError, nearest

if TYPE_CHECKING:
    from prunus.tasks.data import Data
    from prunus.tasks.settings import ModelSettings

__all__ = ["build", "build_model", "example_of", "named", "parse_shape", "shape_of", "short"]


def build_model(settings: ModelSettings) -> Any:
    """Return the model of a settings file, with its weights."""
    model = build(settings.name, settings.arguments)
    if settings.weights is None:
        return model
    from prunus.tasks.torch.weights import load_weights

    return load_weights(model, settings.weights)


def build(spec: str, arguments: Mapping[str, Any] | None = None) -> Any:
    """Return the model that `spec` names.

    That is "timm:NAME", "torchvision:NAME", "package.module:factory" for a function or
    class that is called with `arguments`, or "package.module:model" for a ready one.
    """
    arguments = dict(arguments or {})
    module_name, colon, name = spec.partition(":")
    if not (module_name and colon and name):
        raise PrunusError(
            f"{spec!r} does not say which model: it must read MODULE:FACTORY",
            fix="name the module, a colon, and a function or class that gives a model, such as "
            "torchvision.models:resnet18, or write timm:NAME or torchvision:NAME",
        )
    if module_name in _COLLECTIONS:
        return _from_collection(module_name, name, arguments)
    factory = named(spec)
    if _is_model(factory):
        if arguments:
            raise PrunusError(
                f"{spec!r} is a ready model, which takes no arguments ({', '.join(arguments)})",
                fix="leave the arguments out, or name a function that takes them",
            )
        return factory
    if not callable(factory):
        raise PrunusError(
            f"{spec!r} is {_a(factory)}, neither a model nor a function that gives one",
            fix="name a function or class that gives a torch.nn.Module",
        )
    model = _called(factory, spec, arguments)
    if not _is_model(model):
        raise PrunusError(
            f"{spec!r} gives {_a(model)}, which is no model",
            fix="name a function or class that gives a torch.nn.Module",
        )
    return model


def named(spec: str) -> Any:
    """Return whatever "package.module:name" names."""
    module_name, _, name = spec.partition(":")
    return _attribute(_module(module_name), module_name, name)


def _timm(module: ModuleType) -> tuple[Callable[..., Any], Sequence[str]]:
    return module.create_model, module.list_models()


def _torchvision(_: ModuleType) -> tuple[Callable[..., Any], Sequence[str]]:
    models = importlib.import_module("torchvision.models")
    return models.get_model, models.list_models()


_COLLECTIONS = {"timm": _timm, "torchvision": _torchvision}
"""Packages whose models have names of their own, beside those of functions."""


def _from_collection(package: str, name: str, arguments: dict[str, Any]) -> Any:
    try:
        create, known = _COLLECTIONS[package](_module(package))
    except UnknownNameError as error:
        raise MissingExtraError(
            f"{package}:{name} needs {package!r}, which is not installed",
            fix=f"pip install {package}",
        ) from error
    # A name of timm may have a tag of its weights behind a dot.
    if name.partition(".")[0] not in known:
        raise UnknownNameError(
            f"{package} has no model {name!r}", fix=f"the nearest names are {nearest(name, known)}"
        )
    return _called(lambda **given: create(name, **given), f"{package}:{name}", arguments)


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
            f"module {name!r} fails while it is imported: {short(error)}",
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


def _called(factory: Any, spec: str, arguments: dict[str, Any]) -> Any:
    try:
        return factory(**arguments)
    except Exception as error:  # the user's code may raise anything
        module, _, name = spec.partition(":")
        given = ", ".join(f"{key}={value!r}" for key, value in arguments.items())
        if module in _COLLECTIONS:
            fix = f"see in the documentation of {module} which arguments this model takes"
        else:
            fix = (
                f"see the whole traceback with: python -c {_quoted(module, name, given)}; where it "
                "needs arguments, write a function that passes them, or give them in a settings "
                "file (model.arguments)"
            )
        raise PrunusError(
            f"{spec!r} fails when called {f'with {given}' if given else 'without arguments'}: "
            f"{short(error)}",
            fix=fix,
        ) from error


def _quoted(module: str, name: str, given: str) -> str:
    line = f"import {module}; {module}.{name}({given})"
    return shlex.quote(line) if given else f'"{line}"'


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


def short(error: BaseException) -> str:
    """Return an error as one line."""
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


def shape_of(settings: ModelSettings, data: Data | None = None) -> tuple[int, ...]:
    """Return the shape that a model is traced on: as the settings say, or one image of the data."""
    if settings.shape is not None:
        return settings.shape
    if data is None:
        raise PrunusError(
            "nothing says what the model is traced on",
            fix="give model.shape, batch first, such as [1, 3, 224, 224], or data to take it from",
        )
    return (1, *data.shape)


def example_of(model: Any, shapes: Sequence[tuple[int, ...]]) -> tuple[Any, ...]:
    """Return one random tensor a shape, of the type and on the device of the model's weights."""
    import torch

    generator = torch.Generator().manual_seed(0)
    weight = next((one for one in model.parameters() if one.is_floating_point()), torch.empty(0))
    return tuple(
        torch.rand(shape, generator=generator).to(weight.device, weight.dtype) for shape in shapes
    )

"""A part of a model that as a whole cannot be traced: find it, and what it is called with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_map

from prunus.backends.torch.trace import Example
from prunus.backends.torch.untouched import evaluating
from prunus.core.errors import TraceError, UnknownNameError, nearest

__all__ = ["call_of", "shared_outside", "submodule"]


def submodule(model: nn.Module, name: str) -> nn.Module:
    """Return the sub-module of that name."""
    modules: dict[str, nn.Module] = dict(model.named_modules())
    if name not in modules or not name:
        raise UnknownNameError(
            f"the model has no sub-module {name!r}",
            fix=f"within= takes a name from model.named_modules(), such as "
            f"{nearest(str(name), [key for key in modules if key])}",
        )
    return modules[name]


def call_of(model: nn.Module, part: nn.Module, name: str, example: Example) -> Example:
    """Run the whole model once and return the arguments that the part was first called with."""
    calls: list[Example] = []

    def remember(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        calls.append(Example(tree_map(_copied, args), tree_map(_copied, kwargs)))

    handle = part.register_forward_pre_hook(remember, with_kwargs=True)
    try:
        with torch.no_grad(), evaluating(model):
            example.call(model)
    except Exception as error:
        if not calls:
            raise TraceError(
                f"the model does not run on this example: {type(error).__name__}: {error}",
                fix="pass an example the whole model accepts; within= takes the part's own "
                "inputs from that run",
            ) from error
    finally:
        handle.remove()
    if not calls:
        raise TraceError(
            f"a run of the model on this example never calls {name!r}",
            fix="name a sub-module whose forward runs, or pass an example that reaches it",
        )
    return calls[0]


def _copied(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, torch.Tensor) else value


def shared_outside(model: nn.Module, part: nn.Module, name: str) -> Mapping[str, str]:
    """Return the part's tensors that the rest of the model holds as well."""
    inside = {id(tensor): f"{name}.{key}" for key, tensor in part.named_parameters()}
    found = {}
    for key, tensor in model.named_parameters(remove_duplicate=False):
        if id(tensor) in inside and not key.startswith(f"{name}."):
            found[inside[id(tensor)]] = f"it is tied to {key!r}, outside of {name!r}"
    return found

"""PyTorch behind the backend protocol."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from prunus.backends.torch import files
from prunus.backends.torch.edit import (
    check_optimizer,
    copied,
    cut_in_place,
    cut_optimizer,
    kept_indices,
    repair,
)
from prunus.backends.torch.laboratory import TorchLaboratory, fingerprint
from prunus.backends.torch.prune import Fitted, apply_cut, weights_of
from prunus.backends.torch.recipe import recipe_of
from prunus.backends.torch.trace import TracedModel, as_example, trace
from prunus.backends.torch.within import call_of, shared_outside, submodule
from prunus.core.backend import Outcome
from prunus.core.cut.cut import Cut
from prunus.core.errors import PrunusError
from prunus.core.graph.rules import Rules
from prunus.core.scores.group import Weights
from prunus.core.study.cells import Key

__all__ = ["TorchBackend"]


class TorchBackend:
    """Any `torch.nn.Module` that `torch.export` can trace, or a sub-module that it can."""

    name = "torch"

    def owns(self, model: object) -> bool:
        """Tell whether `model` is a module."""
        return isinstance(model, nn.Module)

    def trace(self, model: nn.Module, example: Any, within: str | None = None) -> TracedModel:
        """Trace `model`, or its sub-module `within` on what it is called with."""
        given = as_example(example)
        with _own_mode(model):
            if within is None:
                return TracedModel(model, model, given, trace(model, given))
            part = submodule(model, within)
            call = call_of(model, part, within, given)
            inner = trace(part, call, prefix=f"{within}.")
            return TracedModel(model, part, call, inner, shared_outside(model, part, within))

    def weights(self, traced: TracedModel) -> Weights:
        """Return how criteria read weights and gradients."""
        empty = next((key for key, one in traced.inner.stored.items() if one.is_meta), None)
        if empty is not None:
            raise PrunusError(
                f"{empty!r} is on the device 'meta', where tensors have shapes and no values",
                fix="load the weights first: model.to_empty(device='cpu'), then load_state_dict; "
                "prunus.trace works without values",
            )
        return weights_of(traced.inner)

    def apply(
        self,
        traced: TracedModel,
        cut: Cut,
        *,
        rules: Rules | None,
        verify: bool,
        inplace: bool,
        optimizer: torch.optim.Optimizer | None,
    ) -> Outcome:
        """Cut the traced part, and put it into a copy of the whole."""
        with _own_mode(traced.whole):
            return _applied(traced, cut, rules, verify, inplace, optimizer)

    def fingerprint(self, traced: TracedModel) -> str:
        """Return a hash of the whole model's tensors."""
        return fingerprint(traced.whole)

    def versions(self) -> Mapping[str, str]:
        """Return the version of PyTorch."""
        return {"torch": torch.__version__}

    def laboratory(
        self,
        traced: TracedModel,
        cuts: Mapping[Key, Cut],
        *,
        rules: Rules | None,
        recalibrate: Iterable[Any] | None,
    ) -> TorchLaboratory:
        """Return what builds and measures the models of one table."""

        def apply(cut: Cut, *, verify: bool) -> Outcome:
            return self.apply(
                traced, cut, rules=rules, verify=verify, inplace=False, optimizer=None
            )

        return TorchLaboratory(traced, cuts, apply, rules, recalibrate)

    def save(self, model: nn.Module, path: Path, recipe: Mapping[str, str]) -> None:
        """Write the model's tensors to one file."""
        files.save(model, path, recipe)

    def load(self, model: nn.Module, path: Path, rules: Rules | None = None) -> nn.Module:
        """Give a freshly built model the shapes and values of a file."""
        with _own_mode(model):
            return files.load(model, path, rules)


def _own_mode(model: nn.Module) -> torch.inference_mode:
    """Leave the inference mode that the caller may be in: what is made there cannot be trained."""
    weights = [weight for _, weight in model.named_parameters() if not is_lazy(weight)]
    return torch.inference_mode(any(weight.is_inference() for weight in weights))


def _applied(
    traced: TracedModel,
    cut: Cut,
    rules: Rules | None,
    verify: bool,
    inplace: bool,
    optimizer: torch.optim.Optimizer | None,
) -> Outcome:
    kept = kept_indices(cut)
    if optimizer is not None:
        check_optimizer(optimizer, traced.whole, kept, traced.inner.stored)
    shapes = {name: tuple(traced.inner.stored[name].shape) for name in kept}
    fitted = apply_cut(traced.part, traced.inner, cut, traced.example, rules, verify=verify)
    recipe = recipe_of(traced, fitted, cut)
    in_place = inplace and fitted.how == "module"
    if in_place:
        cut_in_place(traced.part, cut, kept, traced.inner)
        repair(traced.part, cut.resizes if fitted.changed else ())
    model = traced.whole if in_place else _put_back(traced, fitted)
    if optimizer is not None:
        optimizer = cut_optimizer(
            optimizer, fitted.memo, kept, traced.inner.stored, shapes, inplace=in_place
        )
    return Outcome(
        model, fitted.error, fitted.unverified, fitted.how, fitted.changed, recipe, optimizer
    )


def _put_back(traced: TracedModel, fitted: Fitted) -> nn.Module:
    """Return a copy of the whole model around the cut part."""
    if traced.part is traced.whole:
        return fitted.model
    fitted.memo[id(traced.part)] = fitted.model
    return copied(traced.whole, fitted.memo)

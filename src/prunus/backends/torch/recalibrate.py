"""Batch norms that learn their statistics anew: what a cut leaves them is of another network.

Mean and variance become those of the given batches, each batch counting the same.
Weights do not change, nothing is trained, and without batch norms nothing happens.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx, nn
from torch.nn.modules.batchnorm import _BatchNorm

from prunus.backends.torch.batches import Forward, run_on, to_home
from prunus.backends.torch.lower import operator_of
from prunus.backends.torch.traced import BATCH_NORMS, BatchNorm
from prunus.backends.torch.untouched import evaluating
from prunus.backends.torch.vocabulary import arguments
from prunus.core.errors import EvaluationError, PrunusError

__all__ = ["recalibrate"]


def recalibrate(
    model: nn.Module, batches: Iterable[Any], *, forward: Forward | None = None
) -> tuple[str, ...]:
    """Estimate the statistics of batch norms anew, from all the given batches.

    Everything else of the model stays as it is: modes, momentum, weights, random state.
    Where something fails, the old statistics stay as well.

    Args:
        model: A module, or a traced one that `prunus.prune` returned.
        batches: Of inputs, or of (inputs, targets); a dict is passed by keywords.
        forward: `forward(model, batch)`, where that is not how the model is called.

    Returns:
        The names of the layers that ran; none, where the model has no batch norms.
    """
    _refuse_fixed(model)
    layers = {name: layer for name, layer in model.named_modules() if _learns(layer)}
    if not layers:
        return ()
    learnt: dict[str, _Learnt] = {}
    with _statistics_kept(learnt) as done:
        with evaluating(model), torch.no_grad(), _listening(layers, learnt):
            _run(model, batches, forward)
            _check(learnt)
            found = {name: one.values() for name, one in learnt.items()}
        # Where a batch norm counts in a buffer, `evaluating` has set that back.
        for name, one in learnt.items():
            one.put(found[name])
        done()
    return tuple(name for name in layers if name in learnt)


def _learns(layer: nn.Module) -> bool:
    if isinstance(layer, _BatchNorm):
        return layer.running_mean is not None and layer.running_var is not None
    return isinstance(layer, BatchNorm)


def _refuse_fixed(model: nn.Module) -> None:
    for path, module in model.named_modules():
        for node in module.graph.nodes if isinstance(module, fx.GraphModule) else ():
            if (
                node.op == "call_function"
                and operator_of(node).rstrip("_") in BATCH_NORMS
                and arguments(node).get("running_mean") is not None
            ):
                raise PrunusError(
                    f"{node.name!r} in the graph {path or type(module).__name__!r} is a batch norm "
                    "that is fixed to evaluation",
                    fix="recalibrate the model itself, or what prunus.prune returned, before it "
                    "is exported",
                )


@dataclass(frozen=True)
class _Learnt:
    """The statistics of one layer, and what they were."""

    tensors: tuple[torch.Tensor, ...]
    before: tuple[torch.Tensor, ...]

    @classmethod
    def of(cls, *tensors: torch.Tensor | None) -> _Learnt:
        there = tuple(one for one in tensors if one is not None)
        return cls(there, tuple(one.clone() for one in there))

    def values(self) -> tuple[torch.Tensor, ...]:
        return tuple(one.clone() for one in self.tensors)

    @torch.no_grad()
    def put(self, values: Iterable[torch.Tensor]) -> None:
        for one, value in zip(self.tensors, values, strict=True):
            one.copy_(value)


@contextlib.contextmanager
def _statistics_kept(learnt: Mapping[str, _Learnt]) -> Iterator[Callable[[], None]]:
    """Put the old statistics back, unless told that the new ones are there."""
    finished: list[bool] = []
    try:
        yield lambda: finished.append(True)
    finally:
        if not finished:
            for one in learnt.values():
                one.put(one.before)


@contextlib.contextmanager
def _listening(layers: Mapping[str, nn.Module], learnt: dict[str, _Learnt]) -> Iterator[None]:
    """Let the layers learn, each from its first call on: one that is never called keeps its own."""
    handles = [
        layer.register_forward_pre_hook(
            _eager_hook(name, learnt)
            if isinstance(layer, _BatchNorm)
            else _traced_hook(name, learnt)
        )
        for name, layer in layers.items()
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _eager_hook(name: str, learnt: dict[str, _Learnt]) -> Callable[..., None]:
    def first(layer: nn.Module, _: Any) -> None:
        if name not in learnt and isinstance(layer, _BatchNorm):
            learnt[name] = _Learnt.of(
                layer.running_mean, layer.running_var, layer.num_batches_tracked
            )
            layer.reset_running_stats()
            layer.training, layer.momentum = True, None  # the mean over all batches

    return first


def _traced_hook(name: str, learnt: dict[str, _Learnt]) -> Callable[..., Any]:
    calls = 0

    def averaged(layer: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        nonlocal calls
        x, weight, bias, mean, var, _, eps = args
        if name not in learnt:
            learnt[name] = _Learnt.of(mean, var)
            mean.zero_()
            var.fill_(1)
            layer.training = True
        calls += 1
        return x, weight, bias, mean, var, 1 / calls, eps

    return averaged


def _run(model: nn.Module, batches: Iterable[Any], forward: Forward | None) -> None:
    count = 0
    for count, batch in enumerate(batches, 1):
        run_on(model, to_home(batch, model), count, forward)
    if not count:
        raise EvaluationError(
            "there is no batch to take statistics from",
            fix="give some batches of training data, as a list or a loader",
        )


def _check(learnt: Mapping[str, _Learnt]) -> None:
    for name, one in learnt.items():
        if not all(bool(tensor.isfinite().all()) for tensor in one.tensors):
            raise EvaluationError(
                f"batch norm {name!r} is given values that are not finite",
                fix="look for nan or inf in the images and in the weights before that layer",
            )

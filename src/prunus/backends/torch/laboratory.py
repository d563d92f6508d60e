"""The original and the cut models of one table, ready to be measured."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

import torch
from torch import nn

from prunus.backends.torch.builder import Builder, evaluation_mode
from prunus.backends.torch.caller import Caller
from prunus.backends.torch.edit import copied, held_by_code
from prunus.backends.torch.first_look import BATCHES, SIZE, first_look
from prunus.backends.torch.meter import TorchMeter
from prunus.backends.torch.metrics import mean_loss
from prunus.backends.torch.program import program_of
from prunus.backends.torch.prune import same_sets
from prunus.backends.torch.sweep import Sweep
from prunus.backends.torch.swift import Swift
from prunus.backends.torch.trace import TracedModel, stored_tensors, trace
from prunus.backends.torch.untouched import evaluating
from prunus.backends.torch.variant import variant_of
from prunus.core.backend import Outcome
from prunus.core.cut.cut import Cut, cut_of
from prunus.core.engine.evaluation import Evaluation, length_of
from prunus.core.errors import PrunusError
from prunus.core.graph.channels import close
from prunus.core.graph.rules import Rules
from prunus.core.study.cells import Key

__all__ = ["PRECISIONS", "TorchLaboratory", "fingerprint"]

PRECISIONS = {"bfloat16": torch.bfloat16, "float16": torch.float16}
"""What may be asked for in place of the model's own precision."""


class Apply(Protocol):
    """Makes a cut model."""

    def __call__(self, cut: Cut, *, verify: bool) -> Outcome:
        """Return the whole model without what the cut takes."""
        ...


class TorchLaboratory:
    """Builds really cut models, and meters that read a metric off them."""

    def __init__(
        self,
        traced: TracedModel,
        cuts: Mapping[Key, Cut],
        apply: Apply,
        rules: Rules | None,
        recalibrate: Iterable[Any] | None,
    ) -> None:
        self._traced, self._cuts, self._rules = traced, cuts, rules
        self._recalibrated = recalibrate is not None
        anew = None
        if recalibrate is not None:

            def anew(model: nn.Module) -> object:
                from prunus.backends.torch.recalibrate import recalibrate as computed

                return computed(model, recalibrate)

        self._apply = apply
        self.build = Builder(cuts, self._applied, anew)
        self._open = ExitStack()

    def __enter__(self) -> TorchLaboratory:
        self._open.enter_context(evaluating(self._traced.whole))
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def verify(self, cut: Cut) -> None:
        """Compare the cut model with the blinded original; the result is thrown away."""
        self._apply(cut, verify=True)

    def _applied(self, cut: Cut) -> nn.Module:
        # Where `forward` holds a number, a module that runs need not be right.
        model: nn.Module = self._apply(cut, verify=held_by_code(cut.resizes)).model
        return model

    def original(self) -> nn.Module:
        """Return a copy of the whole model, in evaluation mode."""
        return evaluation_mode(copied(self._traced.whole, {}))

    def meter(self, evaluation: Evaluation, *, precision: str | None, memory: int) -> TorchMeter:
        """Return what reads a metric off these models.

        Args:
            evaluation: The data and the metric.
            precision: A name of `PRECISIONS`; None is the model's own.
            memory: Bytes that may be taken beside what a run of the model takes.
        """
        if precision is not None and precision not in PRECISIONS:
            raise PrunusError(
                f"there is no precision {precision!r}",
                fix=f"leave it out, or choose one of {', '.join(PRECISIONS)}",
            )
        if precision is not None and self._recalibrated:
            raise PrunusError(
                f"recalibrated models run in their own precision, and not in {precision}",
                fix="leave out precision= or recalibrate=",
            )
        narrow = None if precision is None else PRECISIONS[precision]
        swift = None
        if not self._recalibrated:  # statistics of its own are no smaller weights
            swift = Swift(
                lambda: self.sweep(memory // 2),
                self._traced.part,
                self._part_of,
                precision=narrow,
                room=memory // 2,
                batches=length_of(evaluation) or 1,
            )
        caller = Caller(self._traced, evaluation)
        return TorchMeter(
            self._traced.whole, evaluation, caller, self.build, swift, exact=narrow is None
        )

    def estimate(self, evaluation: Evaluation, *, seed: int) -> dict[Key, float]:
        """Return a guess at the rise of the loss for each cut, from gradients."""
        model = self.original()
        caller = Caller(replace(self._traced, whole=model, part=self._inside(model)), evaluation)
        stored, _ = stored_tensors(self._inside(model), self._traced.inner.prefix)
        for one in model.parameters():
            one.requires_grad_(one.is_floating_point())
        meter = TorchMeter(model, evaluation, caller, self.build, None)

        def loss(make: Callable[[], Any]) -> torch.Tensor:
            batch = make()
            with torch.enable_grad():
                return mean_loss(evaluation, caller.output(model, batch), batch)

        batches = meter.shuffled(seed, SIZE)[:BATCHES]
        return first_look(stored, self._cuts, [partial(loss, make) for make in batches])

    def sweep(self, room: int) -> Sweep:
        """Return the traced part as a program, and every cut of it."""
        traced, prefix = self._traced, self._traced.inner.prefix
        part = trace(traced.part, traced.example, prefix=prefix, any_batch=True, functional=True)
        channels = close(part.graph, self._rules, traced.pinned)
        program = program_of(part)
        variants = {
            key: variant_of(program, cut_of(channels, same_sets(cut, channels)))
            for key, cut in self._cuts.items()
        }
        return Sweep(program, variants, room)

    def _part_of(self, key: Key) -> nn.Module:
        return self._inside(self.build(key))

    def _inside(self, model: nn.Module) -> nn.Module:
        """Return the part of a whole model that was traced."""
        prefix = self._traced.inner.prefix.removesuffix(".")
        return model.get_submodule(prefix) if prefix else model


def fingerprint(model: nn.Module) -> str:
    """Return a hash of a model's tensors, by name, shape and content."""
    total = hashlib.sha256()
    for name, tensor in sorted(stored_tensors(model)[0].items()):
        total.update(f"{name}{tensor.dtype}{tuple(tensor.shape)}".encode())
        if not tensor.is_meta:
            flat = tensor.detach().cpu().contiguous().reshape(-1)
            total.update(flat.view(torch.uint8).numpy().tobytes())
    return total.hexdigest()

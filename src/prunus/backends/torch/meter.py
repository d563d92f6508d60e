"""Read a metric off a PyTorch model and its cuts, batch by batch.

What can be computed as a program runs as one (`swift.py`). Everything else runs as
whole, really cut models, as in the naive loop; and so does a batch in which rounding
might decide a class.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils._pytree import tree_leaves, tree_map

from prunus.backends.torch.caller import Caller
from prunus.backends.torch.metrics import PerSample, StateMetric, TopK, metric_of
from prunus.backends.torch.shuffle import shuffled
from prunus.backends.torch.swift import Swift
from prunus.core.engine.evaluation import Evaluation, batches_of, length_of, target_of
from prunus.core.engine.meter import Readings, Scores
from prunus.core.errors import EvaluationError
from prunus.core.study.cells import Key

__all__ = ["TorchMeter"]

_ROUNDING = 30.0
"""A class that is decided by less than this many times the rounding seen is asked again."""

_UNHEARD = (
    "whole models ran, which is slower, for what was traced is called more than once a batch, or "
    "its weights or layers are used beside it"
)

Take = Callable[[Key | None, Any, Callable[[], nn.Module]], None]
"""Takes the output of a cut, or of the original, and what makes the plain model."""


class TorchMeter:
    """The really cut models of one table, in one or several runs over the data."""

    def __init__(
        self,
        whole: nn.Module,
        evaluation: Evaluation,
        caller: Caller,
        build: Callable[[Key], nn.Module],
        swift: Swift | None,
        *,
        exact: bool = True,
    ) -> None:
        """Prepare; nothing runs yet.

        Args:
            whole: The user's model.
            evaluation: The data and the metric.
            caller: How a batch becomes a call of the traced part.
            build: Makes the whole model, really cut.
            swift: The program; None where whole models are to run.
            exact: See to it that no rounding decides a class.
        """
        self.evaluation = evaluation
        self.metric = metric_of(evaluation)
        self.per_sample = not isinstance(self.metric, StateMetric)
        self._whole, self._caller, self._build, self._swift = whole, caller, build, swift
        self._exact = exact and swift is not None
        self._device = next((one.device for one in whole.parameters()), torch.device("cpu"))
        self._notes: list[str] = []

    @property
    def notes(self) -> tuple[str, ...]:
        """Return what the user should know about what ran."""
        return (*self._notes, *(() if self._swift is None else self._swift.notes))

    # The data.

    @property
    def length(self) -> int | None:
        """Return how many batches there are, if the data tells."""
        return length_of(self.evaluation)

    def batches(self) -> Iterator[Any]:
        """Go through the data once."""
        empty = True
        for batch in batches_of(self.evaluation):
            empty = False
            yield self._moved(batch)
        if empty:
            raise EvaluationError(
                "the data has no batch",
                fix="give batches that can be gone through again: a list, a loader, or the "
                "generator function itself, without calling it",
            )

    def shuffled(self, seed: int, size: int) -> Sequence[Callable[[], Any]]:
        """Return the data in random order, as functions that make a batch of `size` samples."""

        def moved(make: Callable[[], Any]) -> Any:
            return self._moved(make())

        return [partial(moved, make) for make in shuffled(self.evaluation, seed, size)]

    def digest(self, batch: Any) -> str:
        """Return a fingerprint of the tensors and numbers in a batch."""
        total = hashlib.sha256()
        for leaf in tree_leaves(batch):
            if isinstance(leaf, torch.Tensor):
                total.update(f"{leaf.dtype}{tuple(leaf.shape)}".encode())
                plain = leaf.detach().cpu().contiguous().reshape(-1)
                total.update(plain.view(torch.uint8).numpy().tobytes())
            elif isinstance(leaf, np.ndarray):
                total.update(f"{leaf.dtype}{leaf.shape}".encode() + leaf.tobytes())
            else:  # of an object without words of its own, its address is no content
                words = re.sub("0x[0-9a-f]+", "", repr(leaf))
                total.update(words.encode("utf-8", "replace"))
        return total.hexdigest()

    def _moved(self, batch: Any) -> Any:
        if self.evaluation.forward is not None:
            return batch  # whoever calls the model knows where it is

        def to(value: Any) -> Any:
            return value.to(self._device) if isinstance(value, torch.Tensor) else value

        return tree_map(to, batch)

    # Reading.

    def read(self, batch: Any, keys: Sequence[Key]) -> Readings:
        """Return what every sample of a batch scores, in the original and in each cut."""
        metric = self.metric
        assert not isinstance(metric, StateMetric)  # noqa: S101  (`per_sample` says so)
        scores: dict[Key | None, Scores] = {}

        def take(key: Key | None, output: Any, model: Callable[[], nn.Module]) -> None:
            scores[key] = self._sure(metric, output, batch, model)

        with torch.no_grad():
            failures = self._each(batch, keys, take)
        own = {key: found for key, found in scores.items() if key is not None}
        return Readings(scores[None], own, failures)

    def read_all(self, keys: Sequence[Key]) -> tuple[float, Mapping[Key, float | str], int]:
        """Go through all the data with an object metric."""
        metric = self.metric
        assert isinstance(metric, StateMetric)  # noqa: S101  (`per_sample` says so)
        states = {key: metric.fresh() for key in (None, *keys)}
        failures: dict[Key, str] = {}
        samples = 0
        with torch.no_grad():
            for batch in self.batches():
                samples += _count(self.evaluation, batch)

                def take(key: Key | None, output: Any, _: Any, batch: Any = batch) -> None:
                    metric.update(states[key], output, batch)

                alive = [key for key in keys if key not in failures]
                failures |= self._each(batch, alive, take)
        values: dict[Key, float | str] = {
            key: failures[key] if key in failures else metric.value(states[key]) for key in keys
        }
        return metric.value(states[None]), values, samples

    def _sure(
        self, metric: PerSample, output: Any, batch: Any, model: Callable[[], nn.Module]
    ) -> Scores:
        """Return the scores; where rounding could decide one, those of the plain model."""
        # Other scores move by rounding as outputs do; a class is decided, one way or the other.
        if self._exact and self._swift is not None and isinstance(metric, TopK):
            tolerance = _ROUNDING * self._swift.rounding
            if metric.unsure(output, batch, tolerance):
                output = self._caller.output(model(), batch)
        return metric.scores(output, batch)

    def _each(self, batch: Any, keys: Sequence[Key], take: Take) -> dict[Key, str]:
        """Give the output of the original and of each cut to `take`; return what failed."""
        call, output = self._heard(batch)
        rest = list(keys)
        if call is None and self._swift is not None and not self._notes:
            self._notes.append(_UNHEARD)
        if call is not None and self._swift is not None:
            unplayed: list[Key] = []

            def give(key: Key, result: Any) -> None:
                try:
                    output = self._caller.replay(batch, result)
                except Exception:  # whatever it is, the really cut model tells
                    unplayed.append(key)
                    return
                take(key, output, lambda: self._build(key))

            whole, rest = self._swift.run(call, keys, give)
            rest = [*rest, *unplayed]
            if output is None and whole is not None:
                output = self._caller.replay(batch, whole)
        if output is None:
            output = self._caller.output(self._whole, batch)
        take(None, output, lambda: self._whole)
        found = {key: self._slowly(batch, key, take) for key in rest}
        return {key: why for key, why in found.items() if why}

    def _slowly(self, batch: Any, key: Key, take: Take) -> str:
        """Run a really cut model; return why it fails, if it does."""
        try:
            model = self._build(key)
            output = self._caller.output(model, batch)
        except Exception as error:  # the user's own forward may raise anything
            return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
        take(key, output, lambda: model)
        return ""

    def _heard(self, batch: Any) -> tuple[Any, Any]:
        """Return what the traced part is called with, and the output where it is known by now."""
        if self._caller.plain:
            return self._caller.heard(batch), None
        return self._caller.listen(batch)


def _count(evaluation: Evaluation, batch: Any) -> int:
    target = target_of(evaluation, batch)
    if isinstance(target, list | tuple):
        return len(target)  # one of whatever a sample, as for detectors
    tensors = [one for one in tree_leaves(batch) if isinstance(one, torch.Tensor) and one.ndim]
    return len(tensors[0]) if tensors else 1

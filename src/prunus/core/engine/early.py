"""Adaptive mode: samples in random order, and cells that stop when enough is known of them."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from prunus.core.engine.adaptive import Adaptive, Result
from prunus.core.engine.evaluation import Evaluation
from prunus.core.engine.exact import settle
from prunus.core.engine.meter import Meter, Scores
from prunus.core.engine.report import Clock, Listener, Losses
from prunus.core.errors import EvaluationError
from prunus.core.study.cells import BOUNDED, FAILED, Cell, Key
from prunus.core.study.store import Store

__all__ = ["bounds_of", "measure_early"]

SIZE = 100
"""Samples a batch: after each, cells may stop."""


def measure_early(
    meter: Meter,
    store: Store,
    keys: Sequence[Key],
    listener: Listener | None,
    *,
    width: float | None,
    budget: float | None,
    bounds: tuple[float, float] | None,
    seed: int = 0,
) -> None:
    """Measure cells until each interval is narrow enough, or clear of the budget.

    Args:
        meter: Reads the metric.
        store: Where everything goes.
        keys: The cells to decide on.
        listener: Is told how far it has come.
        width: Half the width of an interval, as a relative loss.
        budget: The relative loss that would be accepted.
        bounds: The smallest and largest score of a sample.
        seed: Of the order of the samples.
    """
    if not meter.per_sample or bounds is None:
        raise EvaluationError(
            "to stop early with a guarantee, the metric must be one score a sample, between "
            "known bounds",
            fix='use "top1" or "top5", or pass Evaluation(..., bounds=(smallest, largest)) with a '
            "function that returns one score a sample; or leave adaptive= and budget= out",
        )
    _Early(meter, store, listener, seed).run(keys, width, budget, bounds)


def bounds_of(evaluation: Evaluation) -> tuple[float, float] | None:
    """Return between which numbers every score lies, if that is known."""
    if evaluation.bounds is None and isinstance(evaluation.metric, str):
        return (0.0, 1.0)
    return evaluation.bounds


class _Early:
    """One run over the head of the data, as far as each cell needs it."""

    def __init__(self, meter: Meter, store: Store, listener: Listener | None, seed: int) -> None:
        self.meter, self.store, self.listener = meter, store, listener
        self.order = f"random order {seed}, {SIZE} samples a batch"
        self.batches: Sequence[Callable[[], Any]] = meter.shuffled(seed, SIZE)
        higher = store.header.identity.higher_is_better
        self.sign = 1.0 if higher else -1.0
        self.losses = Losses(higher)

    def run(
        self,
        keys: Sequence[Key],
        width: float | None,
        budget: float | None,
        bounds: tuple[float, float],
    ) -> None:
        baseline = self._baseline()
        whole = np.concatenate(baseline)
        settle(self.store, float(whole.mean()), len(whole))
        self.losses.add(None, whole)
        spread = bounds[1] - bounds[0]
        counts: dict[str, list[int]] = {}
        for key in keys:
            counts.setdefault(key.group, []).append(key.removed)
        policy = Adaptive(
            counts,
            len(whole),
            float(whole.mean()),
            width=width,
            budget=budget,
            bounds=(-spread, spread),
        )
        self._replay(policy, keys, baseline)
        self._measure(policy, len(keys), baseline)
        self.store.add(_cell(one, float(whole.mean()), self.sign) for one in policy.finished())

    def _baseline(self) -> list[Scores]:
        """Return what every sample scores in the whole model; it is measured once."""
        known = self.store.batches(self.order)
        clock = Clock("baseline", "batches", len(self.batches), self.losses, self.listener)
        found = []
        for position, make in enumerate(self.batches):
            row = known.get(position)
            if row is not None and row.baseline is not None:
                clock.skip()
                found.append(row.baseline)
                continue
            batch = make()
            scores = self.meter.read(batch, []).baseline
            self.store.put_batch(self.order, position, self.meter.digest(batch), scores, {})
            found.append(scores)
            clock.advance(len(scores))
        return found

    def _replay(self, policy: Adaptive, keys: Iterable[Key], baseline: Sequence[Scores]) -> None:
        for key in keys:
            stored = self.store.scores(self.order, key)
            for position in range(len(stored)):
                if position not in stored:
                    break
                self._observe(policy, [key], baseline[position], [stored[position]])

    def _measure(self, policy: Adaptive, cells: int, baseline: Sequence[Scores]) -> None:
        clock = Clock("measuring", "cells", cells, self.losses, self.listener)
        finished = 0
        while active := policy.active():
            position = policy.position(active[0]) // SIZE
            batch = self.batches[position]()
            readings = self.meter.read(batch, active)
            with self.store.transaction():
                digest = self.meter.digest(batch)
                self.store.put_batch(self.order, position, digest, None, readings.scores)
                for key, why in readings.failures.items():
                    self.store.add([Cell(*key, FAILED, None, note=why or "it failed")])
                    policy.fail(key)
            read = [key for key in active if key in readings.scores]
            if read:
                scores = [readings.scores[key] for key in read]
                self._observe(policy, read, baseline[position], scores)
            done = sum(1 for _ in policy.finished())
            for _ in range(done - finished):
                clock.advance(len(readings.baseline) * len(read) / (done - finished))
            finished = max(done, finished)

    def _observe(
        self, policy: Adaptive, keys: Sequence[Key], own: Scores, scores: Sequence[Scores]
    ) -> None:
        policy.observe(keys, np.stack([self.sign * (own - one) for one in scores]))
        for key, one in zip(keys, scores, strict=True):
            self.losses.add(key, one)


def _cell(result: Result, baseline: float, sign: float) -> Cell:
    """Return what is known of a cell in units of the metric."""
    ends = [baseline - sign * loss * abs(baseline) for loss in (result.low, result.high)]
    low, high = min(ends), max(ends)
    note = f"{result.undefined} samples scored no finite number" if result.undefined else ""
    metric = None
    if result.kind != BOUNDED and result.estimate is not None:
        metric = baseline - sign * result.estimate * abs(baseline)
    return Cell(
        *result.key,
        result.kind,
        metric,
        result.samples,
        low,
        high,
        host=socket.gethostname(),
        note=note,
    )

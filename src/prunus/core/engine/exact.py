"""Exact mode: every sample is seen by every cell, and the data is read once.

The outer loop is over batches, the inner one over cells. After each batch, what its
samples scored is in the study, so that a kill costs one batch.
"""

from __future__ import annotations

import math
import socket
import time
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any

import numpy as np

from prunus.core.engine.meter import Meter
from prunus.core.engine.report import Clock, Listener, Losses
from prunus.core.errors import EvaluationError, StudyConflictError
from prunus.core.study.cells import EXACT, FAILED, Cell, Key
from prunus.core.study.store import Store

__all__ = ["ORDER", "measure_each", "measure_samples", "measure_states", "settle"]

ORDER = "in order"
"""What the study calls the data's own order."""


def measure_samples(
    meter: Meter, store: Store, keys: Sequence[Key], listener: Listener | None
) -> None:
    """Measure cells whose metric is a mean over samples, and the baseline with them."""
    seen, known = store.progress(ORDER), store.batches(ORDER)
    losses = _losses(store)
    clock = Clock("measuring", "batches", meter.length, losses, listener)
    alive = list(keys)
    batches, seconds = 0, 0.0
    for position, batch in enumerate(meter.batches()):
        batches += 1
        missing = [key for key in alive if position not in seen.get(key, ())]
        own = known[position].baseline if position in known else None
        if own is not None and not missing:
            store.put_batch(ORDER, position, meter.digest(batch), None, {})  # is it still the same?
            clock.skip()
            continue
        started = time.perf_counter()
        readings = meter.read(batch, missing)
        digest = meter.digest(batch)
        with store.transaction():
            store.put_batch(ORDER, position, digest, readings.baseline, readings.scores)
            store.add(_failed(key, why) for key, why in readings.failures.items())
        seconds += time.perf_counter() - started
        alive = [key for key in alive if key not in readings.failures]
        losses.add(None, readings.baseline)
        for key, scores in readings.scores.items():
            losses.add(key, scores)
        clock.advance(len(readings.baseline) * (1 + len(missing)))
    _finish(store, alive, batches, seconds)


def measure_states(
    meter: Meter, store: Store, keys: Sequence[Key], listener: Listener | None
) -> None:
    """Measure cells with a metric that is an object: one run over the data a group.

    Its state cannot be kept half-way, so that a kill costs one group, not all of them.
    """
    losses = _losses(store)
    clock = Clock("measuring", "cells", len(keys), losses, listener)
    if not keys and store.baseline is None:
        value, _, samples = meter.read_all([])
        settle(store, value, samples)
    for _, own in groupby(keys, key=lambda key: key.group):
        some = list(own)
        started = time.perf_counter()
        whole, values, samples = meter.read_all(some)
        each = (time.perf_counter() - started) / len(some)
        losses.put(None, whole)
        with store.transaction():
            settle(store, whole, samples)
            for key in _left(store, some):
                found = values[key]
                if isinstance(found, str):
                    store.add([_failed(key, found)])
                else:
                    store.add([_exact(key, found, samples, each)])
                    losses.put(key, found)
        for _ in some:
            clock.advance(1)


def measure_each(
    evaluate: Callable[[Any], float],
    original: Callable[[], Any],
    build: Callable[[Key], Any],
    store: Store,
    keys: Sequence[Key],
    listener: Listener | None,
) -> None:
    """Measure with a user's own function: one whole evaluation a cell, the seeds' way."""
    losses = _losses(store)
    if store.baseline is None:
        store.set_baseline(_number(evaluate(original())))
    if store.baseline is not None:
        losses.put(None, store.baseline.metric)
    clock = Clock("measuring", "cells", len(keys), losses, listener)
    for key in keys:
        started = time.perf_counter()
        try:
            model = build(key)
        except Exception as error:  # whatever the framework says of a cut model
            store.add([_failed(key, _told(error))])
            clock.advance(1)
            continue
        metric = _number(evaluate(model))
        store.add([_exact(key, metric, 0, time.perf_counter() - started)])
        losses.put(key, metric)
        clock.advance(1)


def settle(store: Store, baseline: float, samples: int) -> None:
    """Write the baseline; where it differs from what is there by rounding only, that stays.

    Another order of the samples, or other cells beside, may round it in another way.
    """
    known = store.baseline
    if known is None or not math.isclose(known.metric, baseline, rel_tol=1e-6, abs_tol=1e-9):
        store.set_baseline(baseline, samples)


def _losses(store: Store) -> Losses:
    return Losses(store.header.identity.higher_is_better)


def _number(value: object) -> float:
    try:
        return float(value)  # type: ignore[arg-type]
    except (ArithmeticError, RuntimeError, TypeError, ValueError):
        raise EvaluationError(
            f"evaluate returned {value!r:.60}, which is no number",
            fix="return one number, such as float(accuracy); where it returns several, pick one",
        ) from None


def _left(store: Store, keys: Sequence[Key]) -> list[Key]:
    """Return the cells that no other process has finished meanwhile."""
    known = store.cells()
    return [key for key in keys if key not in known or known[key].kind != EXACT]


def _finish(store: Store, keys: Sequence[Key], batches: int, seconds: float) -> None:
    """Write the baseline, and the cells of which every batch is there."""
    with store.transaction():
        known = store.batches(ORDER)
        # What is written counts: where two processes have read a batch, the first one's.
        rows = [known[position].baseline for position in range(batches)]
        whole = np.concatenate([scores for scores in rows if scores is not None])
        if not len(whole):
            raise EvaluationError("the data has no sample", fix="give batches with samples in them")
        settle(store, float(whole.mean()), len(whole))
        left = _left(store, keys)
        share = seconds / max(1, len(left))
        store.add([_finished(store, key, batches, len(whole), share) for key in left])


def _finished(store: Store, key: Key, batches: int, samples: int, seconds: float) -> Cell:
    """Return the cell of which every batch is there."""
    parts = store.scores(ORDER, key)
    scores = np.concatenate([parts[position] for position in range(batches)])
    if len(scores) != samples:
        raise StudyConflictError(
            f"{key} was measured on {len(scores)} samples, and the data has {samples}",
            fix="the data changed between two runs: give the same data, or begin a new study",
        )
    return _exact(key, float(scores.mean()), samples, seconds)


def _exact(key: Key, metric: float, samples: int, seconds: float) -> Cell:
    return Cell(*key, EXACT, metric, samples, seconds=seconds, host=socket.gethostname())


def _failed(key: Key, why: str) -> Cell:
    return Cell(*key, FAILED, None, note=why or "it failed", host=socket.gethostname())


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"

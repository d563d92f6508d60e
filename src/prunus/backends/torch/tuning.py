"""How a program runs quickest on this machine: memory order, and how the batch is parted.

Decided by a few timed runs of the first batch, which are little beside the many that
follow. None of it changes more than rounding.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from prunus.backends.torch.program import Program
from prunus.backends.torch.sweep import Give, Sweep
from prunus.core.study.cells import Key

__all__ = ["Tuning", "apart", "laid_out", "run", "tune"]

SLICES = (64, 32, 16)
"""Sizes to try: a few hundred kilobytes an activation lie in a core's own cache."""


@dataclass(frozen=True, slots=True)
class Tuning:
    """How to run."""

    channels_last: bool = False
    size: int | None = None
    """Samples a slice; None runs a batch whole."""
    threads: int = 1


def tune(program: Program, values: Mapping[str, Any]) -> Tuning:
    """Return the quickest way to run the program on a call like this one."""
    devices = {one.device.type for one in program.weights.values()}
    if devices == {"cuda"}:
        # Slices are for caches, and tensor cores want their channels last.
        program.to(None, channels_last=True)
        return Tuning(channels_last=True)
    if devices != {"cpu"}:
        return Tuning()
    best, quickest = Tuning(), float("inf")
    whole = program.run(values)
    for channels_last in (False, True):
        program.to(None, channels_last)
        own = laid_out(values, channels_last)
        for tuning in _candidates(values, channels_last):
            sweep = Sweep(program, {}, 0)
            if tuning.size is not None and not _alike(sweep, own, tuning, whole):
                continue
            seconds = _seconds(sweep, own, tuning)
            if seconds < quickest:
                best, quickest = tuning, seconds
    program.to(None, best.channels_last)
    return best


def run(
    sweep: Sweep, values: Mapping[str, Any], keys: Sequence[Key], give: Give, tuning: Tuning
) -> Any:
    """Run a call as it was found to be quickest."""
    if tuning.size is None:
        return sweep.run(values, keys, give)
    return sweep.run_sliced(values, keys, give, tuning.size, tuning.threads)


def _nobody(_: Key, result: Any) -> None:
    del result


def _candidates(values: Mapping[str, Any], channels_last: bool) -> Iterator[Tuning]:
    yield Tuning(channels_last)
    lengths = {len(one) if one.ndim else 0 for one in _tensors(values)}
    if len(lengths) == 1:  # else there is no telling what is a batch
        (count,) = lengths
        threads = torch.get_num_threads()
        for size in SLICES:
            if size < count:
                yield Tuning(channels_last, size, threads)


def _alike(sweep: Sweep, values: Mapping[str, Any], tuning: Tuning, whole: Any) -> bool:
    """Tell whether slices give what the whole gives: some models mix the samples of a batch."""
    try:
        parted = run(sweep, values, [], _nobody, tuning)
    except (RuntimeError, ValueError):
        return False
    return apart(parted, whole) < 1e-4


def _seconds(sweep: Sweep, values: Mapping[str, Any], tuning: Tuning) -> float:
    best = float("inf")
    for _ in range(2):
        start = time.perf_counter()
        run(sweep, values, [], _nobody, tuning)
        best = min(best, time.perf_counter() - start)
    return best


def laid_out(values: Mapping[str, Any], channels_last: bool) -> dict[str, Any]:
    """Return a call with its pictures in the order that the program runs in."""
    order = torch.channels_last if channels_last else torch.contiguous_format
    return {
        name: one.contiguous(memory_format=order)
        if isinstance(one, torch.Tensor) and one.ndim == 4
        else one
        for name, one in values.items()
    }


def apart(one: Any, other: Any) -> float:
    """Return the largest difference of two results, relative to the largest value in them."""
    pairs = list(zip(_tensors(one), _tensors(other), strict=False))
    if len(_tensors(one)) != len(_tensors(other)):
        return float("inf")
    worst = 0.0
    for a, b in pairs:
        if a.shape != b.shape:
            return float("inf")
        if not a.is_floating_point():
            worst = max(worst, 0.0 if torch.equal(a, b) else float("inf"))
            continue
        scale = float(b.abs().max()) if b.numel() else 0.0
        off = float((a.double() - b.double()).abs().max()) if a.numel() else 0.0
        worst = max(worst, float("inf") if math.isnan(off) else off / (scale or 1.0))
    return worst


def _tensors(values: Any) -> list[torch.Tensor]:
    return [one for one in tree_leaves(values) if isinstance(one, torch.Tensor)]

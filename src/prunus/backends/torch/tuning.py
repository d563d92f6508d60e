"""How a program runs quickest on this machine: memory order, and how the batch is parted.

Decided by a few timed runs of the first batch, which are little beside the many that
follow. None of it changes more than rounding.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from prunus.backends.torch.program import Program, Step
from prunus.backends.torch.sweep import Give, Sweep
from prunus.core.study.cells import Key

__all__ = ["Tuning", "apart", "run", "tune"]

SLICES = (128, 64, 32)
"""Sizes to try: a few hundred kilobytes an activation lie in a core's own cache."""


@dataclass(frozen=True, slots=True)
class Tuning:
    """How to run a batch."""

    size: int | None = None
    """Samples a slice; None runs a batch whole."""
    threads: int = 1


def tune(program: Program, values: Mapping[str, Any]) -> Tuning:
    """Lay the program's weights out, and return the quickest way to run a call like this one."""
    devices = {one.device.type for one in program.weights.values()}
    if devices == {"cuda"}:
        for _, name in program.kernels():  # tensor cores want their channels last
            program.order(name, channels_last=True)
    if devices != {"cpu"}:
        return Tuning()  # slices are for caches
    whole = _order_kernels(program, values)
    sweep = Sweep(program, {}, 0)
    best, quickest = Tuning(), _seconds(sweep, values, Tuning())
    for tuning in _candidates(values):
        if _alike(sweep, values, tuning, whole):
            seconds = _seconds(sweep, values, tuning)
            if seconds < quickest:
                best, quickest = tuning, seconds
    return best


def _order_kernels(program: Program, values: Mapping[str, Any]) -> Any:
    """Give each convolution the order of channels in which it is quicker; return the result."""
    names = {step.name: name for step, name in program.kernels()}
    made = dict(values)
    for step in program.steps:
        if step.name in names:
            seconds = {last: _seconds_of(step, program, names[step.name], made, last)
                       for last in (False, True)}  # fmt: skip
            program.order(names[step.name], channels_last=seconds[True] < seconds[False])
        made[step.name] = step(made, program.weights)
    return program.result(made)


def _seconds_of(
    step: Step, program: Program, name: str, made: Mapping[str, Any], channels_last: bool
) -> float:
    program.order(name, channels_last=channels_last)
    # What the processors do, and not how long it takes: others may be at work beside us.
    return _quickest(lambda: step(made, program.weights), time.process_time)


def _quickest(work: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    best = float("inf")
    for _ in range(2):
        start = clock()
        work()
        best = min(best, clock() - start)
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


def _candidates(values: Mapping[str, Any]) -> Iterator[Tuning]:
    lengths = {len(one) if one.ndim else 0 for one in _tensors(values)}
    if len(lengths) == 1:  # else there is no telling what is a batch
        (count,) = lengths
        threads = torch.get_num_threads()
        for most in SLICES:
            # As many slices for each thread, and all alike: none waits for another.
            rounds = -(-count // (most * threads))
            size = -(-count // (rounds * threads))
            if size < count:
                yield Tuning(size, threads)


def _alike(sweep: Sweep, values: Mapping[str, Any], tuning: Tuning, whole: Any) -> bool:
    """Tell whether slices give what the whole gives: some models mix the samples of a batch."""
    try:
        parted = run(sweep, values, [], _nobody, tuning)
    except (RuntimeError, ValueError):
        return False
    return apart(parted, whole) < 1e-4


def _seconds(sweep: Sweep, values: Mapping[str, Any], tuning: Tuning) -> float:
    return _quickest(lambda: run(sweep, values, [], _nobody, tuning))


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

"""How long a call takes: the median of many, and the half of them around it.

What is compared takes turns, so that another program's load falls on all of it alike.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from prunus.core.errors import MissingExtraError

__all__ = ["Latency", "in_turns", "onnx_call", "summary"]

Key = TypeVar("Key")

_WARM_UP = 5
"""Rounds that are not counted: caches are cold, and some kernels are chosen by trial."""
_FEWEST = 5
"""Rounds that are measured even where they take long."""


@dataclass(frozen=True)
class Latency:
    """Seconds of one call."""

    runtime: str
    device: str
    threads: int
    median: float
    low: float
    """A quarter of the calls was quicker."""
    high: float
    """A quarter of the calls was slower."""
    runs: int


def in_turns(
    calls: Mapping[Key, Callable[[], object]],
    *,
    runs: int = 50,
    seconds: float = 10.0,
) -> dict[Key, list[float]]:
    """Return how long each call took, each time; the calls take turns.

    Args:
        calls: What to measure, by name.
        runs: How often at most.
        seconds: How long in all, about; slow calls are measured fewer times, but five.
    """
    taken: dict[Key, list[float]] = {key: [] for key in calls}
    for _ in range(_WARM_UP):
        for call in calls.values():
            call()
    start = time.perf_counter()
    for done in range(runs):
        if done >= _FEWEST and time.perf_counter() - start > seconds:
            break
        for key, call in calls.items():
            before = time.perf_counter()
            call()
            taken[key].append(time.perf_counter() - before)
    return taken


def summary(taken: list[float], runtime: str, device: str, threads: int) -> Latency:
    """Return what there is to tell of some measurements."""
    low, median, high = (float(one) for one in np.percentile(taken, (25, 50, 75)))
    return Latency(runtime, device, threads, median, low, high, len(taken))


def onnx_call(path: str | Path, inputs: list[Any], threads: int) -> Callable[[], object]:
    """Return a call of an ONNX file in ONNX Runtime, on the CPU.

    Args:
        path: The file.
        inputs: NumPy arrays, in the order of the file's inputs.
        threads: How many to compute with.
    """
    try:
        import onnxruntime
    except ImportError as error:
        raise MissingExtraError(
            "the latency of an ONNX file needs 'onnxruntime', which is not installed",
            fix="pip install 'prunus[onnx]'",
        ) from error
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 3
    # Threads that wait by spinning would take the time of the others, whose turn it is.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    names = [one.name for one in session.get_inputs()]
    feeds = dict(zip(names, inputs, strict=True))
    return lambda: session.run(None, feeds)

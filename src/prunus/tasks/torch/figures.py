"""What there is to tell of models side by side: numbers, and nothing of how they look."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn

from prunus.backends.torch.backend import TorchBackend
from prunus.core.engine.evaluation import Evaluation
from prunus.core.errors import PrunusError
from prunus.core.graph.costs import macs
from prunus.core.results import Cost
from prunus.tasks.latency import Latency
from prunus.tasks.torch.evaluate import evaluate
from prunus.tasks.torch.latency import RUNTIMES, latencies
from prunus.tasks.torch.weights import weights_size

__all__ = ["Figures", "figures"]


@dataclass(frozen=True)
class Figures:
    """One model in numbers."""

    file_bytes: int
    """Of its weights alone, as safetensors."""
    numel: int
    """Parameters."""
    macs: int | None
    """Multiply-adds of one run on the example."""
    latency: Mapping[str, Latency]
    """Of one image, by runtime."""
    metric: float | None
    """None where no data was given."""
    missing: Mapping[str, str]
    """What could not be measured ("macs", or a runtime), and why."""


def figures(
    models: Sequence[nn.Module],
    example: Any,
    *,
    costs: Sequence[Cost] | None = None,
    evaluation: Evaluation | None = None,
    runtimes: Sequence[str] = RUNTIMES,
    runs: int = 50,
    seconds: float = 10.0,
    threads: int | None = None,
    progress: Callable[[int, int | None], None] | None = None,
) -> tuple[Figures, ...]:
    """Return the figures of models, such as one before and after a cut; all are left as they are.

    Args:
        models: The models.
        example: What they are traced on; the latency is that of its first image.
        costs: Multiply-adds by model, such as `(pruned.before, pruned.after)`, where they
            are known; else the models are traced.
        evaluation: What they are judged by, if they are.
        runtimes: Those of `latencies`, like the next three.
        runs: How often each is called, at most.
        seconds: How long the latencies take in all, about.
        threads: How many to compute with on a CPU.
        progress: Told of each batch of the evaluation, counted over all models.
    """
    timed = latencies(
        models, example, runtimes=runtimes, runs=runs, seconds=seconds, threads=threads
    )
    found = []
    for number, model in enumerate(models):
        missing = {key: one for key, one in timed[number].items() if isinstance(one, str)}
        count: int | None = None
        try:
            count = costs[number].macs if costs is not None else _macs(model, example)
        except PrunusError as error:
            missing["macs"] = error.problem
        found.append(
            Figures(
                file_bytes=weights_size(model),
                numel=sum(one.numel() for one in model.parameters()),
                macs=count,
                latency={k: one for k, one in timed[number].items() if isinstance(one, Latency)},
                metric=_metric(model, evaluation, number, len(models), progress),
                missing=missing,
            )
        )
    return tuple(found)


def _macs(model: nn.Module, example: Any) -> int:
    return macs(TorchBackend().trace(model, example).graph)


def _metric(
    model: nn.Module,
    evaluation: Evaluation | None,
    number: int,
    models: int,
    progress: Callable[[int, int | None], None] | None,
) -> float | None:
    if evaluation is None:
        return None

    def done(count: int, total: int | None) -> None:
        if progress is not None:
            progress(count + number * (total or 0), None if total is None else total * models)

    return evaluate(model, evaluation, progress=done)

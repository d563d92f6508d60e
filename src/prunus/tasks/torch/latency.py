"""How long models take for one image, in PyTorch and in ONNX Runtime."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_leaves, tree_map

from prunus.backends.torch.export import export_onnx
from prunus.backends.torch.trace import Example, as_example
from prunus.backends.torch.untouched import evaluating
from prunus.core.errors import EvaluationError, PrunusError, UnknownNameError, nearest
from prunus.tasks.latency import Latency, in_turns, onnx_call, summary
from prunus.tasks.models import short

__all__ = ["RUNTIMES", "latencies", "threads_set"]

RUNTIMES = ("torch", "onnxruntime")

Call = Callable[[], object]


def latencies(
    models: Sequence[nn.Module],
    example: Any,
    *,
    runtimes: Sequence[str] = RUNTIMES,
    runs: int = 50,
    seconds: float = 10.0,
    threads: int | None = None,
) -> tuple[dict[str, Latency | str], ...]:
    """Return, for each model, the latency of one image by runtime, or why there is none.

    All models and runtimes take turns.

    Args:
        models: Left as they are; they run in evaluation mode.
        example: What they are called on; the first image of it is taken.
        runtimes: "torch", where each model is, and "onnxruntime", on the CPU.
        runs: How often each is called, at most.
        seconds: How long it takes in all, about.
        threads: How many to compute with on a CPU; by default as many as PyTorch does now.
    """
    unknown = [name for name in runtimes if name not in RUNTIMES]
    if unknown:
        raise UnknownNameError(
            f"there is no runtime {unknown[0]!r}", fix=f"use {nearest(unknown[0], RUNTIMES)}"
        )
    threads = torch.get_num_threads() if threads is None else threads
    single = _first_of(as_example(example))
    found: list[dict[str, Latency | str]] = [{} for _ in models]
    calls: dict[tuple[int, str], Call] = {}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        stack.enter_context(threads_set(threads))
        stack.enter_context(torch.no_grad())
        for model in models:
            stack.enter_context(evaluating(model))
        for number, model in enumerate(models):
            for runtime in runtimes:
                try:
                    calls[number, runtime] = (
                        _torch_call(model, single)
                        if runtime == "torch"
                        else _onnx_call(model, single, folder / f"{number}.onnx", threads)
                    )
                except PrunusError as error:
                    found[number][runtime] = f"{error.problem} ({error.fix})"
        for (number, runtime), taken in in_turns(calls, runs=runs, seconds=seconds).items():
            device = _device(models[number]) if runtime == "torch" else "cpu"
            found[number][runtime] = summary(taken, runtime, device, threads)
    return tuple(found)


@contextlib.contextmanager
def threads_set(count: int) -> Iterator[None]:
    """Let PyTorch compute with so many threads, and go back to as many as before."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _device(model: nn.Module) -> str:
    return str(next((one.device for one in model.parameters()), "cpu"))


def _first_of(example: Example) -> Example:
    """Return the call for the first image of a batch."""
    tensors = [one for one in tree_leaves((example.args, example.kwargs)) if _has_batch(one)]
    batch = len(tensors[0]) if tensors else 1

    def first(value: Any) -> Any:
        return value[:1] if _has_batch(value) and len(value) == batch else value

    return Example(tree_map(first, example.args), tree_map(first, example.kwargs))


def _has_batch(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.ndim > 0


def _torch_call(model: nn.Module, given: Example) -> Call:
    try:
        given.call(model)
    except Exception as error:  # the user's own forward may raise anything
        raise EvaluationError(
            f"the model does not run on one image: {short(error)}",
            fix="pass an example that the model accepts",
        ) from error
    if not _device(model).startswith("cuda"):
        return lambda: given.call(model)

    def call() -> None:
        given.call(model)
        torch.cuda.synchronize()  # else only the asking is measured, and not the answer

    return call


def _onnx_call(model: nn.Module, given: Example, path: Path, threads: int) -> Call:
    export_onnx(model, given, path)
    inputs = [
        one.cpu().numpy()
        for one in tree_leaves((given.args, given.kwargs))
        if isinstance(one, torch.Tensor)
    ]
    return onnx_call(path, inputs, threads)

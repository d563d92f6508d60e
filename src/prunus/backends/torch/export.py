"""Models as files that run elsewhere: ONNX, and archives of `torch.export`.

What was written is read back and run on inputs that nobody has seen, beside the model
itself; a file that computes something else never takes its name.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.export import ExportedProgram
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

from prunus.backends.torch.trace import Example, as_example, program_of, quiet
from prunus.backends.torch.untouched import evaluating
from prunus.core.errors import ExportError, MissingExtraError, PrunusError, TraceError
from prunus.core.files import whole_file

__all__ = ["Exported", "export_archive", "export_onnx"]

_NEEDED = ("onnx", "onnxscript", "onnxruntime")
_BATCHES = (1, 3)
"""Sizes to check a file with that takes any batch."""
_ON_BATCH = "a number in the model depends on the batch size of the example"


@dataclass(frozen=True)
class Exported:
    """A file that was written and checked."""

    path: Path
    format: str
    """"onnx" or "torch.export"."""
    size: int
    """Bytes."""
    error: float
    """The largest difference to the model, relative to its largest output."""
    any_batch: bool
    note: str
    """Why the batch size is fixed, where it is."""


def export_onnx(
    model: nn.Module, example: Any, path: str | Path, *, opset: int = 18, tolerance: float = 1e-3
) -> Exported:
    """Write a model as ONNX, for any batch size where it can be, and check it in ONNX Runtime.

    Args:
        model: A module; it is left as it is, and exported as it is in evaluation.
        example: A tensor, a tuple of arguments, or a dict of keywords.
        path: The file; the weights are in it.
        opset: The version of ONNX's operators.
        tolerance: How far the outputs may differ, relative to the largest.
    """
    _need_onnx(path)
    program, note = _program(model, example)

    def write(part: Path) -> None:
        with quiet():
            made = torch.onnx.export(program, dynamo=True, opset_version=opset, verbose=False)
            if made is None:
                raise RuntimeError("torch.onnx.export returned nothing")
            made.save(part, external_data=False)

    return _written(model, program, Path(path), "onnx", note, tolerance, write, _onnx_runner)


def export_archive(
    model: nn.Module, example: Any, path: str | Path, *, tolerance: float = 1e-3
) -> Exported:
    """Write a model as an archive of `torch.export` (.pt2), and check it by loading it again.

    The arguments are those of `export_onnx`.
    """
    program, note = _program(model, example)

    def write(part: Path) -> None:
        content = io.BytesIO()
        with quiet():
            torch.export.save(program, content)
        part.write_bytes(content.getbuffer())

    return _written(
        model, program, Path(path), "torch.export", note, tolerance, write, _archive_runner
    )


def _need_onnx(path: str | Path) -> None:
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        raise MissingExtraError(
            f"{str(path)!r} cannot be written as ONNX without {', '.join(map(repr, missing))}",
            fix="pip install 'prunus[onnx]'",
        )


def _program(model: nn.Module, example: Any) -> tuple[ExportedProgram, str]:
    """Export for any batch size, or else for that of the example, with the reason."""
    given = as_example(example)
    note = ""
    try:
        program = program_of(model, given, any_batch=True)
    except TraceError as error:
        note = error.problem
    else:
        note = _why_fixed(model, program)
        if not note:
            return program, ""
    try:
        return program_of(model, given, any_batch=False), note
    except TraceError as error:
        raise ExportError(
            f"the model cannot be exported: {error.problem}",
            fix="pass an example that the model accepts, and make the line that is named "
            "independent of the values in tensors",
        ) from error


def _why_fixed(model: nn.Module, program: ExportedProgram) -> str:
    """Return why a program does not take any batch size, though it was asked to; else nothing.

    A length that seems to be free may yet be fixed by a guard.
    """
    if not _free_inputs(program):
        return _ON_BATCH
    with quiet():
        exported = program.module()
    for batch in _BATCHES:
        given = _fresh(program, batch, seed=batch)
        try:
            with torch.no_grad(), evaluating(model):
                given.call(model)
        except Exception as error:  # the user's own forward may raise anything
            return f"the model does not run on a batch of {batch}: {_first_line(error)}"
        try:
            with torch.no_grad(), quiet():
                given.call(exported)
        except Exception:  # guards raise whatever comes to their minds
            return _ON_BATCH
    return ""


def _inputs(program: ExportedProgram) -> dict[str, Any]:
    """Return what each input of the program was when it was exported, by name."""
    flat, _ = tree_flatten(program.example_inputs)
    names = [node.name for node in program.graph.nodes if node.op == "placeholder"]
    # The weights come first among the placeholders.
    return dict(zip(names[len(names) - len(flat) :], flat, strict=True))


def _free_inputs(program: ExportedProgram) -> set[str]:
    """Return the inputs whose first axis may have any length."""
    return {
        node.name
        for node in program.graph.nodes
        if node.op == "placeholder"
        and isinstance(node.meta.get("val"), torch.Tensor)
        and node.meta["val"].ndim
        and isinstance(node.meta["val"].shape[0], torch.SymInt)
    }


def _fresh(program: ExportedProgram, batch: int, seed: int) -> Example:
    """Return other inputs than the example: random where they are real numbers."""
    generator = torch.Generator().manual_seed(seed)
    free = _free_inputs(program)
    flat = []
    for name, value in _inputs(program).items():
        if isinstance(value, torch.Tensor):
            shape = (batch, *value.shape[1:]) if name in free else value.shape
            if value.is_floating_point():
                drawn = torch.rand(shape, generator=generator)
                flat.append(drawn.to(value.device, value.dtype))
            else:  # numbers that count something may not be just any
                flat.append(value[:1].expand(shape).clone() if name in free else value)
        else:
            flat.append(value)
    _, form = tree_flatten(program.example_inputs)
    args, kwargs = tree_unflatten(flat, form)
    return Example(args, kwargs)


Runner = Callable[[Example], list[torch.Tensor]]


def _written(
    model: nn.Module,
    program: ExportedProgram,
    path: Path,
    kind: str,
    note: str,
    tolerance: float,
    write: Callable[[Path], None],
    runner: Callable[[Path], Runner],
) -> Exported:
    """Write the file, and let it have its name once it has computed what the model does."""
    any_batch = bool(_free_inputs(program))
    with whole_file(path) as part:
        try:
            write(part)
            run = runner(part)
            sizes = _BATCHES if any_batch else (0,)
            worst = max(_difference(model, program, run, size) for size in sizes)
        except (PrunusError, OSError):
            raise
        except Exception as error:  # exporters raise whatever comes to their minds
            raise ExportError(
                f"the model cannot be written as {kind}: {_first_line(error)}",
                fix="replace the operator that is named, or export in the other format",
            ) from error
        if not worst <= tolerance:
            raise ExportError(
                f"the {kind} file computes something else than the model: the outputs differ by "
                f"{worst:.2g} of the largest, and {tolerance:g} is allowed",
                fix="export in single precision (model.float()), or pass a larger tolerance=",
            )
    return Exported(path, kind, path.stat().st_size, worst, any_batch, note)


def _first_line(error: Exception) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0].strip()}" if lines else type(error).__name__


def _difference(model: nn.Module, program: ExportedProgram, run: Runner, batch: int) -> float:
    """Return the largest difference on fresh inputs, relative to the largest output."""
    given = _fresh(program, batch, seed=batch)
    with torch.no_grad(), evaluating(model):
        expected = [one for one in tree_leaves(given.call(model)) if isinstance(one, torch.Tensor)]
    found = run(given)
    if len(found) != len(expected):
        raise ExportError(
            f"the file gives {len(found)} outputs, and the model {len(expected)}",
            fix="let the model return tensors only",
        )
    return max((_gap(one, other) for one, other in zip(found, expected, strict=True)), default=0.0)


def _gap(found: torch.Tensor, expected: torch.Tensor) -> float:
    found, expected = found.detach().cpu().double(), expected.cpu().double()
    if found.shape != expected.shape or not torch.equal(found.isfinite(), expected.isfinite()):
        return float("inf")
    sure = expected.isfinite()
    if not bool(sure.any()):
        return 0.0
    gap, scale = (found - expected)[sure].abs().max(), expected[sure].abs().max()
    return float(gap / scale if scale else gap)


def _onnx_runner(path: Path) -> Runner:
    import onnx
    import onnxruntime

    onnx.checker.check_model(str(path))
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])

    def run(given: Example) -> list[torch.Tensor]:
        tensors = [
            one for one in tree_leaves((given.args, given.kwargs)) if isinstance(one, torch.Tensor)
        ]
        names = [one.name for one in session.get_inputs()]
        feeds = {name: one.cpu().numpy() for name, one in zip(names, tensors, strict=True)}
        return [torch.as_tensor(one) for one in session.run(None, feeds)]

    return run


def _archive_runner(path: Path) -> Runner:
    with quiet():
        again = torch.export.load(path).module()

    def run(given: Example) -> list[torch.Tensor]:
        with torch.no_grad():
            found = given.call(again)
        return [one for one in tree_leaves(found) if isinstance(one, torch.Tensor)]

    return run

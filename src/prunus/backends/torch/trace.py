"""A PyTorch model on an example input: exported, and lowered to the neutral graph."""

from __future__ import annotations

import contextlib
import inspect
import io
import logging
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.export import Dim, ExportedProgram, export
from torch.nn.parameter import is_lazy
from torch.utils._pytree import tree_map

from prunus.backends.torch.lower import joined, lower
from prunus.backends.torch.tidy import tidy, writes_into_views
from prunus.backends.torch.untouched import evaluating
from prunus.backends.torch.vocabulary import VOCABULARY
from prunus.core.errors import TraceError
from prunus.core.graph.ir import Graph

__all__ = [
    "Example",
    "TorchTrace",
    "TracedModel",
    "as_example",
    "program_of",
    "quiet",
    "stored_tensors",
    "trace",
]


@dataclass(frozen=True)
class Example:
    """The arguments of one call."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def call(self, model: nn.Module) -> Any:
        """Call `model` with these arguments."""
        return model(*self.args, **self.kwargs)


@dataclass(frozen=True)
class TorchTrace:
    """An exported program, its neutral graph, and the model's tensors by canonical name."""

    program: ExportedProgram
    graph: Graph
    stored: Mapping[str, torch.Tensor]
    aliases: Mapping[str, str]
    """Every name of a tensor, tied ones included, to its canonical one."""
    prefix: str = ""
    """Where the traced module sits in the user's model, with a dot behind; names begin with it."""
    branches: bool = False
    """Whether `graph` also holds what runs in training only."""

    def name_of(self, target: str | None) -> str:
        """Return the canonical name of what export calls `target`."""
        full = f"{self.prefix}{target}"
        return self.aliases.get(full, full)


@dataclass(frozen=True)
class TracedModel:
    """The user's model, the part of it that was traced, and the call that was traced."""

    whole: nn.Module
    part: nn.Module
    example: Example
    inner: TorchTrace
    pinned: Mapping[str, str] = field(default_factory=dict)

    @property
    def graph(self) -> Graph:
        """Return the neutral graph."""
        return self.inner.graph


def as_example(example: Any) -> Example:
    """Read an example: a tensor, a tuple of arguments, or a dict of keywords."""
    if isinstance(example, Example):
        return example
    if isinstance(example, Mapping):
        return Example((), dict(example))
    if isinstance(example, tuple):
        return Example(example, {})
    return Example((example,), {})


def stored_tensors(
    model: nn.Module, prefix: str = ""
) -> tuple[dict[str, torch.Tensor], dict[str, str]]:
    """Return parameters and buffers by canonical name, and the canonical name of every name."""
    first: dict[int, str] = {}
    stored: dict[str, torch.Tensor] = {}
    aliases: dict[str, str] = {}
    named = [
        *model.named_parameters(remove_duplicate=False),
        *model.named_buffers(remove_duplicate=False),
    ]
    for name, tensor in named:
        canonical = first.setdefault(id(tensor), prefix + name)
        aliases[prefix + name] = canonical
        stored.setdefault(canonical, tensor)
    return stored, aliases


def trace(
    model: nn.Module,
    example: Example,
    *,
    prefix: str = "",
    any_batch: bool = False,
    functional: bool = False,
) -> TorchTrace:
    """Trace `model` on `example`; with `any_batch`, for every batch size.

    In `functional` form nothing is written to: each operator makes a new value.
    """
    _check_built(model)
    _check_devices(model, example)
    stored, aliases = stored_tensors(model, prefix)

    def name_of(target: str) -> str:
        return aliases.get(prefix + target, prefix + target)

    program = _program(model, example, any_batch=any_batch, functional=functional)
    graph = lower(program, VOCABULARY, name_of, stored)
    branches = False
    if _waits(model, graph, name_of):
        with contextlib.suppress(TraceError):  # training may ask for more, such as targets
            training = _program(
                model, example, any_batch=any_batch, functional=functional, branches=True
            )
            graph = joined(graph, lower(training, VOCABULARY, name_of, stored))
            branches = True
    return TorchTrace(program, graph, stored, aliases, prefix, branches)


def _program(
    model: nn.Module,
    example: Example,
    *,
    any_batch: bool,
    functional: bool,
    branches: bool = False,
) -> ExportedProgram:
    with evaluating(model, branches=branches), torch.no_grad(), quiet():
        program = _export(model, example, any_batch=any_batch)
        if functional or writes_into_views(program):
            # A write into a slice becomes a value that a rule can speak of.
            program = program.run_decompositions({})
        tidy(program)
    return program


def _waits(model: nn.Module, graph: Graph, name_of: Callable[[str], str]) -> bool:
    """Tell whether a weight takes no part in evaluation: it may wait for training."""
    read = {name for node in graph.nodes for name in node.reads()}
    return any(name_of(name) not in read for name, _ in model.named_parameters())


def program_of(model: nn.Module, example: Example, *, any_batch: bool) -> ExportedProgram:
    """Export `model` as it is in evaluation; with `any_batch`, for every batch size."""
    _check_built(model)
    _check_devices(model, example)
    with evaluating(model), torch.no_grad(), quiet():
        return _export(model, example, any_batch=any_batch)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep to ourselves what export says: where it fails, it prints the whole graph so far."""
    level = logging.root.manager.disable
    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        logging.disable(max(level, logging.CRITICAL))
        try:
            yield
        finally:
            logging.disable(level)


def _export(model: nn.Module, example: Example, *, any_batch: bool) -> ExportedProgram:
    if not any_batch:
        return _exported(model, example, None)
    attempts = _doublings(example)
    for attempt in attempts[:-1]:
        with contextlib.suppress(TraceError):  # the model may not take such an example
            return _exported(model, attempt, _free_batch(model, attempt))
    return _exported(model, attempts[-1], _free_batch(model, attempts[-1]))


def _exported(
    model: nn.Module, example: Example, dynamic: dict[str, Any] | None
) -> ExportedProgram:
    # One tensor given twice would be traced as one argument, which another call need not repeat.
    example = Example(_map(example.args, torch.clone), _map(example.kwargs, torch.clone))
    try:
        return export(model, example.args, example.kwargs, strict=False, dynamic_shapes=dynamic)
    except Exception as error:
        _explain(model, example, error)
        raise


def _doublings(example: Example) -> list[Example]:
    """Return the example with its batch twice over, for export takes a length of 1 for a constant.

    An axis of length 1 may be there to be broadcast, so the second guess doubles the
    first tensor only, and the last none.
    """
    tensors = [one for one in _tensors((example.args, example.kwargs)) if one.ndim]
    if not tensors or len(tensors[0]) != 1:
        return [example]

    def doubled(some: list[torch.Tensor]) -> Example:
        chosen = {id(one) for one in some if len(one) == 1}

        def twice(tensor: torch.Tensor) -> torch.Tensor:
            return torch.cat([tensor, tensor]) if id(tensor) in chosen else tensor

        return Example(_map(example.args, twice), _map(example.kwargs, twice))

    return [doubled(tensors), doubled(tensors[:1]), example]


def _free_batch(model: nn.Module, example: Example) -> dict[str, Any]:
    """Return, by parameter of `forward`, that the first axis of each tensor may have any length."""

    def free(value: Any) -> Any:
        return {0: Dim.AUTO} if isinstance(value, torch.Tensor) and value.ndim else None

    parameters = inspect.signature(model.forward).parameters
    found: dict[str, Any] = {}
    rest = [tree_map(free, one) for one in example.args]
    for name, parameter in parameters.items():
        if rest and parameter.kind is parameter.VAR_POSITIONAL:
            found[name], rest = tuple(rest), []
        elif rest:
            found[name] = rest.pop(0)
        elif name in example.kwargs:
            found[name] = tree_map(free, example.kwargs[name])
    loose = sorted(set(example.kwargs) - set(parameters))
    if loose:
        raise TraceError(
            f"a number in `forward` must change with the cut, and {loose[0]!r} reaches it through "
            "**, where torch.export knows no free batch size",
            fix=f"give `forward` a parameter of the name {loose[0]!r}, or hold the number in self",
        )
    return found


def _map(value: Any, function: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return function(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_map(one, function) for one in value))
    if isinstance(value, list | tuple):
        return type(value)(_map(one, function) for one in value)
    if isinstance(value, Mapping):
        return {key: _map(one, function) for key, one in value.items()}
    return value


def _check_built(model: nn.Module) -> None:
    for name, part in model.named_modules():
        if isinstance(part, torch.jit.ScriptModule):
            raise TraceError(
                f"{f'{name!r}' if name else 'the model'} is a TorchScript module, of which only "
                "compiled code is left to trace",
                fix="pass the nn.Module that it was scripted or traced from",
            )
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        if is_lazy(tensor):
            raise TraceError(
                f"{name!r} has no shape yet, for its lazy layer has not run",
                fix="run the model once on the example: model(example)",
            )


def _check_devices(model: nn.Module, example: Example) -> None:
    homes = {tensor.device.type for tensor in model.parameters()}
    guests = {tensor.device.type for tensor in _tensors((example.args, example.kwargs))}
    if homes and guests and not guests <= homes:
        raise TraceError(
            f"the model is on {_words(homes)} and the example is on {_words(guests)}",
            fix=f"move the example to the model: example.to({sorted(homes)[0]!r})",
        )


def _words(devices: set[str]) -> str:
    return " and ".join(repr(device) for device in sorted(devices))


def _tensors(value: Any) -> list[torch.Tensor]:
    found: list[torch.Tensor] = []
    _map(value, found.append)
    return found


def _explain(model: nn.Module, example: Example, error: Exception) -> None:
    """Raise a `TraceError` that tells the user's own mistake from a model that cannot be traced."""
    try:
        example.call(model)
    except Exception as own:
        raise TraceError(
            f"the model does not run on this example: {type(own).__name__}: {_first_line(own)}",
            fix="pass an example the model accepts: a tensor, a tuple of arguments, "
            "or a dict of keywords",
        ) from own
    raise TraceError(
        f"the model runs, but cannot be traced: {_first_line(error)}{_place(error)}",
        fix='name a sub-module that can be traced, such as prune(..., within="backbone"), '
        "or make that line independent of the values in the tensors",
    ) from error


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _place(error: Exception) -> str:
    """Return the last line of the user's code in the traceback."""
    frame, place = error.__traceback__, ""
    while frame is not None:
        code = frame.tb_frame.f_code
        own = f"{torch.__path__[0]}/"
        if not code.co_filename.startswith((own, "<")) and "prunus" not in code.co_filename:
            place = f" (at {code.co_filename}:{frame.tb_lineno}, in {code.co_name})"
        frame = frame.tb_next
    return place

"""Run the user's model on a batch, with the traced part played by somebody else.

A `forward` of the user's, or the rest of a detector around its backbone, runs as it is;
only the traced part is a stand-in. It first listens, to learn what the part is called
with; then it answers with what a program has computed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_map

from prunus.backends.torch.edit import copied
from prunus.backends.torch.trace import Example, TracedModel, stored_tensors
from prunus.core.engine.evaluation import Evaluation, inputs_of

__all__ = ["Caller"]

_NO_INPUT = ("target", "targets", "label", "labels", "y")


class Caller:
    """Knows how a batch becomes a call of the traced part, and the part's result an output."""

    def __init__(self, traced: TracedModel, evaluation: Evaluation) -> None:
        self.evaluation = evaluation
        self.whole, self.part = traced.whole, traced.part
        self.plain = evaluation.forward is None and self.part is self.whole
        self.stand_in = _StandIn(self.part)
        self.listener = self._around()

    def _around(self) -> nn.Module:
        """Return the whole model, its tensors shared, with the stand-in in the part's place."""
        if self.part is self.whole:
            return self.stand_in
        memo: dict[int, Any] = {id(one): one for one in stored_tensors(self.whole)[0].values()}
        memo[id(self.part)] = self.stand_in
        return copied(self.whole, memo)

    def output(self, model: nn.Module, batch: Any) -> Any:
        """Return the output of a real model on a batch."""
        if self.evaluation.forward is not None:
            return self.evaluation.forward(model, batch)
        call = _call(batch)
        return call.call(model)

    def listen(self, batch: Any) -> tuple[Example | None, Any]:
        """Return what the part is called with, and the output of the original.

        No call where it is not called exactly once, or used in other ways.
        """
        if self.plain:
            call = _call(batch)
            return call, call.call(self.whole)
        self.stand_in.listen()
        output = self.output(self.listener, batch)
        heard = self.stand_in.calls
        return (heard[0] if len(heard) == 1 and not self.stand_in.touched else None), output

    def replay(self, batch: Any, result: Any) -> Any:
        """Return the output of the whole, where the part answers `result`."""
        if self.plain:
            return result
        self.stand_in.answer(result)
        return self.output(self.listener, batch)

    def heard(self, batch: Any) -> Example | None:
        """Return what the part is called with, without the original's output where that costs."""
        return _call(batch) if self.plain else self.listen(batch)[0]


def _call(batch: Any) -> Example:
    given = inputs_of(batch)
    if isinstance(given, Mapping):
        return Example((), {key: one for key, one in given.items() if key not in _NO_INPUT})
    return Example(tuple(given) if isinstance(given, list | tuple) else (given,), {})


class _StandIn(nn.Module):
    """Listens to calls of a module, or answers them with what it was given."""

    def __init__(self, part: nn.Module) -> None:
        super().__init__()
        vars(self)["part"] = part  # no sub-module: whoever walks over us must not find it
        self.calls: list[Example] = []
        self.answers: list[Any] | None = None
        self.touched = False
        self.training = False

    def listen(self) -> None:
        self.calls, self.answers, self.touched = [], None, False

    def answer(self, result: Any) -> None:
        self.answers = [result]

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        if self.answers is not None:
            return self.answers.pop()
        self.calls.append(Example(tree_map(_same, args), tree_map(_same, kwargs)))
        return vars(self)["part"](*args, **kwargs)

    def named_parameters(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, nn.Parameter]]:
        # Who asks for the first only wants to know its device or its type.
        for k, pair in enumerate(vars(self)["part"].named_parameters(*args, **kwargs)):
            self.touched |= k > 0
            yield pair

    def __getattr__(self, name: str) -> Any:
        value = getattr(vars(self)["part"], name)
        # A weight or layer that is used beside `forward` would be the original's.
        if isinstance(value, nn.Module | torch.Tensor):
            self.touched = True
        return value


def _same(value: Any) -> Any:
    # A detector may write into what it passed on; what was heard must not change with it.
    return value.detach().clone() if isinstance(value, torch.Tensor) else value

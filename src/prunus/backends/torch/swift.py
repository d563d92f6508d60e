"""The traced part of a model and its cuts, as one checked program.

A program is used for a cut only after it has computed, on real data, what the really
cut model does. What it cannot do is left to whole models, and said.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_leaves

from prunus.backends.torch.sweep import Give, Sweep
from prunus.backends.torch.trace import Example
from prunus.backends.torch.tuning import Tuning, apart, run, tune
from prunus.core.study.cells import Key

__all__ = ["Swift"]

_WORTH_TUNING = 100
"""Tuning takes about as long as twenty runs of a batch, each cut's being half of one or so."""
_FEW = 8
"""Fewer cuts than this do not pay for one more run of the original."""
_WRONG = 1e-3
"""A program that is off by more than this, relative to the largest output, is not used."""


Values = Mapping[str, Any]


class Swift:
    """Runs calls of one model's part through all of its cuts."""

    def __init__(
        self,
        make: Callable[[], Sweep],
        part: nn.Module,
        part_of: Callable[[Key], nn.Module],
        *,
        precision: torch.dtype | None,
        room: int,
        batches: int,
    ) -> None:
        """Prepare; the program is made when the first call is there.

        Args:
            make: Makes the program and its variants.
            part: The original's traced part.
            part_of: Makes the part of a really cut model.
            precision: A narrower type to compute in.
            room: Bytes that the results of a batch may take together.
            batches: About how many will come.
        """
        self.rounding = 1e-6
        """The largest relative difference to plain models that was seen."""
        self.notes: list[str] = []
        """What the user should know about what ran."""
        self._make, self._part, self._part_of = make, part, part_of
        self._precision, self._room, self._batches = precision, room, batches
        self._tuning: Tuning | None = None
        self._sweep: Sweep | None = None
        self._bytes_a_sample = 0.0
        self._right: dict[str, bool] = {}
        """For each group that was checked, whether its program is used."""

    def run(self, call: Example, keys: Sequence[Key], give: Give) -> tuple[Any, list[Key]]:
        """Give each cut's result for a call; return the original's, and what was not done.

        The original's result is None where the program could not take the call.
        """
        if self._tuning is None:
            self._begin(call)
        values = self._values(call)
        if values is None or self._sweep is None or self._tuning is None:
            return None, list(keys)
        self._check(call, values, keys)
        able = [key for key in keys if self._right.get(key.group)]
        failed: list[Key] = []

        def sort(key: Key, result: Any) -> None:
            if isinstance(result, Exception):
                failed.append(key)
                self._fall_back(key, f"its program fails: {result}")
            else:
                give(key, result)

        whole = self._run(self._sweep, self._tuning, values, able, sort)
        rest = [key for key in keys if key not in set(able)]
        return whole, [*rest, *failed]

    def _run(
        self, sweep: Sweep, tuning: Tuning, values: Values, keys: Sequence[Key], give: Give
    ) -> Any:
        portions = self._portions(values, keys)
        if tuning.size is None or len(portions) * _FEW > len(keys):
            return sweep.run(values, keys, give)
        return [run(sweep, values, some, give, tuning) for some in portions][-1]

    def _fall_back(self, key: Key, why: str) -> None:
        """Measure a group with whole models from now on, and say so once."""
        if self._right.get(key.group, True):
            self.notes.append(f"{key.group!r} was measured with whole models: {why}")
        self._right[key.group] = False

    def _values(self, call: Example) -> dict[str, Any] | None:
        if self._sweep is None or self._tuning is None:
            return None
        values = self._sweep.program.read(call.args, call.kwargs)
        if values is None:
            return None
        return _cast(values, self._precision)

    def _portions(self, values: Mapping[str, Any], keys: Sequence[Key]) -> list[Sequence[Key]]:
        """Return the cuts that may go through in slices together.

        Slices hold the results and the weights of all their cuts at once, and each
        portion costs one more run of the original.
        """
        assert self._sweep is not None  # noqa: S101  (the caller looked)
        samples = max(len(one) for one in values.values() if isinstance(one, torch.Tensor))
        result = round(self._bytes_a_sample * samples)
        portions: list[list[Key]] = [[]]
        taken = 0
        for key in keys:
            size = result + self._sweep.weights.bytes_of(key)
            if portions[-1] and taken + size > self._room:
                portions.append([])
                taken = 0
            portions[-1].append(key)
            taken += size
        return [*portions]

    def _begin(self, call: Example) -> None:
        """Make the program, see that it computes what the part does, and how it runs quickest."""
        self._tuning = Tuning()
        try:
            sweep = self._make()
            values = sweep.program.read(call.args, call.kwargs)
            if values is None:
                self._give_up("its calls are laid out in another way than the example")
                return
            expected = call.call(self._part)
            off = apart(sweep.program.run(values), expected)
        except Exception as error:  # an exporter's or operator's own error, whatever its class
            self._give_up(f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}")
            return
        if not off <= _WRONG:
            self._give_up(f"it is off by {off:.1g} on the first batch")
            return
        self.rounding = max(self.rounding, off)
        tensors = [one for one in tree_leaves(expected) if isinstance(one, torch.Tensor)]
        samples = max((len(one) for one in tensors if one.ndim), default=1)
        self._bytes_a_sample = sum(one.nbytes for one in tensors) / max(1, samples)
        if self._precision is not None:
            sweep.program.cast(self._precision)
        if len(sweep.variants) * self._batches > _WORTH_TUNING:
            self._tuning = tune(sweep.program, _cast(values, self._precision))
        self._sweep = sweep

    def _give_up(self, why: str) -> None:
        slower = "which is slower"
        if self._precision is not None:
            slower += " and in the model's own precision"
        self.notes.append(f"whole models ran, {slower}, for the program cannot be used: {why}")

    def _check(self, call: Example, values: Mapping[str, Any], keys: Sequence[Key]) -> None:
        """Compare the largest cut of each new group with the really cut model."""
        assert self._sweep is not None  # noqa: S101  (the caller looked)
        largest = {key.group: key for key in sorted(keys, key=lambda key: key.removed)}
        for group, key in largest.items():
            if group not in self._right:
                self._right[group] = True
                why = self._doubt(call, values, key)
                if why:
                    self._fall_back(key, why)

    def _doubt(self, call: Example, values: Values, key: Key) -> str:
        """Return why the program of a cut cannot be used; nothing where it can."""
        assert self._sweep is not None  # noqa: S101  (the caller looked)
        found: list[Any] = []
        try:
            expected = call.call(self._part_of(key))
            self._sweep.run(values, [key], lambda _, result: found.append(result))
            off = apart(found[0], expected)
        except Exception as error:  # the user's own forward may raise anything
            return str(error)
        if self._precision is not None and off < float("inf"):
            return ""
        if not off <= _WRONG:
            return f"its program is off by {off:.1g}"
        self.rounding = max(self.rounding, off)
        return ""


def _cast(values: Mapping[str, Any], precision: torch.dtype | None) -> dict[str, Any]:
    return {
        name: one.to(precision)
        if precision is not None and isinstance(one, torch.Tensor) and one.is_floating_point()
        else one
        for name, one in values.items()
    }

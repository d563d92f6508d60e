"""Run one call through the original and, from where they part, through many cuts of it.

The original runs once, step by step. As soon as all that a cut reads is there, its own
steps run, so that what the original has made is let go as early as in a plain run. On a
CPU the batch goes through in slices that fit its caches, one slice a thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

from prunus.backends.torch.program import Program
from prunus.backends.torch.variant import Variant, smaller
from prunus.core.study.cells import Key

__all__ = ["Give", "Sweep", "WeightCache", "slices_of"]

Values = Mapping[str, Any]


Give = Callable[[Key, Any], None]
"""Takes the result of a cut, or the exception that stands in its place."""


class WeightCache:
    """The smaller weights of each cut, made when needed and kept while there is room."""

    def __init__(self, program: Program, variants: Mapping[Key, Variant], room: int) -> None:
        self.program, self.variants = program, variants
        self.room = room
        """Bytes."""
        self._made: dict[Key, dict[str, torch.Tensor]] = {}
        self._bytes = 0

    def bytes_of(self, key: Key) -> int:
        """Return what the weights of a cut take."""
        shrunk = self.variants[key].weights.items()
        return sum(_bytes_left(self.program.weights[name], kept) for name, kept in shrunk)

    def of(self, key: Key) -> Mapping[str, torch.Tensor]:
        """Return all weights that a cut's steps may read."""
        own = self._made.get(key)
        if own is None:
            own = {
                name: _as_laid_out(smaller(self.program.weights[name], kept), self.program, name)
                for name, kept in self.variants[key].weights.items()
            }
            size = sum(one.nbytes for one in own.values())
            # What came first stays: every batch asks in the same order, so that to forget
            # the oldest would be to forget everything just before it is asked for.
            if self._bytes + size <= self.room:
                self._made[key] = own
                self._bytes += size
        return {**self.program.weights, **own}


def _bytes_left(whole: torch.Tensor, kept: Mapping[int, torch.Tensor]) -> int:
    share = 1.0
    for axis, index in kept.items():
        share *= len(index) / whole.shape[axis]
    return round(whole.nbytes * share)


def _as_laid_out(small: torch.Tensor, program: Program, name: str) -> torch.Tensor:
    """Return a part of a weight in the order of the whole."""
    whole, last = program.weights[name], torch.channels_last
    ordered = whole.ndim == 4 and whole.is_contiguous(memory_format=last)
    return small.contiguous(memory_format=last) if ordered else small.contiguous()


class Sweep:
    """Runs a program and its variants on calls of any batch size."""

    def __init__(self, program: Program, variants: Mapping[Key, Variant], room: int) -> None:
        self.program, self.variants = program, variants
        self.weights = WeightCache(program, variants, room)

    def run(self, values: Values, keys: Sequence[Key], give: Give) -> Any:
        """Run a call; give each cut's result as soon as it is there, and return the original's."""
        return self._one(values, keys, self.weights.of, give)

    def run_sliced(
        self, values: Values, keys: Sequence[Key], give: Give, size: int, threads: int
    ) -> Any:
        """Do the same in slices of `size` samples, on some threads; all results come at the end."""
        slices = slices_of(values, size)
        weights = {key: self.weights.of(key) for key in keys}
        results: list[dict[Key, Any]] = [{} for _ in slices]

        def work(k: int) -> Any:
            return self._one(slices[k], keys, weights.__getitem__, results[k].__setitem__)

        wholes = _in_threads(work, len(slices), threads)
        for key in keys:
            column = [result[key] for result in results]
            failed = next((one for one in column if isinstance(one, Exception)), None)
            give(key, _joined(column) if failed is None else failed)
        return _joined(wholes)

    def _one(
        self,
        values: Values,
        keys: Sequence[Key],
        weights_of: Callable[[Key], Mapping[str, torch.Tensor]],
        give: Give,
    ) -> Any:
        program = self.program
        waiting = sorted(keys, key=lambda key: self.variants[key].due, reverse=True)
        last = _last_reads(program, [self.variants[key] for key in waiting])
        made = dict(values)
        for k in range(len(program.steps) + 1):
            while waiting and self.variants[waiting[-1]].due <= k:
                key = waiting.pop()
                try:
                    result = self.variants[key].run(program, made, weights_of(key))
                except RuntimeError as error:  # shapes that do not fit, or no memory
                    result = error
                give(key, result)
            for name in last.get(k, ()):
                made.pop(name, None)
            if k < len(program.steps):
                step = program.steps[k]
                made[step.name] = step(made, program.weights)
        return program.result(made)


def _last_reads(program: Program, variants: Iterable[Variant]) -> dict[int, list[str]]:
    """Return, for each number of finished steps, what nobody reads from then on."""
    last: dict[str, int] = {}
    for k, step in enumerate(program.steps):
        last.setdefault(step.name, k + 1)
        for name in step.values:
            last[name] = k + 1
    for variant in variants:
        for name in variant.reads:
            last[name] = max(last.get(name, 0), variant.due)
    for name in program.results():
        last.pop(name, None)
    found: dict[int, list[str]] = {}
    for name, k in last.items():
        found.setdefault(k, []).append(name)
    return found


def slices_of(values: Values, size: int) -> list[dict[str, Any]]:
    """Return a call as calls of `size` samples: every tensor is parted along its first axis."""
    count = max(len(one) for one in values.values() if isinstance(one, torch.Tensor))
    return [
        {
            name: one[start : start + size] if isinstance(one, torch.Tensor) else one
            for name, one in values.items()
        }
        for start in range(0, count, size)
    ]


def _joined(trees: Sequence[Any]) -> Any:
    leaves = [tree_leaves(tree) for tree in trees]
    joined = [
        torch.cat(column) if isinstance(column[0], torch.Tensor) else column[0]
        for column in zip(*leaves, strict=True)
    ]
    return tree_unflatten(joined, tree_flatten(trees[0])[1])


def _in_threads(work: Callable[[int], Any], jobs: int, threads: int) -> list[Any]:
    if min(jobs, threads) < 2:
        return [work(k) for k in range(jobs)]
    before = torch.get_num_threads()

    def alone(k: int) -> Any:
        # Settings of a thread, not of the process: gradients are on in a new one.
        torch.set_num_threads(1)
        with torch.no_grad():
            return work(k)

    try:
        with ThreadPoolExecutor(threads) as pool:
            return list(pool.map(alone, range(jobs)))
    finally:
        torch.set_num_threads(before)

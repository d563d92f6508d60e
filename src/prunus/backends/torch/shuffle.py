"""The data in random order, sample by sample, for whoever wants to stop early."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch.utils._pytree import TreeSpec, tree_flatten, tree_unflatten
from torch.utils.data import DataLoader, IterableDataset

from prunus.core.engine.evaluation import Evaluation, batches_of
from prunus.core.errors import EvaluationError

__all__ = ["shuffled"]

Make = Callable[[], Any]


def shuffled(evaluation: Evaluation, seed: int, size: int) -> list[Make]:
    """Return functions that make the batches of one random order, `size` samples each.

    A loader over a data set that can be asked for any sample is asked for just those;
    anything else is read once and kept.
    """
    source = evaluation.batches
    if (
        isinstance(source, DataLoader)
        and source.batch_sampler is not None  # else its data set gives whole batches
        and not isinstance(source.dataset, IterableDataset)
    ):
        return _from_loader(source, seed, size)
    return _from_batches(list(batches_of(evaluation)), seed, size)


def _order(count: int, seed: int, size: int) -> list[list[int]]:
    order = np.random.default_rng(seed).permutation(count).tolist()
    return [order[start : start + size] for start in range(0, count, size)]


def _from_loader(loader: DataLoader[Any], seed: int, size: int) -> list[Make]:
    dataset: Any = loader.dataset
    collate: Any = loader.collate_fn

    def make(rows: Sequence[int]) -> Any:
        return collate([dataset[row] for row in rows])

    # Samples that the loader would drop or repeat are not the data it gives.
    assert loader.batch_sampler is not None  # noqa: S101  (the caller looked)
    indices = sorted(row for batch in loader.batch_sampler for row in batch)
    if not indices:
        raise _no_batch()
    orders = _order(len(indices), seed, size)
    return [partial(make, [indices[k] for k in some]) for some in orders]


def _from_batches(batches: Sequence[Any], seed: int, size: int) -> list[Make]:
    columns, spec = _columns(batches)
    count = len(columns[0])

    def make(rows: torch.Tensor) -> Any:
        some = [column.index_select(0, rows.to(column.device)) for column in columns]
        return tree_unflatten(some, spec)

    return [partial(make, torch.tensor(rows)) for rows in _order(count, seed, size)]


def _columns(batches: Sequence[Any]) -> tuple[list[torch.Tensor], TreeSpec]:
    """Return the tensors of all batches, joined along their first axis, and how they lie."""
    if not batches:
        raise _no_batch()
    flat = [tree_flatten(batch) for batch in batches]
    spec = flat[0][1]
    for leaves, own in flat:
        lengths = {len(one) if isinstance(one, torch.Tensor) and one.ndim else -1 for one in leaves}
        if own != spec or len(lengths) != 1 or lengths == {-1}:
            raise EvaluationError(
                "samples cannot be picked out of these batches to read them in random order: "
                "they are not all tensors with one row a sample",
                fix="give a torch DataLoader over a data set with __getitem__, or leave adaptive= "
                "and budget= out",
            )
    columns = zip(*(leaves for leaves, _ in flat), strict=True)
    return [torch.cat(column) for column in columns], spec


def _no_batch() -> EvaluationError:
    return EvaluationError("the data has no batch", fix="give at least one batch")

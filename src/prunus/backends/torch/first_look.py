"""A guess at what every cut costs, from gradients: one look at a part of the data.

To remove a channel is to zero the weights that read it. To first order the loss then
changes by minus the product of those weights with their gradient, u; to second order, with
Fisher's estimate of the curvature, by half the mean of u squared over single samples. Gradients
come for a few samples at a time, whose variance tells that of a single one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from prunus.core.cut.cut import Cut
from prunus.core.graph.channels import Channels
from prunus.core.graph.ir import Dim
from prunus.core.study.cells import Key

__all__ = ["BATCHES", "SIZE", "first_look"]

SIZE = 16
"""Samples that share a gradient."""
BATCHES = 64
"""How many gradients are taken: with `SIZE`, about a thousand samples."""


def first_look(
    stored: Mapping[str, torch.Tensor],
    cuts: Mapping[Key, Cut],
    losses: Iterable[Callable[[], torch.Tensor]],
) -> dict[Key, float]:
    """Return the predicted rise of the loss for each cut.

    Args:
        stored: The model's tensors by canonical name; each parameter takes gradients.
        cuts: What goes in each cell.
        losses: Each computes the mean loss of `SIZE` samples.
    """
    if not cuts:
        return {}
    channels = next(iter(cuts.values())).channels
    dims = _reading(channels, stored)
    rows = []
    for loss in losses:
        value = loss()
        wanted = sorted({dim.tensor for dim in dims})
        found = torch.autograd.grad(value, [stored[name] for name in wanted], allow_unused=True)
        rows.append(_by_channel(channels, dims, stored, dict(zip(wanted, found, strict=True))))
    table = np.stack(rows)
    return {key: _rise(table[:, cut.gone].sum(axis=1)) for key, cut in cuts.items()}


def _rise(changes: NDArray[np.float64]) -> float:
    mean = float(changes.mean())
    return mean + 0.5 * (SIZE * float(changes.var()) + mean * mean)


def _reading(channels: Channels, stored: Mapping[str, torch.Tensor]) -> list[Dim]:
    """Return the axes of weights along which channels are read; where none is, made."""
    filters = set(channels.filters)
    matrices = [
        dim
        for dim in channels.sets
        if dim.tensor in stored
        and stored[dim.tensor].ndim > 1
        and isinstance(stored[dim.tensor], nn.Parameter)
    ]
    reads = [dim for dim in matrices if dim not in filters]
    covered = {int(one) for dim in reads for one in channels.sets[dim]}
    # A channel that no weight reads, as before a mean over all of them, counts where it is made.
    rest = [
        dim
        for dim in matrices
        if dim in filters and not covered.issuperset(channels.sets[dim].tolist())
    ]
    return [*reads, *rest]


def _by_channel(
    channels: Channels,
    dims: Iterable[Dim],
    stored: Mapping[str, torch.Tensor],
    gradients: Mapping[str, torch.Tensor | None],
) -> NDArray[np.float64]:
    change = np.zeros(channels.count)
    for dim in dims:
        gradient = gradients[dim.tensor]
        if gradient is None:
            continue
        product = (stored[dim.tensor].detach() * gradient).movedim(dim.axis, 0).flatten(1)
        np.subtract.at(change, channels.sets[dim], product.double().sum(1).cpu().numpy())
    return change

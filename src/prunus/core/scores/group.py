"""Scores of a group's channels, from the weights whose filters they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from prunus.core.errors import CriterionError
from prunus.core.graph.groups import Group
from prunus.core.graph.ir import Dim
from prunus.core.scores.criteria import CRITERIA, Array, Criterion, find_criterion, l1, taylor

__all__ = ["Weights", "scores_of"]


@dataclass(frozen=True)
class Weights:
    """How to read a weight and its gradient by name; a backend provides it."""

    value: Callable[[str], Array]
    gradient: Callable[[str], Array | None]


def scores_of(group: Group, criterion: str | Criterion, weights: Weights, seed: int = 0) -> Array:
    """Return one score for each of `group.sets`; the smallest go first.

    Every member weight is scored by itself and brought to mean 1, so that none
    outweighs the others by its scale; a channel's score is the mean over members.
    """
    if criterion == "random":
        return np.random.default_rng([seed, int(group.sets[0])]).random(group.size)
    if callable(criterion):
        own, dims = criterion, group.filters
        return _mean(group, dims, [own(_rows(weights.value, dim)) for dim in dims])
    find_criterion(criterion)
    if criterion == "bn_scale":
        scales = _scales(group)
        return _mean(group, scales, [l1(_rows(weights.value, dim)) for dim in scales])
    if criterion == "taylor":
        return _mean(group, group.filters, [_taylor(dim, weights) for dim in group.filters])
    function = CRITERIA[criterion]
    assert function is not None  # noqa: S101  (the three without one are handled above)
    return _mean(
        group, group.filters, [function(_rows(weights.value, dim)) for dim in group.filters]
    )


def _rows(read: Callable[[str], Array], dim: Dim) -> Array:
    rows = _filters(read(dim.tensor), dim)
    rows.flags.writeable = False  # a criterion looks; the numbers may be the model's own
    return rows


def _filters(values: Array, dim: Dim) -> Array:
    """Return an array with the filters in its rows; a complex number is two real ones."""
    rows = np.moveaxis(values, dim.axis, 0)
    return np.stack([rows.real, rows.imag], -1) if np.iscomplexobj(rows) else rows


def _taylor(dim: Dim, weights: Weights) -> Array:
    gradient = weights.gradient(dim.tensor)
    if gradient is None:
        raise CriterionError(
            f"criterion 'taylor' needs the gradient of {dim.tensor!r}, which has none",
            fix="run loss.backward() on the model before cutting, with requires_grad=True",
        )
    return taylor(_rows(weights.value, dim), _filters(gradient, dim))


def _scales(group: Group) -> Sequence[Dim]:
    """Return the scales of the normalisations that the group's channels run through."""
    roles: Mapping[str, str] = {
        node.params["weight"]: node.op
        for node in group.channels.graph.nodes
        if "weight" in node.params
    }
    scales = [dim for dim in group.dims if roles.get(dim.tensor, "").endswith("_norm")]
    if not scales:
        raise CriterionError(
            f"criterion 'bn_scale' needs a normalisation on group {group.name!r}, which has none",
            fix="use criterion='l1', or give ratios only to groups that are normalised",
        )
    return scales


def _checked(scores: Array, dim: Dim, group: Group) -> Array:
    """Return one number a filter, or say what the criterion returned instead."""
    count = group.channels.graph.size(dim)
    try:
        values = np.asarray(scores, np.float64)
    except (TypeError, ValueError):
        values = np.empty(0)
    if values.shape != (count,):
        shown = f"shape {values.shape}" if values.size else f"a {type(scores).__name__}"
        raise CriterionError(
            f"the criterion returned {shown} for the {count} filters of {dim.tensor!r}",
            fix="return an array of one score a filter: the filters lie along axis 0",
        )
    if not np.isfinite(values).all():
        raise CriterionError(
            f"the score of filter {int(np.argmin(np.isfinite(values)))} of {dim.tensor!r} is "
            f"{values[~np.isfinite(values)][0]}, so there is no telling which filters go first",
            fix="see that the weights (and gradients, for 'taylor') hold finite numbers, and "
            "that the criterion returns such",
        )
    return values


def _mean(group: Group, dims: Sequence[Dim], scored: Sequence[Array]) -> Array:
    total = np.zeros(group.size)
    for dim, given in zip(dims, scored, strict=True):
        values = _checked(given, dim, group)
        place = np.searchsorted(group.sets, group.channels.sets[dim])
        place = np.minimum(place, group.size - 1)
        own = group.sets[place] == group.channels.sets[dim]
        part = np.bincount(place[own], values[own], group.size)
        mean = part.mean()
        total += part / mean if mean > 0 else part
    return total / len(dims)

"""The table to measure: for each group and ratio, the cut that it stands for."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from prunus.core.cut.cut import Cut, make_cut
from prunus.core.cut.ratios import ratios_of
from prunus.core.errors import NothingToCutError, RatioError
from prunus.core.graph.groups import Groups
from prunus.core.scores.criteria import Array, Criterion
from prunus.core.scores.group import Weights, scores_of
from prunus.core.study.cells import Key

__all__ = ["RATIOS", "Table", "table_of"]

RATIOS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
"""What is tried where nobody says otherwise."""


@dataclass(frozen=True, eq=False)
class Table:
    """What was asked, and the cut behind each cell."""

    asked: Mapping[str, Mapping[float, int]]
    """{group: {ratio: channels removed}}"""
    cuts: Mapping[Key, Cut]
    """In the order the network runs the groups, each with the smallest cut first."""
    nothing: tuple[Key, ...] = field(default=())
    """Cells whose ratio removes no channel."""


def table_of(
    groups: Groups,
    ratios: Iterable[float],
    params: Sequence[str] | None,
    weights: Weights,
    *,
    criterion: str | Criterion = "l1",
    align: int = 1,
    seed: int = 0,
) -> Table:
    """Choose the channels of every cell, by one scoring of each group.

    Args:
        groups: What the model can lose.
        ratios: The shares of each group to try without.
        params: Names or patterns of weights; None is all.
        weights: How the criterion reads the model.
        criterion: Which channels go first.
        align: Leave a multiple of this many channels.
        seed: For the criterion "random".
    """
    wanted = _wanted(groups, params)
    scores = _scores(groups, wanted, weights, criterion, seed)
    asked: dict[str, dict[float, int]] = {}
    cuts: dict[Key, Cut] = {}
    nothing = []
    for k, ratio in itertools.product(wanted, _checked(ratios)):
        group = groups.groups[k]
        every = [0.0] * len(groups.groups)
        every[k] = ratio
        cut = make_cut(groups, every, scores, align)
        removed = next((one.removed for one in cut.achieved if one.group == group.name), 0)
        key = Key(group.name, removed)
        asked.setdefault(group.name, {})[ratio] = removed
        if removed:
            cuts.setdefault(key, cut)
        else:
            nothing.append(key)
    return Table(asked, cuts, tuple(dict.fromkeys(nothing)))


def _checked(ratios: Iterable[float]) -> list[float]:
    tried = list(ratios)
    try:
        found = sorted({round(float(ratio), 10) for ratio in tried})
    except (TypeError, ValueError):
        found = []
    if not found or not all(0 < ratio < 1 for ratio in found):
        raise RatioError(
            f"the ratios to try are {tried}, and must be numbers between 0 and 1",
            fix="give the shares of each group to try without, such as (0.25, 0.5, 0.75)",
        )
    return found


def _wanted(groups: Groups, params: Sequence[str] | None) -> list[int]:
    """Return the places of the groups that `params` name."""
    if params is None:
        ratios_of(groups, 0.5)  # says why, where there is no group at all
        return list(range(len(groups.groups)))
    names = [params] if isinstance(params, str) else list(params)
    if not names:
        raise NothingToCutError(
            "params= names no group", fix="name weights or patterns, or leave it out for all groups"
        )
    chosen = ratios_of(groups, dict.fromkeys(names, 0.5))
    return [k for k, ratio in enumerate(chosen) if ratio]


def _scores(
    groups: Groups,
    wanted: Sequence[int],
    weights: Weights,
    criterion: str | Criterion,
    seed: int,
) -> dict[int, Array]:
    # A balanced axis may take channels of a neighbour along: then all need scores.
    some = range(len(groups.groups)) if groups.channels.balances else wanted
    return {k: scores_of(groups.groups[k], criterion, weights, seed) for k in some}

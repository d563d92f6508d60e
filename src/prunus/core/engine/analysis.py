"""One analysis: what is asked, what is known already, and what is left to measure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from prunus.core.cut.cut import Cut, cut_of
from prunus.core.engine.table import Table
from prunus.core.errors import RatioError
from prunus.core.graph.costs import macs, numel
from prunus.core.graph.groups import Groups
from prunus.core.plan.costs import cost_table
from prunus.core.study.cells import EXACT, FAILED, NOTHING, Cell, Key
from prunus.core.study.header import FrozenRow, GroupRow, Header, Identity
from prunus.core.study.store import Store

__all__ = ["begin", "fail", "header_of", "joint", "missing", "most_harmful_first", "shard_of"]


def header_of(groups: Groups, identity: Identity, versions: Mapping[str, str]) -> Header:
    """Return what a study says of the model."""
    graph = groups.graph
    return Header(
        identity,
        tuple(
            GroupRow(group.name, group.params, group.size, group.macs, group.numel)
            for group in groups.groups
        ),
        tuple(FrozenRow(one.name, one.because, one.channels, one.of) for one in groups.frozen),
        macs(graph),
        numel(graph),
        cost_table(groups),
        versions,
    )


def begin(store: Store, table: Table) -> None:
    """Write down what is asked, and what is known without measuring."""
    with store.transaction():
        store.ask(table.asked)
        store.add(
            Cell(*key, NOTHING, None, note="the ratio is too small to remove a channel")
            for key in table.nothing
        )


def missing(store: Store, table: Table, shard: tuple[int, int] | None) -> list[Key]:
    """Return the cells that are still to be measured; what failed is tried again.

    What stopped early is open to every analysis: an exact one measures it to the end, and
    for an adaptive one another width or budget may ask more of it.
    """
    mine = shard_of(list(table.asked), shard)
    known = {key for key, cell in store.cells().items() if cell.kind == EXACT}
    return [key for key in table.cuts if key.group in mine and key not in known]


def most_harmful_first(keys: Sequence[Key], estimates: Mapping[Key, float]) -> list[Key]:
    """Return the cells group by group, the group that is predicted to lose most at first."""
    worst: dict[str, float] = {}
    for key in keys:
        worst[key.group] = max(worst.get(key.group, -math.inf), estimates.get(key, -math.inf))
    place = {group: k for k, group in enumerate(worst)}
    return sorted(keys, key=lambda key: (-worst[key.group], place[key.group]))


def joint(table: Table, keys: Sequence[Key]) -> Cut:
    """Return the cut of all groups together, each as in its middle cell."""
    by_group: dict[str, list[Key]] = {}
    for key in keys:
        by_group.setdefault(key.group, []).append(key)
    cuts = [table.cuts[own[len(own) // 2]] for own in by_group.values()]
    gone = np.logical_or.reduce([cut.gone for cut in cuts])
    parts = {name: part for cut in cuts for name, part in cut.parts.items()}
    return cut_of(cuts[0].channels, gone, (), parts)


def fail(store: Store, keys: Sequence[Key], wrong: Mapping[str, str]) -> None:
    """Write down the cells of groups that cannot be cut rightly, each with its reason."""
    store.add(Cell(*key, FAILED, None, note=wrong[key.group]) for key in keys if key.group in wrong)


def shard_of(groups: Sequence[str], shard: tuple[int, int] | None) -> set[str]:
    """Return the groups of one part of the work, such as the first of four: (1, 4)."""
    if shard is None:
        return set(groups)
    number, of = shard
    if not 1 <= number <= of:
        raise RatioError(
            f"part {number} of {of} is no part of the work",
            fix=f"give parts from (1, {max(of, 1)}) to ({max(of, 1)}, {max(of, 1)})",
        )
    # Not one run of neighbours each: depth decides how much of the network runs again.
    return set(groups[number - 1 :: of])

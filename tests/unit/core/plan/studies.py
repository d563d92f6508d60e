"""Studies of small graphs, with losses that tests choose."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

from prunus.core.cut.rounding import asked_count
from prunus.core.graph.costs import macs, numel
from prunus.core.graph.groups import Groups
from prunus.core.plan.costs import CostTable, cost_table
from prunus.core.plan.curves import Losses
from prunus.core.study.cells import Cell
from prunus.core.study.header import GroupRow, Header, Identity
from prunus.core.study.store import Store
from prunus.core.study.study import Study

RATIOS = (0.2, 0.4, 0.6, 0.8)


def table_of(groups: Groups) -> CostTable:
    """Return the table as a study keeps it: through JSON."""
    return CostTable.read(json.loads(json.dumps(cost_table(groups))))


def curve(name: str, size: int, losses: Mapping[float, float]) -> Losses:
    """Return a curve whose ratios are rounded as ratios are."""
    return Losses(name, size, losses, {ratio: asked_count(size, ratio) for ratio in losses})


def curves_of(table: CostTable, loss: Callable[[int, float], float]) -> list[Losses]:
    """Return a curve a group; `loss(k, ratio)` says what group k loses."""
    return [
        curve(name, size, {ratio: loss(k, ratio) for ratio in RATIOS})
        for k, (name, size) in enumerate(zip(table.names, table.sizes, strict=True))
    ]


def study_of(
    path: Path,
    groups: Groups,
    losses: Mapping[str, Mapping[float, float]],
    *,
    baseline: float = 0.8,
    costs: bool = True,
) -> Study:
    """Return a study in which each group has these losses, relative to the baseline."""
    rows = tuple(
        GroupRow(one.name, one.params, one.size, one.macs, one.numel) for one in groups.groups
    )
    header = Header(
        Identity("5f0c", "data", "top1", True, "l1"),
        rows,
        (),
        macs(groups.graph),
        numel(groups.graph),
        cost_table(groups) if costs else {},
    )
    with Store.open_or_create(path, header) as store:
        store.set_baseline(baseline, 100)
        for group in rows:
            own = losses.get(group.name, {})
            counts = {ratio: asked_count(group.size, ratio) for ratio in own}
            store.ask({group.name: counts})
            store.add(
                Cell(group.name, counts[ratio], "exact", baseline - loss * (baseline or 1.0), 100)
                for ratio, loss in own.items()
            )
    return Study.open(path)

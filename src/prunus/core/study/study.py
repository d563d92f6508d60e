"""What was measured, as users see it: baseline, cells, curves, tables and exports."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from prunus.core.errors import StudyError, UnknownNameError, nearest
from prunus.core.plan.make import make_plan
from prunus.core.plan.plan import Plan
from prunus.core.study import export, pickles, ranks, text
from prunus.core.study.cells import Baseline, Cell, Key, harm
from prunus.core.study.curves import Curve, Point
from prunus.core.study.header import RELATIVE_LOSS, FrozenRow, GroupRow, Header
from prunus.core.study.store import Store

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Study"]


@dataclass(frozen=True, eq=False, repr=False)
class Study:
    """A study as it was when it was opened. It holds no file open, and needs no model.

    Losses are relative to the size of the baseline, as in PaddleSlim: 0.05 is to lose 5 %
    of it. Where a lower metric is better, to lose is to have a higher one. Where nothing
    can be relative to the baseline, relative losses are NaN, and `caveat` says why.
    """

    path: Path
    header: Header
    whole: Baseline | None
    """What the whole model scores, once that is known."""
    known: Mapping[Key, Cell]
    asked: Mapping[str, Mapping[float, int]]
    """{group: {ratio: channels that it stands for}}"""
    estimates: Mapping[str, Mapping[Key, float]]
    """Guesses by their name, such as "taylor"; never shown as measured."""

    @classmethod
    def open(cls, path: str | Path) -> Study:
        """Read the study in a file."""
        with Store.open(path, readonly=True) as store:
            return cls.of(store)

    @classmethod
    def of(cls, store: Store) -> Study:
        """Return what is in a store at this moment."""
        with store.transaction(write=False):
            estimates = {name: store.estimates(name) for name in store.estimate_names()}
            return cls(
                store.path, store.header, store.baseline, store.cells(), store.asked(), estimates
            )

    @classmethod
    def from_paddleslim(
        cls,
        path: str | Path | Sequence[str | Path],
        study: str | Path,
        sizes: Mapping[str, int] | None = None,
    ) -> Study:
        """Make a study file out of pickles of PaddleSlim; see `prunus.core.study.imported`."""
        from prunus.core.study.imported import import_paddleslim

        return import_paddleslim(path, study, sizes)

    @property
    def groups(self) -> tuple[GroupRow, ...]:
        """Return the groups, in the order the network runs them."""
        return self.header.groups

    @property
    def frozen(self) -> tuple[FrozenRow, ...]:
        """Return the weights that stay, each with its reason."""
        return self.header.frozen

    @property
    def higher_is_better(self) -> bool:
        """Tell which way the metric points."""
        return self.header.identity.higher_is_better

    @property
    def baseline(self) -> float:
        """Return what the whole model scores."""
        if self.whole is None:
            raise StudyError(
                f"the baseline of {str(self.path)!r} has not been measured yet",
                fix="run the same analysis again: it begins with the baseline, and goes on from "
                "what is there",
            )
        return self.whole.metric

    @property
    def caveat(self) -> str:
        """Return why no loss can be relative to the baseline; "" where it can."""
        if self.header.identity.metric == RELATIVE_LOSS:
            return ""
        if self.baseline == 0 or not math.isfinite(self.baseline):
            return (
                f"the baseline is {self.baseline:g}, and no loss is relative to that: "
                "ask for absolute losses"
            )
        return ""

    @cached_property
    def cells(self) -> tuple[Cell, ...]:
        """Return every cell, by group in the order of the network, then by channels removed."""
        return tuple(self.known[key] for key in self._sorted(self.known))

    @cached_property
    def missing(self) -> tuple[Key, ...]:
        """Return what was asked and is not known yet."""
        asked = {
            Key(name, count) for name, counts in self.asked.items() for count in counts.values()
        }
        return self._sorted(asked - set(self.known))

    @property
    def complete(self) -> bool:
        """Tell whether all that was asked is known."""
        return self.whole is not None and not self.missing

    def cell(self, group: str, removed: int) -> Cell | None:
        """Return what is known of one cell."""
        return self.known.get(Key(group, removed))

    def loss(self, cell: Cell) -> float:
        """Return what the cut loses, as a share of the baseline.

        NaN where the cell was not measured, or where nothing is relative to the
        baseline (`relative` says why).
        """
        return self._loss(cell.metric, absolute=False)

    def absolute_loss(self, cell: Cell) -> float:
        """Return what the cut loses, in units of the metric; NaN where it was not measured."""
        return self._loss(cell.metric, absolute=True)

    def point_of(self, cell: Cell, ratio: float = math.nan, *, absolute: bool = False) -> Point:
        """Return a cell with its loss, and the interval of that."""
        ends = [None if end is None else self._loss(end, absolute) for end in (cell.low, cell.high)]
        low, high = reversed(ends) if self.higher_is_better else ends
        loss = self._loss(cell.metric, absolute) if cell.measured else None
        return Point(ratio, cell.removed, loss, low, high, cell.kind, cell.samples)

    def curve(self, name: str, *, absolute: bool = False) -> Curve:
        """Return {ratio: loss} of one group; `name` is the group's, or one of its weights'.

        Only what was measured is in the dict; its `points` have intervals, and ratios that
        are only bounded. With `absolute`, losses are in units of the metric.
        """
        group = self._group(name)
        points = []
        for ratio, removed in self.asked.get(group.name, {}).items():
            cell = self.cell(group.name, removed)
            if cell is not None:
                points.append(self.point_of(cell, ratio, absolute=absolute))
        caveat = "" if absolute or not points else self.caveat
        return Curve(group.name, points, absolute=absolute, caveat=caveat)

    def sensitivities(self, *, absolute: bool = False) -> dict[str, dict[float, float]]:
        """Return {weight: {ratio: loss}}, PaddleSlim's form, for every weight that was measured.

        The weights of a group live and die together, and have the same losses. A weight
        that holds several groups has no curve of its own: those groups stand under their
        names, such as 'qkv.weight[0:64]'.
        """
        owners = self._owners()
        found: dict[str, dict[float, float]] = {}
        for group in self.groups:
            losses = dict(self.curve(group.name, absolute=absolute))
            whole = [name for name in group.params if len(owners[name]) == 1]
            names = whole if len(whole) == len(group.params) else [*whole, group.name]
            if losses:
                found.update({name: dict(losses) for name in names})
        return found

    def worst(self, count: int = 5) -> tuple[Cell, ...]:
        """Return the groups that lose most, each as its worst cell; NaN is worse than all."""

        def lost(cell: Cell) -> float:
            # In units of the metric: the order is the same, and there is one for any baseline.
            return harm(self.absolute_loss(cell))

        worst: dict[str, Cell] = {}
        for cell in self.cells:
            if cell.measured and lost(cell) > lost(worst.get(cell.group, cell)):
                worst[cell.group] = cell
            elif cell.measured:
                worst.setdefault(cell.group, cell)
        return tuple(sorted(worst.values(), key=lost, reverse=True)[:count])

    def rank_correlation(self, name: str = "taylor") -> float | None:
        """Return how well an estimate ordered the cells: Spearman's rank correlation.

        None where fewer than three cells have both, or where all are alike.
        """
        guesses = self.estimates.get(name, {})
        cells = [cell for cell in self.cells if cell.measured and cell.key in guesses]
        return ranks.spearman(
            [guesses[cell.key] for cell in cells], [self.absolute_loss(cell) for cell in cells]
        )

    def table(self, *, absolute: bool = False) -> str:
        """Return all losses, groups by ratios, as plain text."""
        return text.table(self, absolute=absolute)

    def plan(
        self,
        *,
        loss: float | None = None,
        macs: float | None = None,
        params: float | None = None,
        align: int = 1,
        absolute: bool = False,
    ) -> Plan:
        """Choose how much of each group goes; see `prunus.core.plan.make.make_plan`.

        Args:
            loss: Of every group as much as costs at most this loss when it is cut alone:
                PaddleSlim's rule.
            macs: Keep at most this share of the multiply-adds, for the least sum of losses.
            params: Keep at most this share of the parameters.
            align: Leave a multiple of this many channels, where a group has that many.
            absolute: Losses in units of the metric, not relative to the baseline.
        """
        return make_plan(self, loss=loss, macs=macs, params=params, align=align, absolute=absolute)

    def to_json(self, path: str | Path | None = None) -> str:
        """Return everything as JSON, and write it if a path is given."""
        return export.to_json(self, path)

    def to_csv(self, path: str | Path | None = None) -> str:
        """Return one row a ratio as CSV, and write it if a path is given."""
        return export.to_csv(self, path)

    def to_frame(self) -> pd.DataFrame:
        """Return one row a ratio as a pandas DataFrame."""
        return export.to_frame(self)

    def to_paddleslim(self, path: str | Path) -> None:
        """Write the pickle that PaddleSlim reads: {weight: {ratio: relative loss}}."""
        if self.caveat:
            raise StudyError(
                f"there are no relative losses to write: {self.caveat}",
                fix="write all of it with study.to_json(path) or study.to_csv(path)",
            )
        pickles.write_sensitivities(self.sensitivities(), path)

    def __repr__(self) -> str:
        whole = "no baseline yet" if self.whole is None else f"baseline {self.baseline:g}"
        return (
            f"Study({str(self.path)!r}: {len(self.groups)} groups, {len(self.known)} cells, "
            f"{len(self.missing)} missing, {whole})"
        )

    def __str__(self) -> str:
        return self.table()

    def _loss(self, metric: float | None, absolute: bool) -> float:
        if metric is None:
            return math.nan
        lost = self.baseline - metric if self.higher_is_better else metric - self.baseline
        if absolute:
            return lost
        if self.header.identity.metric == RELATIVE_LOSS:
            return lost
        return math.nan if self.caveat else lost / abs(self.baseline)

    def _sorted(self, keys: Iterable[Key]) -> tuple[Key, ...]:
        place = {group.name: k for k, group in enumerate(self.groups)}
        return tuple(sorted(keys, key=lambda key: (place.get(key.group, len(place)), key)))

    def _owners(self) -> dict[str, list[GroupRow]]:
        owners: dict[str, list[GroupRow]] = {}
        for group in self.groups:
            for name in group.params:
                owners.setdefault(name, []).append(group)
        return owners

    def _group(self, name: str) -> GroupRow:
        group = self.header.group(name)
        owners = self._owners()
        if group is not None or len(owners.get(name, [])) == 1:
            return group or owners[name][0]
        if name in owners:
            names = ", ".join(repr(one.name) for one in owners[name])
            raise UnknownNameError(
                f"{name!r} holds {len(owners[name])} groups, with a curve each",
                fix=f"name one of the groups: {names}",
            )
        for one in self.frozen:
            if one.name == name:
                raise UnknownNameError(
                    f"{name!r} has no curve, because it is frozen: {one.because}",
                    fix="leave it out; study.frozen lists what stays, and why",
                )
        known = dict.fromkeys([*(one.name for one in self.groups), *owners])
        raise UnknownNameError(
            f"no weight or group of the study is named {name!r}",
            fix=f"the nearest are {nearest(name, known)}",
        )

"""Adaptive mode: which cells want more samples, and what is known once none does.

The loss of a cell is the mean of paired differences between the baseline's score and the cut
model's on the same sample, over the size of the baseline. Samples come in one random order,
the same for all cells.

A cell stops when half its interval is no wider than `width`. With a `budget` it stops also
when its interval lies on one side of that, and only those cells are measured that are needed to
find where a group's curve crosses the budget: two neighbours, one within and one beyond. A
cell that became narrow before it was clear counts as its estimate.

To find the two, a cell counts as its estimate after a first few samples: `search.frontier`
halves its way there, and only the two are measured to their end. The others keep the
interval they have. Cells without any sample are bounded: a cell loses at least what any
measured cell loses that removes less, and at most what one loses that removes more.
That is an assumption; where measured cells contradict it, those between them are measured.

The cells furthest behind go first, and all that are as far behind as each other go together,
so that each batch is loaded once for them. The first samples of all groups end in a few passes
over the head of the data; the two neighbours of each group then walk side by side.

Everything here follows from the samples of each cell. To resume, observe what was stored, in
any order of cells and in batches of any size, and ask for the active cells.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from prunus.core.engine.intervals import Sequences
from prunus.core.engine.search import frontier
from prunus.core.errors import PrunusError, UnknownNameError, nearest
from prunus.core.study.cells import ADAPTIVE, BOUNDED, EXACT, Key, Kind

__all__ = ["FIRST", "Adaptive", "Result"]

_Floats = NDArray[np.float64]
_Ints = NDArray[np.int64]

FIRST = 200
"""After so many samples a cell counts as its estimate: see docs/design/0004-adaptive-mode.md."""

# Of the budget: what lies this close to it, either side, need not be told from it.
_RESOLUTION = 1 / 4


@dataclass(frozen=True, slots=True)
class Result:
    """What is known of the relative loss of a cell."""

    key: Key
    kind: Kind
    """From all samples (exact), from some (adaptive), or from its neighbours and the assumption
    that losses are in order (bounded)."""
    samples: int
    low: float
    high: float
    estimate: float | None
    """The mean of what was seen; None for a bounded cell, of which nothing was."""
    undefined: int
    """How many differences were not finite. Each counts as the greatest loss there can be."""


class Adaptive:
    """The state of one adaptive analysis."""

    def __init__(
        self,
        cells: Mapping[str, Sequence[int]],
        population: int,
        baseline: float,
        *,
        width: float | None = None,
        budget: float | None = None,
        alpha: float = 0.05,
        bounds: tuple[float, float] = (-1.0, 1.0),
        first: int = FIRST,
    ) -> None:
        """Take the cells to decide on; nothing is measured yet.

        Args:
            cells: How many channels to remove, for each group; a count that comes twice is
                one cell.
            population: How many samples the data set has.
            baseline: The mean score of the original model over all of them.
            width: Half the width an interval must have, as a relative loss; a quarter of
                the budget where only that is given.
            budget: The relative loss that the user would accept.
            alpha: The share of a cell's intervals that may miss the loss.
            bounds: The least and the greatest difference that one sample can have.
            first: After so many samples a cell counts as its estimate in the search.
        """
        self._width = _resolution(width, budget)
        self._budget = budget
        _check(cells, baseline, first)
        counts = {group: sorted(set(cells[group])) for group in cells}
        self._keys = [Key(group, count) for group in counts for count in counts[group]]
        self._index = {key: row for row, key in enumerate(self._keys)}
        ends = np.cumsum([0, *map(len, counts.values())])
        self._groups = [np.arange(*pair) for pair in itertools.pairwise(ends)]
        self._group_of = np.repeat(np.arange(len(counts)), np.diff(ends))
        self._scale = abs(baseline)
        self._first = first
        aim = self._width * self._scale
        self._sequences = Sequences(population, bounds, alpha, len(self._keys), aim)
        self._undefined: _Ints = np.zeros(len(self._keys), np.int64)
        self._stopped = np.zeros(len(self._keys), bool)
        self._failed = np.zeros(len(self._keys), bool)
        self._wanted = [self._wants(rows) for rows in self._groups]

    def active(self) -> list[Key]:
        """Return the cells that want their next batch now, all at one position in the data.

        None is left when all is decided.
        """
        wanted = [row for rows in self._wanted for row in rows]
        seen = self._sequences.seen(wanted).tolist()
        return [self._keys[row] for row, at in zip(wanted, seen, strict=True) if at == min(seen)]

    def position(self, key: Key) -> int:
        """Return how many samples of the order a cell has seen."""
        return int(self._sequences.seen(self._row(key)))

    def observe(self, keys: Sequence[Key], differences: ArrayLike) -> None:
        """Take the next samples of cells at one position, a row for each.

        A difference is the baseline's score less the cut model's, or, where less is better, the
        other way round: more is worse.
        """
        rows = np.array([self._row(key) for key in keys], np.int64)
        values = np.asarray(differences, np.float64)
        finite = np.isfinite(values)
        self._sequences.update(rows, np.where(finite, values, self._sequences.bounds[1]))
        self._undefined[rows] += (~finite).reshape(len(rows), -1).sum(axis=1)
        self._stopped[rows] = self._done(rows)
        self._ask_anew(rows)

    def fail(self, key: Key) -> None:
        """Leave out a cell whose model could not be evaluated: the search goes on without it."""
        row = self._row(key)
        self._failed[row] = True
        self._ask_anew(np.array([row]))

    def finished(self) -> Iterator[Result]:
        """Yield what is decided so far, in order; a cell's result does not change any more.

        Measured cells come as they stop, those that were left open and the bounded ones when
        their group is done. Of a failed cell nothing is known.
        """
        for rows, wanted in zip(self._groups, self._wanted, strict=True):
            low, high = self._bounds(rows)
            done = not len(wanted)
            for place, row in enumerate(rows):
                if self._failed[row]:
                    continue
                if self._stopped[row] or (done and self._sequences.seen(row)):
                    yield self._measured(row)
                elif done:
                    between = float(low[place]), float(high[place])
                    yield Result(self._keys[row], BOUNDED, 0, *between, None, 0)

    def _row(self, key: Key) -> int:
        row = self._index.get(Key(*key))
        if row is None:
            group, removed = key
            known = sorted({one.group for one in self._keys})
            raise UnknownNameError(
                f"no cell removes {removed} channels of {group!r} in this analysis",
                fix=f"replay what belongs to its groups and counts: {nearest(group, known)}",
            )
        return row

    def _intervals(self, rows: _Ints) -> tuple[_Floats, _Floats]:
        low, high = self._sequences.intervals(rows)
        return low / self._scale, high / self._scale

    def _done(self, rows: _Ints) -> NDArray[np.bool_]:
        """Tell which cells want no more samples, whatever becomes of the others."""
        low, high = self._intervals(rows)
        done = self._sequences.seen(rows) == self._sequences.population
        done |= (high - low) / 2 <= self._width
        if self._budget is not None:
            done |= (high <= self._budget) | (low > self._budget)
        return np.asarray(done)

    def _ask_anew(self, rows: _Ints) -> None:
        for place in np.unique(self._group_of[rows]):
            self._wanted[place] = self._wants(self._groups[place])

    def _wants(self, rows: _Ints) -> _Ints:
        """Return the rows of a group's cells that want more samples."""
        rows = rows[~self._failed[rows]]
        stopped = self._stopped[rows]
        if self._budget is None:
            return rows[~stopped]
        found = frontier(self._sides(rows, self._budget), stopped.tolist())
        if found:
            return rows[found]
        low, high = self._bounds(rows)
        return rows[~stopped & (low > high)]

    def _sides(self, rows: _Ints, budget: float) -> list[bool | None]:
        """Return whether cells are within the budget; None where too little was seen."""
        known = self._stopped[rows] | (self._sequences.seen(rows) >= self._first)
        within = self._sequences.means(rows) / self._scale <= budget
        return [bool(side) if told else None for side, told in zip(within, known, strict=True)]

    def _bounds(self, rows: _Ints) -> tuple[_Floats, _Floats]:
        """Return what a group's cells that have stopped say of those between or beside them."""
        low, high = self._intervals(rows)
        least, most = (bound / self._scale for bound in self._sequences.bounds)
        tells = self._stopped[rows] & ~self._failed[rows]
        below = np.maximum.accumulate(np.where(tells, low, least))
        above = np.minimum.accumulate(np.where(tells, high, most)[::-1])[::-1]
        return below, above

    def _measured(self, row: int) -> Result:
        samples = int(self._sequences.seen(row))
        low, high = self._intervals(np.array(row))
        return Result(
            self._keys[row],
            EXACT if samples == self._sequences.population else ADAPTIVE,
            samples,
            float(low),
            float(high),
            float(self._sequences.means(row)) / self._scale,
            int(self._undefined[row]),
        )


def _resolution(width: float | None, budget: float | None) -> float:
    """Return half the width at which a cell stops in any case."""
    for name, value in (("width", width), ("budget", budget)):
        if value is not None and not 0 < value < np.inf:
            raise PrunusError(
                f"the {name} is {value}, and must be positive",
                fix=f"give the {name} as a relative loss, such as 0.01",
            )
    if width is not None:
        return width
    if budget is not None:
        return budget * _RESOLUTION
    raise PrunusError(
        "adaptive mode has neither a width nor a budget to stop at",
        fix="give width=0.005 for intervals of +-0.5 %, a budget=0.02 for a loss of 2 %, or both",
    )


def _check(cells: Mapping[str, Sequence[int]], baseline: float, first: int) -> None:
    if not 0 < abs(baseline) < np.inf:
        raise PrunusError(
            f"the baseline is {baseline}, and no loss is relative to that",
            fix="check the metric on the original model, or measure in exact mode, which has "
            "absolute losses beside",
        )
    if first < 1:
        raise PrunusError(
            f"a cell cannot count as its estimate after {first} samples",
            fix="give first as a whole number from 1",
        )
    for group, counts in cells.items():
        if any(count < 1 for count in counts):
            raise PrunusError(
                f"group {group!r} has a cell that removes {min(counts)} channels",
                fix="leave it out: a cut that removes nothing is not measured",
            )

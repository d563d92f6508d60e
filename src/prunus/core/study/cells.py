"""One cell of the table: a group, how many of its channels went, and what the model scored."""

from __future__ import annotations

import math
from dataclasses import astuple, dataclass
from typing import Literal, NamedTuple, get_args

from prunus.core.errors import StudyConflictError, StudyError

__all__ = [
    "ADAPTIVE",
    "BOUNDED",
    "EXACT",
    "FAILED",
    "MEASURED",
    "NOTHING",
    "Baseline",
    "Cell",
    "Key",
    "Kind",
    "better",
    "conflict",
    "disagree",
    "equal",
    "harm",
    "measured",
    "plain",
    "preference",
]

Kind = Literal["exact", "adaptive", "bounded", "nothing", "failed"]

EXACT: Kind = "exact"
"""Every sample was seen."""
ADAPTIVE: Kind = "adaptive"
"""Stopped early: the metric is of the samples seen, and has an interval."""
BOUNDED: Kind = "bounded"
"""Never measured: what is known follows from a measured cell, by monotonicity."""
NOTHING: Kind = "nothing"
"""The ratio removes no channel."""
FAILED: Kind = "failed"
"""The cut model could not be evaluated; `note` says why."""

MEASURED: frozenset[str] = frozenset({EXACT, ADAPTIVE})
"""The kinds that have a metric."""

_RANK: dict[str, int] = {EXACT: 3, ADAPTIVE: 2, BOUNDED: 1, FAILED: 0, NOTHING: 0}


class Key(NamedTuple):
    """What names a cell. The count of channels, never a ratio: floats have twins."""

    group: str
    removed: int

    def __str__(self) -> str:
        return f"group {self.group!r} with {self.removed} channels removed"


class Baseline(NamedTuple):
    """What the whole model scores."""

    metric: float
    samples: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Cell:
    """What is known of one cell. A cell that exists is valid, and its numbers are plain."""

    group: str
    removed: int
    kind: str
    metric: float | None
    """What the cut model scored, which may be NaN; None where nothing was measured."""
    samples: int = 0
    """How many were seen; 0 where the user's function did not tell."""
    low: float | None = None
    """Where the metric lies at least, with the study's confidence; None: nothing is known."""
    high: float | None = None
    """Where it lies at most."""
    seconds: float = 0.0
    host: str = ""
    note: str = ""

    def __post_init__(self) -> None:
        for name in ("removed", "samples"):
            object.__setattr__(self, name, self._count(name))
        for name in ("host", "note"):
            # The text of an error may hold what no file can, such as half a character.
            text = str(getattr(self, name)).encode("utf-8", "replace").decode("utf-8")
            object.__setattr__(self, name, text)
        for name in ("metric", "low", "high", "seconds"):
            object.__setattr__(self, name, self._number(name))
        if self.low is not None and (math.isnan(self.low) or self.low == -math.inf):
            object.__setattr__(self, "low", None)
        if self.high is not None and (math.isnan(self.high) or self.high == math.inf):
            object.__setattr__(self, "high", None)
        for wrong, problem, fix in self._rules():
            if wrong:
                raise StudyError(f"{self.key} {problem}", fix=fix)

    @property
    def key(self) -> Key:
        """Return what names the cell."""
        return Key(self.group, self.removed)

    @property
    def measured(self) -> bool:
        """Tell whether the cell has a metric."""
        return self.kind in MEASURED

    def __eq__(self, other: object) -> bool:
        # Tuples compare by identity first, so that a cell with the one NaN equals itself.
        return astuple(self) == astuple(other) if isinstance(other, Cell) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.key)

    def _count(self, name: str) -> int:
        value = getattr(self, name)
        try:
            number = int(value)
        except (TypeError, ValueError, OverflowError):
            number = -1
        if isinstance(value, bool) or number != value or not 0 <= number < 2**63:
            raise StudyError(
                f"a cell of group {self.group!r} has {name}={value!r}",
                fix=f"give {name} as a whole number from 0",
            )
        return number

    def _number(self, name: str) -> float | None:
        value = getattr(self, name)
        if value is None:
            return None
        return measured(value, f"{name} of a cell of group {self.group!r}")

    def _rules(self) -> list[tuple[bool, str, str]]:
        """Return what must not be, the problem in words, and the fix."""
        no_interval = self.low is None and self.high is None
        low = -math.inf if self.low is None else self.low
        high = math.inf if self.high is None else self.high
        nan = self.metric is not None and math.isnan(self.metric)
        return [
            (
                not isinstance(self.group, str) or not self.group,
                "has no name",
                "give the name of a group of the graph",
            ),
            (
                self.kind not in get_args(Kind),
                f"is of kind {self.kind!r}",
                f"the kinds are {', '.join(get_args(Kind))}",
            ),
            (
                (self.kind == NOTHING) != (self.removed == 0),
                f"is of kind {self.kind!r}",
                "a cut that removes no channel is of kind 'nothing', and no other is",
            ),
            (
                self.measured != (self.metric is not None),
                f"is {self.kind!r}, and its metric is {self.metric!r}",
                "give a metric to cells of kind 'exact' and 'adaptive', and None to others",
            ),
            (
                (self.kind == ADAPTIVE and no_interval and not nan)
                or (self.kind == ADAPTIVE and not self.samples),
                "is 'adaptive' without an interval or without samples",
                "give low, high and samples, or measure every sample and call it 'exact'",
            ),
            (
                self.kind == BOUNDED and no_interval,
                "is 'bounded' without a bound",
                "give low or high, or leave the cell out",
            ),
            (
                not low <= high or low == math.inf or high == -math.inf,
                f"has the interval [{self.low}, {self.high}]",
                "give the smaller end as low, and numbers or None",
            ),
            (
                self.kind == FAILED and not self.note,
                "failed without a note",
                "say in `note` why the cut model could not be evaluated",
            ),
            (
                self.seconds is None or not 0 <= self.seconds < math.inf,
                f"took {self.seconds} seconds",
                "give the time it took, from 0",
            ),
        ]


def plain(value: object) -> float:
    """Return a number as Python's own; there is one NaN, and one zero."""
    if isinstance(value, str | bytes):
        raise TypeError("text is no number")
    number = float(value)  # type: ignore[arg-type]
    return math.nan if math.isnan(number) else number + 0.0


def measured(value: object, what: str) -> float:
    """Return a number that somebody's code gave, as Python's own.

    Raises:
        StudyError: It is no number.
    """
    try:
        return plain(value)
    except (ArithmeticError, TypeError, ValueError) as error:
        raise StudyError(
            f"the {what} is {value!r:.60}, which is no number",
            fix="return one number from the function that evaluates the model, such as "
            "float(accuracy)",
        ) from error


def equal(a: float | None, b: float | None) -> bool:
    """Tell whether two metrics are the same, where NaN is the same as NaN."""
    if a is None or b is None:
        return a is b
    return a == b or (math.isnan(a) and math.isnan(b))


def harm(loss: float) -> float:
    """Return what losses are ordered by: to lose everything and more is to give no number."""
    return math.inf if math.isnan(loss) else loss


def disagree(a: Cell, b: Cell) -> bool:
    """Tell whether two cells of one key cannot both be true.

    Two adaptive cells that saw different numbers of samples may differ; whoever saw
    more knows better.
    """
    same = a.kind == b.kind and (a.kind == EXACT or a.samples == b.samples)
    return same and not equal(a.metric, b.metric)


def better(a: Cell, b: Cell) -> Cell:
    """Return the one of two cells of one key that says more, whatever their order.

    Exact goes before adaptive, that before bounded, and that before a failure; then
    more samples, then the narrower interval. What is left makes the order total, so
    that a merge does not depend on the order of the files.

    Raises:
        StudyConflictError: Both were measured alike, and scored differently.
    """
    if disagree(a, b):
        raise conflict(a, b, "before", "now")
    return max(a, b, key=preference)


def preference(cell: Cell) -> tuple[int, int, float, float, float, float, str, str]:
    """Return what cells of one key are ordered by: the largest is kept."""
    low = -math.inf if cell.low is None else cell.low
    high = math.inf if cell.high is None else cell.high
    rank = _RANK.get(cell.kind, 0)
    return (rank, cell.samples, low - high, low, high, -cell.seconds, cell.host, cell.note)


def conflict(a: Cell, b: Cell, where_a: str, where_b: str) -> StudyConflictError:
    """Return the error that names a cell, two metrics of it, and where they are from."""
    return StudyConflictError(
        f"{a.key} scored {a.metric!r} {where_a}, and {b.metric!r} {where_b}, both {a.kind}",
        fix="the two ran different code, data or hardware: keep one of them, or measure anew "
        "in a new study",
    )

"""A plan: one ratio a weight, what was asked, and what to expect of it, as plain JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from prunus.core.cut.ratios import check_ratio
from prunus.core.errors import LoadError, RatioError
from prunus.core.files import whole_file
from prunus.core.graph.costs import Cost

__all__ = ["Compared", "Plan", "Planned"]

SCHEMA = 1

_Kind = TypeVar("_Kind")


@dataclass(frozen=True, slots=True)
class Planned:
    """One group in a plan: what is asked of it, and what it will lose."""

    group: str
    size: int
    asked: float
    removed: int
    """How many channels go, after rounding, alignment and balance with other groups."""
    loss: float | None
    """What that alone costs, as measured; None where it was not."""

    @property
    def ratio(self) -> float:
        """Return the share that really goes."""
        return self.removed / self.size


@dataclass(frozen=True, slots=True)
class Compared:
    """A joint cut by one rule: its cost, and the losses of its groups one by one."""

    rule: str
    """"this plan", "equal loss", "uniform" or "optimised"."""
    setting: float | None
    """The loss or the ratio that all groups have in common, where they have one."""
    macs: int
    numel: int
    sum: float
    """The losses of the groups, added up."""
    worst: float
    """The largest of them."""
    kept: float | None = None
    """What the groups keep of what there is to lose, multiplied; None where losses are no
    shares."""


@dataclass(frozen=True)
class Plan:
    """What to cut: `{weight, group or pattern: ratio}`; the rest is for whoever reads it."""

    ratios: Mapping[str, float]
    note: str = ""
    """Where the plan comes from, for whoever opens the file."""
    align: int = 1
    """The multiple of channels that `prunus.prune` leaves, unless it is told another."""
    criterion: str = ""
    """What the losses were measured with; "" where that is not known."""
    asked: Mapping[str, float] = field(default_factory=dict)
    """Such as {"macs": 0.5}, the share to keep, or {"loss": 0.05}."""
    groups: tuple[Planned, ...] = ()
    before: Cost | None = None
    after: Cost | None = None
    """What is left of `before` when all groups are cut together."""
    compared: tuple[Compared, ...] = ()
    """This plan and other rules at the same cost."""
    schema: int = field(default=SCHEMA, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.ratios, Mapping):
            raise RatioError(
                f"a plan of {self.ratios!r} is no table of ratios",
                fix='write prunus.Plan({"conv1.weight": 0.5})',
            )
        for name, ratio in self.ratios.items():
            check_ratio(name, ratio)
        if isinstance(self.align, bool) or not isinstance(self.align, int) or self.align < 1:
            raise RatioError(
                f"align is {self.align!r}, and must be a whole number from 1", fix="try align=8"
            )

    def save(self, path: str | Path) -> None:
        """Write the plan; a file that is there is replaced only once the new one is whole."""
        text = json.dumps(self.to_data(), indent=2, allow_nan=False)
        with whole_file(path) as part:
            part.write_text(text + "\n", encoding="utf-8")

    def to_data(self) -> dict[str, Any]:
        """Return the plan as JSON that every parser reads; what is not known is left out."""
        found: dict[str, Any] = {
            "prunus_plan": self.schema,
            "note": self.note,
            "align": self.align,
            "criterion": self.criterion,
            "asked": dict(self.asked),
            "before": self.before and self.before.as_dict(),
            "after": self.after and self.after.as_dict(),
            "compared": [_finite(asdict(one)) for one in self.compared],
            "ratios": {name: float(ratio) for name, ratio in self.ratios.items()},
            "groups": [_finite(asdict(one)) for one in self.groups],
        }
        needed = ("prunus_plan", "note", "ratios")
        return {name: value for name, value in found.items() if value or name in needed}

    @classmethod
    def load(cls, path: str | Path) -> Plan:
        """Read a plan that `save` wrote, or that somebody wrote by hand in the same form."""
        try:
            found: Any = json.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise LoadError(
                f"{str(path)!r} cannot be read as a plan: {error}",
                fix="give the path of a JSON file written by Plan.save",
            ) from error
        if not isinstance(found, dict) or not isinstance(found.get("ratios"), dict):
            raise LoadError(
                f"{str(path)!r} is no plan: it has no table 'ratios'",
                fix='a plan looks like {"prunus_plan": 1, "ratios": {"conv1.weight": 0.5}}',
            )
        if found.get("prunus_plan") != SCHEMA:
            raise LoadError(
                f"{str(path)!r} is a plan of schema {found.get('prunus_plan')!r}, and this version "
                f"reads {SCHEMA}",
                fix="install the version of prunus that wrote it, or write the plan again",
            )
        try:
            return _read(found)
        except (AttributeError, TypeError, ValueError) as error:
            raise LoadError(
                f"{str(path)!r} is a plan with an entry that cannot be read: {error}",
                fix="write the plan again, or keep to 'prunus_plan', 'note', 'align' and 'ratios' "
                "in one written by hand",
            ) from error


def _read(found: Mapping[str, Any]) -> Plan:
    return Plan(
        found["ratios"],
        str(found.get("note", "")),
        found.get("align", 1),
        str(found.get("criterion", "")),
        {str(name): float(value) for name, value in dict(found.get("asked", {})).items()},
        tuple(Planned(**one) for one in found.get("groups", ())),
        _cost(found.get("before")),
        _cost(found.get("after")),
        tuple(Compared(**one) for one in found.get("compared", ())),
    )


def _cost(found: Mapping[str, int] | None) -> Cost | None:
    return None if found is None else Cost(**found)


def _finite(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in row.items()
    }

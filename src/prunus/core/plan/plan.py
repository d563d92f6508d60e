"""A plan: one ratio a weight, as plain JSON."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from numbers import Real
from pathlib import Path
from typing import Any

from prunus.core.errors import LoadError, RatioError

__all__ = ["Plan", "check_ratio"]

SCHEMA = 1


def check_ratio(name: str, ratio: float) -> None:
    """Refuse what is no name, and what is no share of channels."""
    if not isinstance(name, str):
        raise RatioError(
            f"{name!r} is no name of a weight, group or pattern",
            fix='write {"conv1.weight": 0.5}; prunus.trace(...).groups has the names',
        )
    if isinstance(ratio, bool) or not isinstance(ratio, Real) or not 0 <= ratio < 1:
        raise RatioError(
            f"the ratio of {name!r} is {ratio!r}, and must lie in [0, 1)",
            fix="give the share of channels to remove, such as 0.5; one channel always stays",
        )


@dataclass(frozen=True)
class Plan:
    """What to cut: `{weight, group or pattern: ratio}`."""

    ratios: Mapping[str, float]
    note: str = ""
    """Where the plan comes from, for whoever opens the file."""
    schema: int = field(default=SCHEMA, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.ratios, Mapping):
            raise RatioError(
                f"a plan of {self.ratios!r} is no table of ratios",
                fix='write prunus.Plan({"conv1.weight": 0.5})',
            )
        for name, ratio in self.ratios.items():
            check_ratio(name, ratio)

    def save(self, path: str | Path) -> None:
        """Write the plan; a file that is there is replaced only once the new one is whole."""
        path = Path(path)
        ratios = {name: float(ratio) for name, ratio in self.ratios.items()}
        text = json.dumps(
            {"prunus_plan": self.schema, "note": self.note, "ratios": ratios}, indent=2
        )
        part = path.with_name(f".{path.name}.{os.getpid()}.part")
        try:
            part.write_text(text + "\n", encoding="utf-8")
            os.replace(part, path)
        except OSError as error:
            raise LoadError(
                f"cannot write {str(path)!r}: {error}",
                fix="choose a folder that exists, may be written to and has room",
            ) from error
        finally:
            part.unlink(missing_ok=True)

    @classmethod
    def load(cls, path: str | Path) -> Plan:
        """Read a plan that `save` wrote, or that somebody wrote by hand in the same form."""
        try:
            found: Any = json.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
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
        return cls(found["ratios"], str(found.get("note", "")))

"""A study in the forms that other programs read. Everything is written whole, or not at all."""

from __future__ import annotations

import csv
import io
import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prunus.core.errors import MissingExtraError
from prunus.core.study.files import write_whole

if TYPE_CHECKING:
    import pandas as pd

    from prunus.core.study.study import Study

__all__ = ["COLUMNS", "rows", "to_csv", "to_frame", "to_json"]

COLUMNS = (
    "group",
    "params",
    "size",
    "ratio",
    "removed",
    "kind",
    "metric",
    "low",
    "high",
    "loss",
    "absolute_loss",
    "samples",
    "seconds",
    "host",
    "note",
)


def rows(study: Study) -> list[dict[str, Any]]:
    """Return one row for each ratio asked, known or not, and for each cell nobody asked by ratio.

    What is not known is None; a NaN is one that was measured, or a loss relative to nothing.
    """
    found = []
    for group in study.groups:
        asked = [(ratio, count) for ratio, count in study.asked.get(group.name, {}).items()]
        counts = {count for _, count in asked}
        unasked = [
            (None, cell.removed)
            for cell in study.cells
            if cell.group == group.name and cell.removed not in counts
        ]
        for ratio, removed in [*asked, *unasked]:
            start = {
                "group": group.name,
                "params": " ".join(group.params),
                "size": group.size,
                "ratio": ratio,
                "removed": removed,
            }
            found.append({**dict.fromkeys(COLUMNS), **start, **_known(study, group.name, removed)})
    return found


def to_json(study: Study, path: str | Path | None = None) -> str:
    """Return everything as JSON that every parser reads: NaN and infinity are text."""
    everything = {
        "prunus_study": 1,
        "header": json.loads(study.header.to_json()),
        "baseline": None if study.whole is None else study.whole._asdict(),
        "cells": rows(study),
        "estimates": [
            {"name": name, "group": key.group, "removed": key.removed, "value": value}
            for name, values in study.estimates.items()
            for key, value in values.items()
        ],
    }
    text = json.dumps(_finite(everything), indent=1, allow_nan=False) + "\n"
    if path is not None:
        write_whole(path, text)
    return text


def to_csv(study: Study, path: str | Path | None = None) -> str:
    """Return the rows as CSV; what is not known is empty."""
    file = io.StringIO()
    writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows(study))
    if path is not None:
        write_whole(path, file.getvalue())
    return file.getvalue()


def to_frame(study: Study) -> pd.DataFrame:
    """Return the rows as a pandas DataFrame."""
    try:
        import pandas as pd
    except ImportError as error:
        raise MissingExtraError(
            "a DataFrame needs pandas, which is not installed",
            fix="pip install pandas, or use study.to_csv() or study.to_json()",
        ) from error
    return pd.DataFrame(rows(study), columns=list(COLUMNS))


def _known(study: Study, group: str, removed: int) -> dict[str, Any]:
    cell = study.cell(group, removed)
    if cell is None:
        return {}
    known = {name: getattr(cell, name) for name in COLUMNS if hasattr(cell, name)}
    if cell.measured and study.whole is not None:
        known |= {"loss": study.loss(cell), "absolute_loss": study.absolute_loss(cell)}
    return known


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value

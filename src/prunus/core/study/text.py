"""Studies as plain text that anybody can read in any terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from prunus.core.study.cells import ADAPTIVE, BOUNDED, FAILED, NOTHING

if TYPE_CHECKING:
    from prunus.core.study.curves import Point
    from prunus.core.study.study import Study

__all__ = ["aligned", "number", "table"]

MOST = 10
"""Reasons that are written below a table; more would hide it."""

_LEGEND = {
    ADAPTIVE: "~ of a part of the samples; its interval is in study.curve(...).points",
    BOUNDED: "> < not measured: at least, at most that much",
    FAILED: "! could not be evaluated",
    NOTHING: "0 the ratio removes no channel",
    "unknown": ". not measured yet",
    "unrelated": "? measured, and a loss once the baseline is measured too",
}


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Return rows of equal length as columns; the first is a name, the others are numbers."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        first = row[0].ljust(widths[0])
        rest = (text.rjust(width) for text, width in zip(row[1:], widths[1:], strict=True))
        lines.append("  ".join([first, *rest]).rstrip())
    return "\n".join(lines)


def number(value: float | None) -> str:
    """Return a number with four digits after the point, more where that would show zero."""
    if value is None:
        return ""
    return f"{value:.4f}" if value == 0 or not abs(value) < 1e-4 else f"{value:.1e}"


def table(study: Study, *, absolute: bool = False) -> str:
    """Return the losses of all groups at all ratios, and why some have none."""
    ratios = sorted({ratio for counts in study.asked.values() for ratio in counts})
    rows = [["group", "size", *(f"{ratio:g}" for ratio in ratios)]]
    kinds = set()
    for group in study.groups:
        counts = study.asked.get(group.name, {})
        cells = [_shown(study, group.name, counts.get(ratio), absolute) for ratio in ratios]
        rows.append([group.name, str(group.size), *(text for _, text in cells)])
        kinds |= {kind for kind, _ in cells}
    legend = [words for kind, words in _LEGEND.items() if kind in kinds]
    below = [*legend, *_reasons(study), *_notes(study)]
    return "\n".join([*_title(study, absolute), aligned(rows), *below])


def _title(study: Study, absolute: bool) -> Iterator[str]:
    metric = study.header.identity.metric
    if study.whole is None:
        yield f"{metric}, baseline not measured yet"
        return
    kind = "absolute" if absolute else "relative"
    yield f"{metric}, baseline {study.baseline:g}: {kind} loss for each ratio"
    if study.caveat and not absolute:
        yield study.caveat
    if study.missing:
        total = len(study.missing) + len(study.known)
        yield f"{len(study.missing)} of {total} cells are missing: the same analysis goes on"


def _shown(study: Study, group: str, removed: int | None, absolute: bool) -> tuple[str, str]:
    """Return the kind of a cell, and what the table has of it."""
    if removed is None:
        return "", ""
    cell = study.cell(group, removed)
    if cell is None:
        return "unknown", "."
    if cell.kind in {NOTHING, FAILED}:
        return cell.kind, "0" if cell.kind == NOTHING else "!"
    if study.whole is None:
        return "unrelated", "?"
    point = study.point_of(cell, absolute=absolute)
    if cell.kind == BOUNDED:
        return cell.kind, _bound(point)
    return cell.kind, f"~{number(point.loss)}" if cell.kind == ADAPTIVE else number(point.loss)


def _bound(point: Point) -> str:
    ends = [f">{number(point.low)}"] if point.low is not None else []
    return " ".join([*ends, *([f"<{number(point.high)}"] if point.high is not None else [])])


def _notes(study: Study) -> Iterator[str]:
    for line in study.header.note.splitlines():
        yield f"note: {line}"


def _reasons(study: Study) -> Iterator[str]:
    failed = [cell for cell in study.cells if cell.kind == FAILED]
    lines = [f"! {cell.key}: {cell.note}" for cell in failed]
    lines += [f"{one.name!r} stays: {one.because}" for one in study.frozen]
    yield from lines[:MOST]
    if len(lines) > MOST:
        yield f"and {len(lines) - MOST} more: see study.cells and study.frozen"

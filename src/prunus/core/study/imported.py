"""A study out of the losses that PaddleSlim kept.

Such a file has no baseline, no sizes and no fingerprints, only relative losses. So the
metric of the study *is* the relative loss, of which the whole model has none: its baseline
is 0, lower is better, and nothing is divided (`RELATIVE_LOSS`). To make up a baseline of 1
and metrics of 1 - loss would change the last digits, and with them the ratios that a rule
reads off the curve.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from prunus.core.errors import StudyConflictError, StudyError, UnknownNameError, nearest
from prunus.core.study.cells import EXACT, Cell, equal, harm
from prunus.core.study.header import RELATIVE_LOSS, GroupRow, Header, Identity
from prunus.core.study.pickles import read_sensitivities
from prunus.core.study.store import Store
from prunus.core.study.study import Study

__all__ = ["import_paddleslim"]

UNKNOWN = "unknown"
PARTS = 1_000_000
"""What a group is taken to have where its size is not told: ratios differ by a part at least."""

Losses = dict[str, dict[float, float]]


def import_paddleslim(
    path: str | Path | Sequence[str | Path],
    study: str | Path,
    sizes: Mapping[str, int] | None = None,
) -> Study:
    """Write the losses in one or more pickles of PaddleSlim as a study, and return that.

    Nothing in the files is executed. What was odd about them is in `study.header.note`.

    Args:
        path: A file, or the files that several processes wrote.
        study: The file to make; one that is there must be of the same weights.
        sizes: How many filters each weight has. Without it, the counts of channels in the
            study are not counts, but parts of a million.

    Raises:
        StudyConflictError: Two files give one weight two losses at one ratio.
    """
    paths = [path] if isinstance(path, str | Path) else list(path)
    losses, notes = _together(paths)
    if not losses:
        raise StudyError(
            f"there are no losses in {', '.join(repr(str(one)) for one in paths) or 'no file'}",
            fix="give a file of sensitivities that PaddleSlim has written something to",
        )
    if sizes is None:
        notes.append("sizes are not known: counts of channels are parts of a million")
    asked: dict[str, dict[float, int]] = {}
    cells: list[Cell] = []
    for name, row in losses.items():
        size = PARTS if sizes is None else _size(sizes, name)
        asked[name] = {ratio: min(size - 1, round(size * ratio)) for ratio in row}
        more, odd = _cells(name, row, asked[name])
        cells += more
        notes += odd
    with Store.open_or_create(study, _header(losses, sizes, notes)) as store:
        with store.transaction():
            store.set_baseline(0.0)
            store.ask(asked)
            store.add(cells)
        return Study.of(store)


def _together(paths: Sequence[str | Path]) -> tuple[Losses, list[str]]:
    """Return what is in all the files, and what was odd."""
    losses: Losses = {}
    notes = ["imported from PaddleSlim"]
    source: dict[tuple[str, float], str] = {}
    for path in map(str, paths):
        found = read_sensitivities(path)
        notes += found.repaired
        for name, row in found.losses.items():
            known = losses.setdefault(name, {})
            for ratio, loss in row.items():
                first = source.setdefault((name, ratio), path)
                if not equal(known.setdefault(ratio, loss), loss):
                    raise StudyConflictError(
                        f"{name!r} at ratio {ratio} loses {known[ratio]!r} in {first!r}, and "
                        f"{loss!r} in {path!r}",
                        fix="leave one of the two files out, or import them as two studies",
                    )
    return {name: row for name, row in losses.items() if row}, notes


def _size(sizes: Mapping[str, int], name: str) -> int:
    size = sizes.get(name)
    if size is None:
        raise UnknownNameError(
            f"sizes does not say how many filters {name!r} has",
            fix=f"add it, or give no sizes at all; the nearest there are {nearest(name, sizes)}",
        )
    return size


def _cells(
    name: str, row: Mapping[float, float], counts: Mapping[float, int]
) -> tuple[list[Cell], list[str]]:
    """Return a cell for each count of channels, and what had to be left out."""
    found: dict[int, float] = {}
    notes = []
    for ratio, loss in sorted(row.items()):
        removed = counts[ratio]
        before = found.setdefault(removed, loss)
        if removed == 0 and loss != 0:
            notes.append(f"{name!r} lost {loss!r} at ratio {ratio}, which removes no channel")
        elif not equal(before, loss):
            found[removed] = max(before, loss, key=harm)
            notes.append(
                f"{name!r} lost {before!r} and {loss!r} with the same {removed} channels removed; "
                f"{found[removed]!r} is kept"
            )
    cells = [Cell(name, removed, EXACT, loss) for removed, loss in found.items() if removed]
    return cells, notes


def _header(losses: Losses, sizes: Mapping[str, int] | None, notes: Sequence[str]) -> Header:
    identity = Identity(UNKNOWN, UNKNOWN, RELATIVE_LOSS, False, UNKNOWN)
    groups = tuple(
        GroupRow(name, (name,), PARTS if sizes is None else sizes[name], 0, 0) for name in losses
    )
    return Header(identity, groups, (), 0, 0, note="; ".join(notes))

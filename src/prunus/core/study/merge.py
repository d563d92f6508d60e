"""The union of studies: what several processes or machines measured, in one file.

Any order and any grouping of the files gives the same study, and a file twice is a file
once. So whatever is chosen between two files is chosen by what is in them, never by which
came first; and where nothing tells which of them is right, nothing is written.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from prunus.core.errors import StudyConflictError, StudyError, StudyMismatchError
from prunus.core.study.cells import Baseline, Cell, Key, conflict, disagree, equal, preference
from prunus.core.study.files import is_vacant, new_file
from prunus.core.study.header import Header
from prunus.core.study.progress import BatchRow
from prunus.core.study.store import Store
from prunus.core.study.study import Study

__all__ = ["merge"]

_Place = tuple[str, int, Key | None]
"""The order of the samples, the batch, and the cell or the whole model."""

_FIX = (
    "the two ran different code, data or hardware: keep one of the files, or measure anew in a "
    "new study"
)


def merge(paths: str | Path | Iterable[str | Path], into: str | Path) -> Study:
    """Write everything that the studies hold into one file, and return that.

    A file that is there already takes part in the union; `into` may be one of `paths`.
    It is changed in one transaction, and a new one appears once it is whole.

    Raises:
        StudyMismatchError: The files are studies of different models, data or criteria.
        StudyConflictError: Two files give two values for what was measured once.
    """
    into = Path(into)
    several = [paths] if isinstance(paths, str | Path) else paths
    distinct = {os.path.realpath(path): Path(path) for path in several}
    if not distinct:
        raise StudyError("there is no study to merge", fix="give the path of one study or more")
    is_there = not is_vacant(into)
    if is_there:
        distinct.setdefault(os.path.realpath(into), into)
    studies = {real: Study.open(path) for real, path in distinct.items()}
    header = _header(list(studies.values()))
    if is_there:
        studies.pop(os.path.realpath(into))
        with Store.open(into) as store:
            _fill(store, list(studies.values()), header)
    else:
        with new_file(into) as part, Store.open_or_create(part, header) as store:
            _fill(store, list(studies.values()), header)
    return Study.open(into)


def _header(studies: Sequence[Study]) -> Header:
    """Return one header for all: every note, and of what else may differ the last as text."""
    first = studies[0]
    for other in studies[1:]:
        found = first.header.difference(
            other.header, f"in {str(first.path)!r}", f"in {str(other.path)!r}"
        )
        if found:
            raise StudyMismatchError(
                f"these are two studies; what differs is {found}",
                fix="merge studies of one model, data set, metric and criterion, with the same "
                "options",
            )
    lines = {line for one in studies for line in one.header.note.splitlines()}
    last = max((one.header for one in studies), key=Header.to_json)
    return replace(last, note="\n".join(sorted(lines)))


def _fill(store: Store, others: Sequence[Study], header: Header) -> None:
    """Bring all that others know into a store, or leave it as it is."""
    with store.transaction():
        # What is in the store is read again now that nobody else can write to it.
        studies = [*others, Study.of(store)]
        if store.header != header:
            store.replace_header(header)
        baseline = _baseline(studies)
        if baseline is not None:
            store.set_baseline(*baseline)
        store.ask(_asked(studies))
        store.add(_cells(studies))
        for name, values in _estimates(studies).items():
            store.put_estimates(name, values)
        origin: dict[_Place, Path] = {}
        for one in others:
            with Store.open(one.path, readonly=True) as source:
                _copy_progress(source, store, origin)


def _baseline(studies: Iterable[Study]) -> Baseline | None:
    known = [(one.whole, one.path) for one in studies if one.whole is not None]
    for whole, path in known[1:]:
        first, where = known[0]
        if not equal(first.metric, whole.metric):
            raise StudyConflictError(
                f"the baseline is {first.metric!r} in {str(where)!r}, and {whole.metric!r} in "
                f"{str(path)!r}",
                fix=_FIX,
            )
    return max((whole for whole, _ in known), key=lambda whole: whole.samples, default=None)


def _asked(studies: Iterable[Study]) -> Mapping[str, Mapping[float, int]]:
    found: dict[str, dict[float, int]] = {}
    source: dict[tuple[str, float], Path] = {}
    for one in studies:
        for group, counts in one.asked.items():
            known = found.setdefault(group, {})
            for ratio, removed in counts.items():
                first = source.setdefault((group, ratio), one.path)
                if known.setdefault(ratio, removed) != removed:
                    raise StudyConflictError(
                        f"ratio {ratio} of group {group!r} stands for {known[ratio]} channels in "
                        f"{str(first)!r}, and for {removed} in {str(one.path)!r}",
                        fix="merge studies that were asked with the same options, such as align",
                    )
    return found


def _cells(studies: Iterable[Study]) -> list[Cell]:
    """Return what says most of each cell, if nothing that says as much contradicts it."""
    known: dict[Key, list[tuple[Cell, Path]]] = {}
    for one in studies:
        for key, cell in one.known.items():
            known.setdefault(key, []).append((cell, one.path))
    found = []
    for claims in known.values():
        best, where = max(claims, key=lambda claim: preference(claim[0]))
        for cell, path in claims:
            if disagree(best, cell):
                raise conflict(best, cell, f"in {str(where)!r}", f"in {str(path)!r}")
        found.append(best)
    return found


def _estimates(studies: Iterable[Study]) -> Mapping[str, Mapping[Key, float]]:
    """Return all guesses; of two, the larger, for neither was measured."""
    found: dict[str, dict[Key, float]] = {}
    for one in studies:
        for name, values in one.estimates.items():
            known = found.setdefault(name, {})
            for key, value in values.items():
                known[key] = max(
                    value, known.get(key, value), key=lambda guess: (not math.isnan(guess), guess)
                )
    return found


def _copy_progress(source: Store, store: Store, origin: dict[_Place, Path]) -> None:
    """Bring in what samples scored so far, if nothing that is there contradicts it."""
    with source.transaction(write=False):
        for order in source.orders():
            known = store.batches(order)
            for position, batch in source.batches(order).items():
                place: _Place = (order, position, None)
                if position in known and not _same_batch(known[position], batch):
                    raise _contradiction(place, origin.get(place, store.path), source.path)
                there = store.in_batch(order, position) if position in known else {}
                scores = source.in_batch(order, position)
                for key in scores.keys() & there.keys():
                    if not np.array_equal(there[key], scores[key], equal_nan=True):
                        place = (order, position, key)
                        raise _contradiction(place, origin.get(place, store.path), source.path)
                store.put_batch(order, position, batch.digest, batch.baseline, scores)
                origin |= {(order, position, key): source.path for key in (None, *scores)}


def _same_batch(a: BatchRow, b: BatchRow) -> bool:
    if a.baseline is None or b.baseline is None:
        return a.digest == b.digest
    return a.digest == b.digest and np.array_equal(a.baseline, b.baseline, equal_nan=True)


def _contradiction(place: _Place, a: Path, b: Path) -> StudyConflictError:
    order, position, key = place
    what = "its data or its baseline" if key is None else f"the scores of {key}"
    return StudyConflictError(
        f"batch {position} of order {order!r} is another in {str(a)!r} than in {str(b)!r}: "
        f"{what} differ",
        fix=_FIX,
    )

"""The study file: what is measured is written the moment it is known, and is never lost."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from prunus.core.errors import StudyConflictError, StudyMismatchError
from prunus.core.study.cells import (
    EXACT,
    NOTHING,
    Baseline,
    Cell,
    Key,
    better,
    equal,
    measured,
    plain,
)
from prunus.core.study.codec import ratio_key, seal, to_column, to_number
from prunus.core.study.database import Database
from prunus.core.study.header import Header
from prunus.core.study.progress import Progress

__all__ = ["Store"]


class Store(Progress):
    """One study file, open. Several processes may have it open, and write to it."""

    def __init__(self, database: Database, header: Header) -> None:
        super().__init__(database, header)
        self.path = database.path
        self.header = header

    @classmethod
    def open_or_create(cls, path: str | Path, header: Header) -> Store:
        """Make the file, or go on with it where it is of the same model, data and criterion."""
        text = header.to_json()
        return cls._opened(Database(path, create=True), lambda database: _resumed(database, text))

    @classmethod
    def open(cls, path: str | Path, *, readonly: bool = False) -> Store:
        """Open a file that is there, whatever it is a study of."""
        return cls._opened(Database(path, readonly=readonly), _checked)

    @classmethod
    def _opened(cls, database: Database, read: Callable[[Database], Header]) -> Store:
        try:
            store = cls(database, read(database))
            store._check_rows()
            return store
        except BaseException:
            database.close()
            raise

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file; nothing waits to be written."""
        self._database.close()

    @contextmanager
    def transaction(self, *, write: bool = True) -> Iterator[None]:
        """Make several calls one: all of it is written, or nothing; or read, of one moment."""
        with self._database.transaction(write=write):
            yield

    def replace_header(self, header: Header) -> None:
        """Write another header of the same identity and groups: costs, versions, a note.

        Raises:
            StudyMismatchError: It is of another study.
        """
        _refuse_another(self.path, self.header, header)
        with self._database.transaction():
            self._database.rows("DELETE FROM header")
            _write_header(self._database, header.to_json())
        self.header = header

    @property
    def baseline(self) -> Baseline | None:
        """Return what the whole model scores, once that is known."""
        for metric, samples in self._sealed("SELECT metric, samples, seal FROM baseline"):
            with self._believing():
                return Baseline(plain(to_number(metric)), samples)
        return None

    def set_baseline(self, metric: float, samples: int = 0) -> None:
        """Write what the whole model scores; a second time only the same may come."""
        metric = measured(metric, "baseline")
        with self._database.transaction():
            known = self.baseline
            if known is not None and not equal(known.metric, metric):
                raise StudyConflictError(
                    f"the baseline of {str(self.path)!r} is {known.metric!r}, and the same model "
                    f"on the same data now scores {metric!r}",
                    fix="evaluate without randomness (shuffled or cut-off data, dropout, other "
                    "hardware), or begin a new study",
                )
            if known is None or samples > known.samples:
                self._database.rows("DELETE FROM baseline")
                row = (to_column(metric), int(samples))
                self._database.insert("baseline", [self._sealed_row(row)])

    def ask(self, ratios: Mapping[str, Mapping[float, int]]) -> None:
        """Remember how many channels each ratio stands for: {group: {ratio: removed}}.

        Where that is none, there is nothing to measure: the cell is known from now on.
        """
        with self._database.transaction():
            known = self.asked()
            rows = []
            for group, counts in ratios.items():
                for ratio, count in counts.items():
                    rounded, removed = ratio_key(ratio), self.known(Key(group, count)).removed
                    before = known.setdefault(group, {}).setdefault(rounded, removed)
                    if before != removed:
                        raise StudyConflictError(
                            f"ratio {rounded} of group {group!r} stood for {before} channels, and "
                            f"now for {removed}",
                            fix="ask with the options of before, such as align, or begin a new "
                            "study",
                        )
                    rows.append((group, rounded, removed))
            self._database.insert("asked", [self._sealed_row(row) for row in rows], "REPLACE")
            self.add(Cell(group, 0, NOTHING, None) for group, _, removed in rows if not removed)

    def asked(self) -> dict[str, dict[float, int]]:
        """Return every ratio that was asked, rounded, and the channels it stands for."""
        found: dict[str, dict[float, int]] = {group.name: {} for group in self.header.groups}
        query = "SELECT grp, ratio, removed, seal FROM asked ORDER BY grp, ratio"
        for group, ratio, removed in self._sealed(query):
            found.setdefault(group, {})[ratio] = removed
        return {group: counts for group, counts in found.items() if counts}

    def cells(self) -> dict[Key, Cell]:
        """Return every cell that is known."""
        return {cell.key: cell for cell in self._cells(_CELLS)}

    def add(self, cells: Iterable[Cell]) -> None:
        """Write cells, all or none; what says more about a cell takes the place of what is there.

        The scores of a cell that was measured on every sample go in the same moment: it is
        finished, or it is in progress, and never both.
        """
        with self._database.transaction():
            for cell in cells:
                self.known(cell.key)
                query = f"{_CELLS} WHERE grp = ? AND removed = ?"
                known = next(self._cells(query, *cell.key), None)
                best = cell if known is None else self._better(known, cell)
                if best != known:
                    row = _columns(best)
                    self._database.insert("cells", [self._sealed_row(row)], "REPLACE")
                if best.kind == EXACT:
                    self._finish(cell.key)

    def _better(self, known: Cell, cell: Cell) -> Cell:
        try:
            return better(known, cell)
        except StudyConflictError as error:
            raise StudyConflictError(
                f"{error.problem}, in {str(self.path)!r}", fix=error.fix
            ) from error

    def _cells(self, query: str, *values: Any) -> Iterator[Cell]:
        for row in self._sealed(query, *values):
            group, removed, kind, metric, samples, low, high, seconds, host, note = row
            with self._believing():
                score, least, most = to_number(metric), to_number(low), to_number(high)
                cell = Cell(group, removed, kind, score, samples, least, most, seconds, host, note)
            yield cell


_CELLS = (
    "SELECT grp, removed, kind, metric, samples, low, high, seconds, host, note, seal FROM cells"
)


def _columns(cell: Cell) -> tuple[Any, ...]:
    return (
        cell.group,
        cell.removed,
        cell.kind,
        to_column(cell.metric),
        cell.samples,
        cell.low,
        cell.high,
        cell.seconds,
        cell.host,
        cell.note,
    )


def _resumed(database: Database, text: str) -> Header:
    header = Header.from_json(text)
    if _made(database, text):
        return header
    known = _checked(database)
    _refuse_another(database.path, known, header)
    return known


def _refuse_another(path: Path, known: Header, header: Header) -> None:
    difference = known.difference(header)
    if difference:
        raise StudyMismatchError(
            f"{str(path)!r} is another study; what differs is {difference} (the study "
            f"is of model {known.identity.model:.12} and data {known.identity.data:.12}, and here "
            f"are model {header.identity.model:.12} and data {header.identity.data:.12})",
            fix="give the path of a new file, or the model, data and options that this study is of",
        )


def _made(database: Database, text: str) -> bool:
    """Make the tables of an empty file, or tell that it has some; then it is only read."""
    if not database.is_empty():
        return False
    database.give_room_back()
    with database.transaction():
        if not database.is_empty():  # another process was faster
            return False
        database.build()
        _write_header(database, text)
    return True


def _checked(database: Database) -> Header:
    with database.transaction(write=False):
        database.check()
        return _read_header(database)


def _write_header(database: Database, text: str) -> None:
    database.insert("header", [(text, seal(text))])


def _read_header(database: Database) -> Header:
    found = database.rows("SELECT json, seal FROM header")
    if len(found) != 1 or seal(found[0][0]) != found[0][1]:
        raise database.damaged("its header is not what was written")
    return Header.from_json(found[0][0])

"""Work in progress: what each sample scored, batch by batch, until all of a cell is measured.

An engine that reads the data once goes over all cells at the same time. Without these
rows, to be killed in the last batch would lose everything.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from prunus.core.errors import StudyConflictError, StudyError, nearest
from prunus.core.study.cells import EXACT, Key, measured, plain
from prunus.core.study.codec import pack, seal, to_column, to_number, unpack
from prunus.core.study.database import TABLES, Database
from prunus.core.study.header import Header

__all__ = ["BatchRow", "Progress"]


class BatchRow(NamedTuple):
    """A batch that has been seen: what was in it, and what the whole model scored."""

    digest: str
    baseline: NDArray[np.float64] | None


class Progress:
    """The part of the store that has no scores left once all is measured, and the estimates."""

    def __init__(self, database: Database, header: Header) -> None:
        self._database = database
        self._sizes = {group.name: group.size for group in header.groups}
        # So that no row is believed below the header of another study.
        self._salt = seal(header.essence())

    def put_batch(
        self,
        order: str,
        position: int,
        digest: str,
        baseline: ArrayLike | None,
        scores: Mapping[Key, ArrayLike],
    ) -> None:
        """Write what each sample of one batch scored, in one transaction.

        `order` names the order of the samples, `position` the batch in it, and `digest`
        what is in the batch. What is there already stays, and a cell that was measured
        on every sample takes no more.
        """
        packed = None if baseline is None else _packed(baseline, "the baseline")
        position = int(position)
        rows = {self.known(key): _packed(values, str(key)) for key, values in scores.items()}
        with self._database.transaction():
            self._put_batch_row(order, position, digest, packed)
            exact = self._exact()
            self._put_scores(
                (order, position, *key, data) for key, data in rows.items() if key not in exact
            )

    def batches(self, order: str) -> dict[int, BatchRow]:
        """Return the batches of one order that have been seen, by position."""
        query = "SELECT run, position, digest, baseline, seal FROM batches WHERE run = ?"
        found = {}
        for row in self._sealed(query, order):
            _, position, digest, data = row
            with self._believing():
                found[position] = BatchRow(digest, None if data is None else unpack(data))
        return found

    def orders(self) -> list[str]:
        """Return the orders of samples of which batches have been seen."""
        query = "SELECT DISTINCT run FROM batches ORDER BY run"
        return [order for (order,) in self._database.rows(query)]

    def in_batch(self, order: str, position: int) -> dict[Key, NDArray[np.float64]]:
        """Return what each sample of one batch scored, by cell."""
        query = (
            "SELECT run, position, grp, removed, data, seal FROM scores "
            "WHERE run = ? AND position = ?"
        )
        found = {}
        for _, _, group, removed, data in self._sealed(query, order, position):
            with self._believing():
                found[Key(group, removed)] = unpack(data)
        return found

    def scores(self, order: str, key: Key) -> dict[int, NDArray[np.float64]]:
        """Return what each sample scored so far in one cell, by position of the batch."""
        # From the batches to the scores, never the other way: that would read all scores.
        query = (
            "SELECT s.run, s.position, s.grp, s.removed, s.data, s.seal FROM batches b "
            "CROSS JOIN scores s ON s.run = b.run AND s.position = b.position "
            "AND s.grp = ? AND s.removed = ? WHERE b.run = ?"
        )
        found = {}
        for row in self._sealed(query, *self.known(key), order):
            with self._believing():
                found[row[1]] = unpack(row[4])
        return found

    def progress(self, order: str) -> dict[Key, set[int]]:
        """Return the batches that each cell has seen, of cells not yet measured exactly."""
        exact = self._exact()
        found: dict[Key, set[int]] = {}
        query = "SELECT grp, removed, position FROM scores WHERE run = ?"
        for group, removed, position in self._database.rows(query, order):
            if (group, removed) not in exact:
                found.setdefault(Key(group, removed), set()).add(position)
        return found

    def put_estimates(self, name: str, values: Mapping[Key, float]) -> None:
        """Write guesses, which are never shown as measured."""
        rows = [
            (name, *self.known(key), to_column(measured(value, f"estimate of {key}")))
            for key, value in values.items()
        ]
        with self._database.transaction():
            self._database.insert("estimates", [self._sealed_row(row) for row in rows], "REPLACE")

    def estimates(self, name: str) -> dict[Key, float]:
        """Return the guesses of one kind, such as "taylor"."""
        query = "SELECT name, grp, removed, value, seal FROM estimates WHERE name = ?"
        found = {}
        for _, group, removed, value in self._sealed(query, name):
            with self._believing():
                found[Key(group, removed)] = plain(to_number(value))
        return found

    def estimate_names(self) -> list[str]:
        """Return the kinds of guesses that there are."""
        query = "SELECT DISTINCT name FROM estimates ORDER BY name"
        return [name for (name,) in self._database.rows(query)]

    def known(self, key: Key) -> Key:
        """Return the key in plain numbers, if the study can have such a cell.

        Raises:
            StudyError: There is no such group, or it has not that many channels.
        """
        group, removed = key
        size = self._sizes.get(group)
        if size is None:
            raise StudyError(
                f"the study {str(self._database.path)!r} has no group {group!r}",
                fix=f"the nearest are {nearest(group, self._sizes)}",
            )
        if removed not in range(size):
            raise StudyError(
                f"{Key(group, removed)} cannot be: it has {size}, and one stays",
                fix=f"remove 0 to {size - 1} channels",
            )
        return Key(group, int(removed))

    def _finish(self, key: Key) -> None:
        """Forget the scores of a cell that was measured on every sample."""
        query = (
            "DELETE FROM scores WHERE grp = ? AND removed = ? AND (run, position) IN "
            "(SELECT run, position FROM batches)"
        )
        self._database.rows(query, *key)

    def _exact(self) -> set[tuple[Any, ...]]:
        query = "SELECT grp, removed FROM cells WHERE kind = ?"
        return set(self._database.rows(query, EXACT))

    def _put_batch_row(
        self, order: str, position: int, digest: str, baseline: bytes | None
    ) -> None:
        query = "SELECT digest, baseline FROM batches WHERE run = ? AND position = ?"
        known = self._database.rows(query, order, position)
        if known and known[0][0] != digest:
            raise StudyConflictError(
                f"batch {position} of order {order!r} held other data before: {known[0][0]:.12}, "
                f"and now {digest:.12}",
                fix="give the same batches in the same order each time (no shuffling, no "
                "random augmentation), or begin a new study",
            )
        if not known or known[0][1] is None:
            row = (order, position, digest, baseline)
            self._database.insert("batches", [self._sealed_row(row)], "REPLACE")

    def _put_scores(self, rows: Iterable[tuple[Any, ...]]) -> None:
        self._database.insert("scores", [self._sealed_row(row) for row in rows], "IGNORE")

    def _sealed_row(self, columns: Iterable[Any]) -> tuple[Any, ...]:
        columns = tuple(columns)
        return (*columns, seal(self._salt, *columns))

    def _check_rows(self) -> None:
        """Look at every row: one with a damaged key would be found by nobody, and not be missed."""
        for table in TABLES:
            if table != "header":
                for row in self._database.each(table):
                    self._unsealed(row)

    def _sealed(self, query: str, *values: Any) -> Iterator[tuple[Any, ...]]:
        """Yield rows without their last column, the seal."""
        yield from map(self._unsealed, self._database.rows(query, *values))

    def _unsealed(self, row: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return a row without its seal, if it is what was written."""
        columns = row[:-1]
        if seal(self._salt, *columns) != row[-1]:
            raise self._database.damaged(f"the row {columns!r:.80} is not what was written")
        return columns

    @contextmanager
    def _believing(self) -> Iterator[None]:
        """Take what cannot have been written for damage."""
        try:
            yield
        except (TypeError, ValueError, StudyError) as error:
            raise self._database.damaged(error) from error


def _packed(values: ArrayLike, what: str) -> bytes:
    try:
        return pack(values)
    except (TypeError, ValueError) as error:
        raise StudyError(
            f"the scores of {what} cannot be kept: {error}",
            fix="return one number a sample from the metric",
        ) from error

"""One SQLite file, with transactions, and every fault in words.

NOTE: the rollback journal and not the write-ahead log, so that a study is one file that
can be copied, and that works on network disks. A process that is killed leaves either
the old or the new state: SQLite rolls back what was begun when the file is next opened.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from prunus.core.errors import StudyError

__all__ = ["APPLICATION", "SCHEMA", "Database"]

APPLICATION = int.from_bytes(b"Prun", "big")
"""Written in the file's header, where `file` and others look."""
SCHEMA = 1
SYNCHRONOUS = "FULL"
"""Wait until the disk has it: what is written survives the end of the power too."""
BUSY_SECONDS = 60.0
"""How long to wait for another process that writes."""

TABLES = {
    "header": "json TEXT, seal INTEGER",
    "baseline": "metric REAL, samples INTEGER, seal INTEGER",
    "asked": "grp TEXT, ratio REAL, removed INTEGER, seal INTEGER, PRIMARY KEY (grp, ratio)",
    "cells": "grp TEXT, removed INTEGER, kind TEXT, metric REAL, samples INTEGER, low REAL, "
    "high REAL, seconds REAL, host TEXT, note TEXT, seal INTEGER, PRIMARY KEY (grp, removed)",
    "batches": "run TEXT, position INTEGER, digest TEXT, baseline BLOB, seal INTEGER, "
    "PRIMARY KEY (run, position)",
    # In the order in which batches come, so that writing one touches few pages.
    "scores": "run TEXT, position INTEGER, grp TEXT, removed INTEGER, data BLOB, seal INTEGER, "
    "PRIMARY KEY (run, position, grp, removed)",
    "estimates": "name TEXT, grp TEXT, removed INTEGER, value REAL, seal INTEGER, "
    "PRIMARY KEY (name, grp, removed)",
}

_FAULTS = {
    "is full": (
        "there is no room left to write {path}",
        "free some room; what was measured is safe, and the same command goes on from there",
    ),
    "readonly": (
        "{path}, or its folder, may not be written to",
        "copy the file to a folder that may be written to, with the file of the same name and "
        "'-journal' where there is one, and give the path of the copy",
    ),
    "unable to open": (
        "{path} cannot be opened: {error}",
        "give a path in a folder that exists and may be written to",
    ),
    "locked": (
        "{path} has been locked by another process for {wait:.0f} seconds",
        "wait for the other process or end it, then run the same command again; nothing is lost",
    ),
    "disk I/O": (
        "{path} cannot be read or written: {error}",
        "see whether the disk is full, at a limit or failing; what was measured before is safe, "
        "and the same command goes on from there",
    ),
    "not a database": (
        "{path} is not a study",
        "give the path of a file that prunus.analyze wrote, or of one that does not exist yet",
    ),
    "": (
        "{path} is damaged: {error}",
        "take a copy from before, or move the file away and measure again; it was left untouched",
    ),
}


class Database:
    """A connection to one study file."""

    def __init__(self, path: str | Path, *, create: bool = False, readonly: bool = False) -> None:
        self.path = Path(path)
        try:
            self._look(create)
        except OSError as error:
            raise self._error("unable to open", error) from error
        mode = "rwc" if create else "rw"
        with self._in_words():
            # Where the file may only be read, SQLite does with that. To ask for no more
            # would be wrong: whoever opens first after a crash must roll back.
            self._connection = sqlite3.connect(
                f"{self.path.absolute().as_uri()}?mode={mode}",
                uri=True,
                timeout=BUSY_SECONDS,
                isolation_level=None,
            )
        try:
            with self._in_words():
                self._connection.execute(f"PRAGMA synchronous = {SYNCHRONOUS}")
                if readonly:
                    self._connection.execute("PRAGMA query_only = ON")
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()

    @contextmanager
    def transaction(self, *, write: bool = True) -> Iterator[None]:
        """Do all of it or nothing; inside another transaction, be a part of that."""
        # A write is announced at once: to find out later that another process writes
        # would mean to have read what is no longer true.
        begin, end, undo = ("BEGIN IMMEDIATE" if write else "BEGIN"), "COMMIT", ["ROLLBACK"]
        if self._connection.in_transaction:
            begin, end = "SAVEPOINT part", "RELEASE part"
            undo = ["ROLLBACK TO part", "RELEASE part"]
        with self._in_words():
            self._connection.execute(begin)
            try:
                yield
                self._connection.execute(end)
            except BaseException:
                # A full disk has undone it all already, and there is nothing left to undo.
                with suppress(sqlite3.Error):
                    for step in undo:
                        self._connection.execute(step)
                raise

    def rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """Return all rows at once: a row that is waited for would keep writers out."""
        with self._in_words():
            return self._connection.execute(query, values).fetchall()

    def each(self, table: str) -> Iterator[tuple[Any, ...]]:
        """Yield all rows of a table, which may be too many to hold."""
        with self._in_words():
            yield from self._connection.execute(f"SELECT * FROM {table}")  # noqa: S608

    def insert(self, table: str, rows: Iterable[tuple[Any, ...]], otherwise: str = "FAIL") -> None:
        """Write rows; `otherwise` says what happens to one that is there: REPLACE or IGNORE."""
        places = ", ".join("?" * (TABLES[table].split(", PRIMARY")[0].count(",") + 1))
        with self._in_words():
            self._connection.executemany(
                f"INSERT OR {otherwise} INTO {table} VALUES ({places})",  # noqa: S608
                rows,
            )

    def give_room_back(self) -> None:
        """Have room given back to the disk; this can be told to an empty file only."""
        self.rows("PRAGMA auto_vacuum = FULL")

    def is_empty(self) -> bool:
        """Tell whether the file holds nothing yet, of anybody."""
        return not (self._pragma("application_id") or self._pragma("user_version")) and not (
            self.rows("SELECT name FROM sqlite_master LIMIT 1")
        )

    def build(self) -> None:
        """Make the tables of an empty file."""
        self.rows(f"PRAGMA application_id = {APPLICATION}")
        self.rows(f"PRAGMA user_version = {SCHEMA}")
        for name in TABLES:
            self.rows(_create(name))

    def check(self) -> None:
        """Refuse a file that is not ours, not of this version, or not whole."""
        if self.is_empty():
            raise StudyError(
                f"{self._shown} is empty",
                fix="give the path of a study that has been written; prunus.analyze makes one",
            )
        if self._pragma("application_id") != APPLICATION:
            raise StudyError(
                f"{self._shown} is an SQLite file of another program, not a study",
                fix="give the path of a file that prunus.analyze wrote, or of one that does not "
                "exist yet",
            )
        schema = self._pragma("user_version")
        if schema != SCHEMA:
            age = "a newer" if schema > SCHEMA else "an older"
            raise StudyError(
                f"{self._shown} is a study of schema {schema}, and this version reads {SCHEMA}",
                fix=f"install {age} version of prunus, the one that wrote it, or measure again "
                "in a new file",
            )
        self._check_pages()

    def damaged(self, what: object) -> StudyError:
        """Return the error for content that cannot be what was written."""
        return self._error("", what)

    def _check_pages(self) -> None:
        found = self.rows("PRAGMA quick_check(1)")
        if found != [("ok",)]:
            raise self.damaged(found[0][0] if found else "its check says nothing")
        query = "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name"
        if self.rows(query) != [(_create(name),) for name in sorted(TABLES)]:
            raise self.damaged("its tables are not those of a study")

    def _pragma(self, name: str) -> int:
        return int(self.rows(f"PRAGMA {name}")[0][0])

    @property
    def _shown(self) -> str:
        return repr(str(self.path))

    def _look(self, create: bool) -> None:
        """Say what SQLite would only call unable to open."""
        if self.path.is_dir():
            raise StudyError(
                f"{self._shown} is a folder", fix="give the path of a file in it, such as a.study"
            )
        if not create and not self.path.exists():
            raise StudyError(
                f"there is no study at {self._shown}",
                fix="give the path of a file that prunus.analyze wrote; a relative one starts at "
                f"{str(Path.cwd())!r}",
            )
        if create and not self.path.absolute().parent.is_dir():
            raise StudyError(
                f"{self._shown} cannot be made: there is no folder {str(self.path.parent)!r}",
                fix="make the folder first, or choose one that exists",
            )

    @contextmanager
    def _in_words(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.ProgrammingError:
            raise  # a mistake of ours, not of the file
        except UnicodeDecodeError as error:
            # Of a damaged file, even what SQLite says of it may be no text.
            raise self.damaged(error) from error
        except sqlite3.DatabaseError as error:
            kind = next(kind for kind in _FAULTS if kind in str(error))
            raise self._error(kind, error) from error

    def _error(self, kind: str, error: object) -> StudyError:
        problem, fix = _FAULTS[kind]
        problem = problem.format(path=self._shown, error=error, wait=BUSY_SECONDS)
        return StudyError(problem, fix=fix)


def _create(name: str) -> str:
    keyed = " WITHOUT ROWID" if "PRIMARY KEY" in TABLES[name] else ""
    return f"CREATE TABLE {name} ({TABLES[name]}){keyed}"

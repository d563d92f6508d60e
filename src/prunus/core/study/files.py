"""Files that are written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from prunus.core.errors import StudyError

__all__ = ["is_vacant", "new_file", "write_whole"]


def write_whole(path: str | Path, data: bytes | str) -> None:
    """Write a file; one that is there is replaced only once the new one is on the disk."""
    with _part(path) as part:
        with part.open("wb") as file:
            file.write(data.encode("utf-8") if isinstance(data, str) else data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)


@contextmanager
def new_file(path: str | Path) -> Iterator[Path]:
    """Give the path of another file to write, which gets this name if all goes well.

    Raises:
        StudyError: Somebody else has made a file of this name meanwhile; it is not touched.
    """
    with _part(path) as part:
        yield part
        try:
            _appear(part, Path(path))
        except FileExistsError as error:
            raise StudyError(
                f"{str(path)!r} was made by another process meanwhile",
                fix="run the same command again: it takes what is there into account",
            ) from error


def _appear(part: Path, path: Path) -> None:
    """Give a file its name, unless something has that name by now."""
    if is_vacant(path) and path.exists():
        os.replace(part, path)
        return
    try:
        os.link(part, path)
    except FileExistsError:
        raise
    except OSError:  # a disk that gives each file one name only
        os.rename(part, path)


def is_vacant(path: str | Path) -> bool:
    """Tell whether there is no file of this name, or one with nothing in it."""
    return not os.path.exists(path) or (os.path.isfile(path) and not os.path.getsize(path))


@contextmanager
def _part(path: str | Path) -> Iterator[Path]:
    part = Path(path).with_name(f".{Path(path).name}.{os.getpid()}.part")
    try:
        yield part
    except OSError as error:
        raise StudyError(
            f"cannot write {str(path)!r}: {error}",
            fix="choose a folder that exists, may be written to and has room",
        ) from error
    finally:
        with suppress(OSError):  # where nothing could be written, nothing is to be taken away
            part.unlink(missing_ok=True)

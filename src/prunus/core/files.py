"""Files that are written whole or not at all.

Whoever kills us while we write, and a disk that fills up, leave the file that was there.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from prunus.core.errors import LoadError

__all__ = ["whole_file"]


@contextlib.contextmanager
def whole_file(path: str | Path) -> Iterator[Path]:
    """Give a path to write to; once that is on the disk, it becomes `path`.

    Raises:
        LoadError: Where it cannot be written.
    """
    path = Path(path)
    # The ending stays, for some writers look at it.
    part = path.with_name(f".{os.getpid()}.part.{path.name}")
    try:
        yield part
        _to_disk(part)
        os.replace(part, path)
        _to_disk(path.parent)
    except OSError as error:
        raise LoadError(
            f"cannot write {str(path)!r}: {error.strerror or error}",
            fix="choose a folder that exists, may be written to and has room",
        ) from error
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)


def _to_disk(path: Path) -> None:
    """Wait until the disk has it; a rename alone may come to the disk before the content."""
    if path.is_dir() and os.name == "nt":
        return  # there a folder cannot be opened
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

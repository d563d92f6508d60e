"""What a training writes down as it goes: a JSON line a note, and TensorBoard on request."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from prunus.core.errors import LoadError, MissingExtraError
from prunus.core.files import whole_file

__all__ = ["Log", "opened_log"]


class Log:
    """Notes with the step they belong to."""

    def __init__(self, file: IO[str], board: Any) -> None:
        self.file, self.board = file, board

    def note(self, kind: str, step: int, **values: Any) -> None:
        """Write one line; numbers go to TensorBoard as well."""
        try:
            self.file.write(json.dumps({"kind": kind, "step": step, **values}) + "\n")
            self.file.flush()
        except OSError as error:
            raise _unwritable(self.file.name, error) from error
        for name, value in values.items() if self.board is not None else ():
            if isinstance(value, int | float) and not isinstance(value, bool):
                self.board.add_scalar(f"{kind}/{name}", value, step)


@contextlib.contextmanager
def opened_log(folder: Path, step: int, *, tensorboard: bool) -> Iterator[Log]:
    """Go on with the log of a folder from a step; what was noted after it is taken out."""
    path = folder / "log.jsonl"
    _forget_after(path, step)
    try:
        file = path.open("a", encoding="utf-8")
    except OSError as error:
        raise _unwritable(path, error) from error
    with file:
        board = _board(folder / "tensorboard", step) if tensorboard else None
        try:
            yield Log(file, board)
        finally:
            if board is not None:
                board.close()


def _forget_after(path: Path, step: int) -> None:
    """Keep the notes up to a step: an interrupted run wrote more than its checkpoint knows."""
    if not path.is_file():
        return
    kept = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        with contextlib.suppress(ValueError, TypeError, KeyError):  # the last line may be torn
            if step and json.loads(line)["step"] <= step:
                kept.append(line + "\n")
    with whole_file(path) as part:
        part.write_text("".join(kept), encoding="utf-8")


def _board(folder: Path, step: int) -> Any:
    try:
        from tensorboardX import SummaryWriter
    except ImportError as error:
        raise MissingExtraError(
            "TensorBoard logs are written with tensorboardX, which is not installed",
            fix="pip install 'prunus[train]', or set train.tensorboard to false",
        ) from error
    return SummaryWriter(str(folder), purge_step=step)


def _unwritable(path: str | Path, error: OSError) -> LoadError:
    return LoadError(
        f"cannot write {str(path)!r}: {error.strerror or error}",
        fix="choose a folder that may be written to and has room: train.folder",
    )

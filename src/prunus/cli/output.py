"""What a command says in the end: words and tables for people, or JSON for scripts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from prunus.cli.text import console, share, short, table
from prunus.core.errors import LoadError

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["Printer", "before_and_after", "bytes_of", "figures_data", "made_folder"]


class Printer:
    """Collects what a command has to say; with `as_json`, prints that as JSON at the end."""

    def __init__(self, as_json: bool) -> None:
        self.as_json = as_json
        self.data: dict[str, Any] = {}
        self._out: Console | None = None

    @property
    def out(self) -> Console:
        """Return where to print for people."""
        if self._out is None:
            self._out = console()
        return self._out

    def say(self, text: str = "") -> None:
        """Print a line for people."""
        if not self.as_json:
            self.out.print(text)

    def table(self, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Print a table for people."""
        if not self.as_json and rows:
            table(self.out, header, rows)

    def end(self, following: str = "", **data: Any) -> None:
        """Say what comes next, or print all data as JSON."""
        self.data.update(data)
        if self.as_json:
            import json

            if following:
                self.data["next"] = following
            typer.echo(json.dumps(_plain(self.data), indent=2, allow_nan=False))
        elif following:
            self.out.print(f"\nnext: {following}")


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def before_and_after(
    printer: Printer, names: Sequence[str], figures: Sequence[Any], metric: str
) -> None:
    """Print the table of the seeds: size, parameters, MACs, latency, accuracy."""
    first, last = figures[0], figures[-1]
    rows = [
        _row("file size", [one.file_bytes for one in figures], bytes_of),
        _row("parameters", [one.numel for one in figures], short),
    ]
    if all(one.macs is not None for one in figures):
        rows.append(_row("MACs", [one.macs for one in figures], short))
    for runtime in dict.fromkeys([*first.latency, *first.missing]):
        label = f"latency, {RUNTIMES.get(runtime, runtime)}"
        taken = [one.latency.get(runtime) for one in figures]
        if all(taken):
            row = [label, *(_milliseconds(one) for one in taken)]
            rows.append([*row, share(taken[-1].median, taken[0].median)])
        else:
            why = first.missing.get(runtime) or last.missing.get(runtime, "")
            rows.append([label, *("-" for _ in figures), str(why).splitlines()[0] if why else ""])
    if all(one.metric is not None for one in figures):
        change = last.metric - first.metric
        rows.append([metric, *(f"{one.metric:.4f}" for one in figures), f"{change:+.4f}"])
    printer.table(("", *names, "left"), rows)


RUNTIMES = {"torch": "PyTorch", "onnxruntime": "ONNX Runtime"}


def _row(name: str, values: Sequence[int], written: Any) -> list[str]:
    return [name, *(written(value) for value in values), share(values[-1], values[0])]


def _milliseconds(taken: Any) -> str:
    """Write the median, and the quartiles around it."""
    low, middle, high = (1000 * one for one in (taken.low, taken.median, taken.high))
    digits = 3 if middle < 1 else 2 if middle < 10 else 1
    return f"{middle:.{digits}f} ms ({low:.{digits}f} to {high:.{digits}f})"


def figures_data(one: Any) -> dict[str, Any]:
    """Return figures for scripts."""
    return {
        "file_bytes": one.file_bytes,
        "numel": one.numel,
        "macs": one.macs,
        "metric": one.metric,
        "latency": {
            name: {
                "median": taken.median,
                "low": taken.low,
                "high": taken.high,
                "runs": taken.runs,
                "threads": taken.threads,
                "device": taken.device,
            }
            for name, taken in one.latency.items()
        },
        "missing": dict(one.missing),
    }


def bytes_of(number: float) -> str:
    """Write a size.

    >>> bytes_of(640), bytes_of(1_234_567)
    ('640 bytes', '1.23 MB')
    """
    written = short(number)
    return f"{written}B" if " " in written else f"{written} bytes"


def made_folder(folder: Path) -> None:
    """Make a folder for results, where it is not there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LoadError(
            f"cannot make the folder {str(folder)!r}: {error.strerror or error}",
            fix="choose a folder that may be written to: the key 'folder' of the YAML file",
        ) from error

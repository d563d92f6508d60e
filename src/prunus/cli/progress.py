"""How far a command is: a bar with the time left on a terminal, now and then a line elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prunus.core.engine.report import Tick
    from prunus.tasks.progress import Progress

__all__ = ["Bar", "duration"]

PAUSE = 10.0
"""Seconds between two lines where there is no terminal."""


class Bar:
    """Shows one task after the other, on the error stream, so that output can be piped."""

    def __init__(self) -> None:
        self._bar: Any = None
        self._task: Any = None
        self._label = ""
        self._told = 0.0

    def __enter__(self) -> Bar:
        if sys.stderr.isatty():
            self._bar = _rich_bar()
            self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def show(
        self,
        label: str,
        done: int,
        total: int | None,
        left: float | None = None,
        detail: str = "",
    ) -> None:
        """Show a state; cheap enough to be called at every step."""
        fresh, self._label = label != self._label, label
        rest = "" if left is None or done == total else f"about {duration(left)} left"
        if self._bar is not None:
            if fresh:
                self._bar.stop_task(self._task) if self._task is not None else None
                self._task = self._bar.add_task(label, total=total, rest="", detail="")
            self._bar.update(self._task, completed=done, total=total, rest=rest, detail=detail)
            return
        now = time.monotonic()
        if now - self._told < PAUSE and done != total:
            return
        self._told = now
        share = f"{done} of {total}" if total else str(done)
        words = [f"{label}: {share}", rest, detail]
        print(", ".join(word for word in words if word), file=sys.stderr, flush=True)  # noqa: T201

    def training(self, state: Progress) -> None:
        """Show a step of a training."""
        if state.phase == "test":
            return  # it is short, and the bar of the training stands where it was
        words = [f"epoch {state.epoch} of {state.epochs}"]
        if state.loss is not None:
            words.append(f"loss {state.loss:.3g}")
        if state.metric is not None:
            words.append(f"metric {state.metric:.4g}, best {state.best:.4g}")
        detail = ", ".join(words)
        self.show("train", state.step, state.steps, state.seconds_left, detail)

    def analysis(self, tick: Tick) -> None:
        """Show a moment of an analysis."""
        detail = f"{tick.rate:.0f} {'samples' if tick.unit == 'batches' else tick.unit}/s"
        if tick.worst:
            shown = ", ".join(f"{name} {loss:.2f}" for name, loss in tick.worst)
            detail += f"; most lost: {shown}"
        self.show(f"{tick.stage} ({tick.unit})", tick.done, tick.total, tick.seconds_left, detail)


def duration(seconds: float) -> str:
    """Write a time as one would say it.

    >>> duration(0.4), duration(75), duration(7300)
    ('1 s', '1 min 15 s', '2 h 2 min')
    """
    whole = max(1, round(seconds))
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest and minutes < 10 else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"


def _rich_bar() -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TaskProgressColumn(),
        TextColumn("{task.fields[rest]}"),
        TextColumn("{task.fields[detail]}", style="dim"),
        console=Console(stderr=True, highlight=False, markup=False, emoji=False),
        transient=True,
    )

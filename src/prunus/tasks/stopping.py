"""Ctrl-C and a polite end from outside: finish the step at hand, then stop."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

__all__ = ["StopRequest", "stop_requests"]


class StopRequest:
    """Whether somebody has asked to stop."""

    asked = False


@contextlib.contextmanager
def stop_requests() -> Iterator[StopRequest]:
    """Take SIGINT and SIGTERM as a request; a second one ends the program where it is.

    An exception in the middle of a step would leave half of the weights updated, and
    nothing could go on from there as if nothing had happened.
    """
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request  # signals reach the main thread only
        return
    before = {one: signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)}

    def ask(number: int, _: FrameType | None) -> None:
        if request.asked:
            signal.signal(number, before[signal.Signals(number)] or signal.SIG_DFL)
            signal.raise_signal(number)
        request.asked = True

    for one in before:
        signal.signal(one, ask)
    try:
        yield request
    finally:
        for one, handler in before.items():
            signal.signal(one, handler or signal.SIG_DFL)

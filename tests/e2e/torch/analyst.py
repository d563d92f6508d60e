"""Processes that analyse, for tests that disturb them, and what their studies hold."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from itertools import groupby
from pathlib import Path

import prunus
from prunus.core.engine.exact import ORDER
from prunus.core.errors import StudyError
from prunus.core.study.cells import EXACT
from prunus.core.study.store import Store

from . import analysing

PROGRAM = Path(analysing.__file__)
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    "OMP_NUM_THREADS": "1",
}


class Analyst:
    """A process that forks another for each analysis."""

    def __init__(self, weights, *, before=()):
        self._process = subprocess.Popen(
            [*before, sys.executable, str(PROGRAM), str(weights)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=ENVIRONMENT,
        )
        assert self._line() == ["ready"]

    def close(self):
        self._process.kill()
        self._process.communicate()

    def _line(self):
        return self._process.stdout.readline().split()

    def start(self, mode, path, **job):
        job = {"mode": mode, "path": str(path), **job}
        self._process.stdin.write(f"{json.dumps(job)}\n")
        self._process.stdin.flush()

    def finish(self, after=None, number=signal.SIGKILL, pause=0.0):
        """Return how the job ended, and what it said; after so many calls, send it a signal."""
        lines, calls, pid = [], 0, None
        while True:
            line = self._line()
            if line[0] == "end":
                return int(line[1]), lines
            if line[0] == "pid":
                pid = int(line[1])
            else:
                lines.append(line)
            calls += line[0] == "call"
            if pid and after is not None and calls >= after:
                time.sleep(pause)
                # A process that has ended is there until its parent has looked at it.
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
                after = None

    def run(self, mode, path, **job):
        self.start(mode, path, **job)
        return self.finish()


def evaluations(lines, mode=""):
    """Return how many evaluations there were, and how many of them before the last tag."""
    runs = [len(list(own)) for _, own in groupby(line[1] for line in lines if line[0] == "call")]
    if mode == "early":  # beside its cells, the whole model is scored once more
        runs = [max(1, run - 1) for run in runs]
    return sum(runs), sum(runs[:-1])


def holding(mode, path):
    """Return the evaluations of which the study has the result; in "states", all of a group."""
    if not path.exists() or not path.stat().st_size:
        return set()
    try:
        store = Store.open(path)
    except StudyError as error:
        if "is empty" not in error.problem:
            raise
        return set()  # the file was made, and nothing written to it
    with store:
        cells = store.cells()
        exact = {key for key, cell in cells.items() if cell.kind == EXACT}
        if mode == "opaque":
            return exact if store.baseline is None else exact | {"baseline"}
        if mode == "states":
            groups = {(None, key.group) for key in exact}
            return {(one, k) for one in groups | exact for k in range(analysing.BATCHES)}
        (order,) = store.orders() or [ORDER]
        count = analysing.BATCHES if order == ORDER else -(-analysing.SAMPLES // 100)
        known = store.batches(order)
        found = {(None, k) for k, batch in known.items() if batch.baseline is not None}
        found |= {(key, k) for key, seen in store.progress(order).items() for k in seen}
        return found | {(key, k) for key in exact for k in range(count)}


def content(path):
    """Return all that a study says, but how long it took and where."""
    study = prunus.Study.open(path)
    assert study.complete
    numbers = [
        (cell.key, cell.kind, cell.metric, cell.samples, cell.low, cell.high, cell.note)
        for cell in study.cells
    ]
    return study.whole, study.asked, numbers

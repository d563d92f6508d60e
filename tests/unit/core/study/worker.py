"""A process that measures, as an engine does, and is disturbed by tests.

    python worker.py PATH GROUPS [--limit BYTES] [--die] [--only FIRST STEP]

It goes on with the study at PATH, and says of each cell and batch when it measures it and
when it is in the file. With --limit no file may be written beyond that many bytes: that is
an error, or with --die the end of the process in the middle of writing.
"""

from __future__ import annotations

import argparse
import resource
import signal
import sys

import numpy as np

from prunus.core.errors import StudyError
from prunus.core.study.cells import EXACT, Cell, Key
from prunus.core.study.header import GroupRow, Header, Identity
from prunus.core.study.store import Store

COUNTS = range(1, 7)
BATCHES = 8
SAMPLES = 50


def header(groups):
    rows = tuple(
        GroupRow(f"layer{k}.weight", (f"layer{k}.weight",), 8, 1, 1) for k in range(groups)
    )
    return Header(Identity("model", "data", "top1", True, "l1"), rows, (), 1, 1)


def metric(key):
    return hash((int(key.group[5:-7]), key.removed)) % 1000 / 1000


def scores(position, key):
    return np.random.default_rng([position, key.removed, int(key.group[5:-7])]).random(SAMPLES)


def keys(groups):
    return [Key(group.name, removed) for group in header(groups).groups for removed in COUNTS]


def say(*words):
    sys.stdout.write(f"{' '.join(map(str, words))}\n")
    sys.stdout.flush()


def measure(store, mine):
    for position in range(BATCHES):
        seen = store.progress("order")
        wanted = [key for key in mine if key not in store.cells()]
        todo = [key for key in wanted if position not in seen.get(key, ())]
        if todo:
            say("scores", position)
            store.put_batch(
                "order", position, str(position), None, {key: scores(position, key) for key in todo}
            )
            say("scored", position)
    for key in mine:
        if key not in store.cells():
            say("measure", *key)
            store.add([Cell(*key, EXACT, metric(key), SAMPLES * BATCHES)])
            say("measured", *key)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("path")
    parser.add_argument("groups", type=int)
    parser.add_argument("--limit", type=int)
    parser.add_argument("--die", action="store_true")
    parser.add_argument("--only", type=int, nargs=2, default=(0, 1))
    options = parser.parse_args()
    if options.limit is not None:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (options.limit, options.limit))
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL if options.die else signal.SIG_IGN)
    try:
        say("ready")
        with Store.open_or_create(options.path, header(options.groups)) as store:
            store.set_baseline(0.5, SAMPLES * BATCHES)
            first, step = options.only
            measure(store, keys(options.groups)[first::step])
    except StudyError as error:
        say("error", str(error).replace("\n", " "))
        raise SystemExit(3) from None


if __name__ == "__main__":
    main()

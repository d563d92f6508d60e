"""A meter without a framework: what each sample scores in each cell is known beforehand."""

from __future__ import annotations

import hashlib

import numpy as np

from prunus.core.engine.meter import Readings
from prunus.core.study.cells import Key
from prunus.core.study.header import GroupRow, Header, Identity

__all__ = ["GROUPS", "HEADER", "KEYS", "FakeMeter", "scores_of"]

GROUPS = ("a", "b")
KEYS = [Key(group, removed) for group in GROUPS for removed in (2, 4, 6)]
HEADER = Header(
    Identity("0" * 64, "1" * 64, "top1", True, "l1"),
    tuple(GroupRow(name, (f"{name}.weight",), 8, 10, 10) for name in GROUPS),
    (),
    20,
    20,
)


def scores_of(key, samples, seed=0):
    """Zeros and ones: right less often, the more channels go."""
    removed = 0 if key is None else key.removed
    rng = np.random.default_rng([seed, removed, 0 if key is None else ord(key.group)])
    return (rng.random(samples) < 0.9 - removed / 20).astype(float)


class FakeMeter:
    """Batches are arrays of sample numbers; `readings` are what was read, in order."""

    notes = ()

    def __init__(self, samples=250, size=100, *, per_sample=True, scores=scores_of):
        self.samples, self.size, self.per_sample = samples, size, per_sample
        self.length = -(-samples // size)
        self.scores = scores
        self.readings = []
        self.stop = None
        self.broken = {}
        self.salt = ""

    def batches(self):
        yield from np.split(np.arange(self.samples), range(self.size, self.samples, self.size))

    def shuffled(self, seed, size):
        order = np.random.default_rng(seed).permutation(self.samples)
        parts = np.split(order, range(size, self.samples, size))
        return [lambda part=part: part for part in parts]

    def digest(self, batch):
        return hashlib.sha256(batch.tobytes() + self.salt.encode()).hexdigest()

    def read(self, batch, keys):
        if self.stop is not None and len(self.readings) == self.stop:
            raise KeyboardInterrupt
        self.readings.append((int(batch[0]) if len(batch) else -1, tuple(keys)))
        failures = {key: self.broken[key] for key in keys if key in self.broken}
        found = {key: self.of(key)[batch] for key in keys if key not in failures}
        return Readings(self.of(None)[batch], found, failures)

    def read_all(self, keys):
        if self.stop is not None and len(self.readings) == self.stop:
            raise KeyboardInterrupt
        self.readings.append(tuple(keys))
        values = {key: self.broken.get(key, float(self.of(key).mean())) for key in keys}
        return float(self.of(None).mean()), values, self.samples

    def of(self, key):
        return self.scores(key, self.samples)

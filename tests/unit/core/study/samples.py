"""A small study to try things on, and all that is in a study file."""

from __future__ import annotations

import dataclasses

import numpy as np

from prunus.core.study.cells import ADAPTIVE, BOUNDED, EXACT, FAILED, NOTHING, Cell, Key
from prunus.core.study.header import FrozenRow, GroupRow, Header, Identity
from prunus.core.study.store import Store
from prunus.core.study.study import Study

IDENTITY = Identity(
    "5f0c" * 16, "91aa" * 16, "top1", True, "l1", {"precision": "float32", "recalibrate": 0}
)
GROUPS = (
    GroupRow("stem.weight", ("stem.weight",), 8, 100, 10),
    GroupRow("a.weight", ("a.weight", "b.weight"), 16, 200, 20),
    GroupRow("qkv.weight[0:4]", ("qkv.weight",), 4, 50, 5),
    GroupRow("qkv.weight[4:8]", ("qkv.weight",), 4, 50, 5),
)
FROZEN = (FrozenRow("head.weight", "it makes the network's output", 10, 10),)
HEADER = Header(IDENTITY, GROUPS, FROZEN, 400, 40, {"macs": [1, 2]}, {"prunus": "0.2"}, "a note")


def header(**changes):
    """The header with another identity."""
    return dataclasses.replace(HEADER, identity=dataclasses.replace(IDENTITY, **changes))


def exact(group, removed, metric, **more):
    return Cell(group, removed, EXACT, metric, **{"samples": 100, **more})


def adaptive(group, removed, metric, low, high, samples=50, **more):
    return Cell(group, removed, ADAPTIVE, metric, samples, low, high, **more)


def bounded(group, removed, low=None, high=None):
    return Cell(group, removed, BOUNDED, None, 0, low, high)


def failed(group, removed, note="it ran out of memory"):
    return Cell(group, removed, FAILED, None, note=note)


def nothing(group):
    return Cell(group, 0, NOTHING, None)


def filled(path, *, baseline=0.9, header=HEADER):
    """A study with a cell of every kind, and one that is missing."""
    with Store.open_or_create(path, header) as store:
        if baseline is not None:
            store.set_baseline(baseline, 100)
        store.ask({"stem.weight": {0.05: 0, 0.25: 2, 0.5: 4, 0.75: 6}})
        store.ask({"a.weight": {0.25: 4, 0.5: 8, 0.75: 12}, "qkv.weight[0:4]": {0.5: 2}})
        store.add([exact("stem.weight", 2, 0.81), adaptive("stem.weight", 4, 0.45, 0.4, 0.5)])
        store.add([bounded("stem.weight", 6, high=0.5), failed("a.weight", 12)])
        store.add([exact("a.weight", 4, 0.9), exact("qkv.weight[0:4]", 2, 0.99)])
        store.put_estimates("taylor", {Key("stem.weight", 2): 1.0, Key("a.weight", 4): 0.5})
        store.put_batch("order", 0, "d0", [1, 0, 1], {Key("a.weight", 8): [1, 1, 0]})
    return path


def content(path):
    """Everything in a study, as values that compare."""
    with Store.open(path, readonly=True) as store:
        study = Study.of(store)
        orders = {order: store.batches(order) for order in store.orders()}
        return {
            "header": store.header,
            "baseline": repr(store.baseline),
            "asked": store.asked(),
            "cells": study.known,
            "estimates": repr(study.estimates),
            "batches": {
                (order, position): (row.digest, listed(row.baseline))
                for order, rows in orders.items()
                for position, row in rows.items()
            },
            "scores": {
                (order, position, key): listed(scores)
                for order, rows in orders.items()
                for position in rows
                for key, scores in store.in_batch(order, position).items()
            },
        }


def listed(values):
    return None if values is None else repr(np.asarray(values).tolist())

"""What a progress bar is told."""

import math

import numpy as np
import pytest

from prunus.core.engine import report
from prunus.core.engine.report import Clock, Losses
from prunus.core.study.cells import Key


@pytest.fixture
def clock(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(report.time, "monotonic", lambda: now[0])
    return now


def test_the_worst_groups_come_first():
    losses = Losses(higher_is_better=True)
    losses.add(None, np.array([1.0, 1.0, 0.0, 0.0]))
    for group, scores in {
        "a": [1.0, 0.0],
        "b": [0.0, 0.0],
        "c": [1.0, 1.0],
        "d": [0.0, 1.0],
    }.items():
        losses.add(Key(group, 1), np.array(scores))
    losses.add(Key("c", 2), np.array([1.0, 0.0, 0.0, 0.0]))
    assert losses.worst() == (("b", 1.0), ("c", 0.5), ("a", 0.0))


def test_where_less_is_better_more_is_worse():
    losses = Losses(higher_is_better=False)
    losses.put(None, 2.0)
    losses.put(Key("a", 1), 3.0)
    losses.put(Key("b", 1), 1.0)
    assert losses.worst() == (("a", 0.5), ("b", -0.5))


@pytest.mark.parametrize("baseline", [None, 0.0, math.nan, math.inf])
def test_without_a_baseline_nothing_is_relative(baseline):
    losses = Losses(higher_is_better=True)
    if baseline is not None:
        losses.put(None, baseline)
    losses.put(Key("a", 1), 0.5)
    assert losses.worst() == ()


def test_time_left_follows_from_what_was_done_in_this_run(clock):
    ticks = []
    told = Clock("measuring", "batches", 10, Losses(True), ticks.append)
    for _ in range(4):
        told.skip()
    clock[0] += 2.0
    told.advance(50)
    (tick,) = ticks
    assert (tick.stage, tick.unit, tick.done, tick.total) == ("measuring", "batches", 5, 10)
    assert tick.rate == 25.0
    assert tick.seconds_left == 10.0


def test_ticks_are_few_and_the_last_one_comes(clock):
    ticks = []
    told = Clock("measuring", "cells", 100, Losses(True), ticks.append)
    for _ in range(100):
        clock[0] += 0.01
        told.advance(1)
    assert 4 <= len(ticks) <= 7
    assert ticks[-1].done == 100
    assert ticks[-1].seconds_left == 0.0


def test_a_length_that_nobody_knows_leaves_the_time_open(clock):
    ticks = []
    told = Clock("baseline", "batches", None, Losses(True), ticks.append)
    clock[0] += 1.0
    told.advance(5)
    assert (ticks[0].total, ticks[0].seconds_left) == (None, None)


def test_nobody_need_listen():
    Clock("measuring", "cells", 1, Losses(True), None).advance(1)

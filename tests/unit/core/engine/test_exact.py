"""Every sample is seen by every cell, once, whatever interrupts."""

import math

import numpy as np
import pytest

from prunus.core.engine.exact import ORDER, measure_each, measure_samples, measure_states, settle
from prunus.core.errors import EvaluationError, StudyConflictError
from prunus.core.study.cells import Baseline
from prunus.core.study.store import Store

from .fake import HEADER, KEYS, FakeMeter, scores_of


@pytest.fixture
def store(tmp_path):
    with Store.open_or_create(tmp_path / "a.study", HEADER) as opened:
        yield opened


def metrics(store):
    return {key: cell.metric for key, cell in store.cells().items()}


EXPECTED = {key: float(scores_of(key, 250).mean()) for key in KEYS}


def test_each_batch_is_read_once_for_all_cells(store):
    meter, ticks = FakeMeter(), []
    measure_samples(meter, store, KEYS, ticks.append)
    assert meter.readings == [(0, tuple(KEYS)), (100, tuple(KEYS)), (200, tuple(KEYS))]
    assert metrics(store) == EXPECTED
    assert store.baseline == Baseline(float(scores_of(None, 250).mean()), 250)
    assert {(cell.kind, cell.samples) for cell in store.cells().values()} == {("exact", 250)}
    assert store.progress(ORDER) == {}
    assert (ticks[-1].done, ticks[-1].total, ticks[-1].unit) == (3, 3, "batches")
    assert {group for group, _ in ticks[-1].worst} == {"a", "b"}


@pytest.mark.parametrize("stop", [0, 1, 2])
def test_after_an_interruption_only_what_is_missing_is_read(store, stop):
    meter = FakeMeter()
    meter.stop = stop
    with pytest.raises(KeyboardInterrupt):
        measure_samples(meter, store, KEYS, None)
    assert store.cells() == {}
    again = FakeMeter()
    measure_samples(again, store, KEYS, None)
    assert [start for start, _ in again.readings] == [0, 100, 200][stop:]
    assert metrics(store) == EXPECTED


def test_new_cells_do_not_measure_the_old_ones_again(store):
    measure_samples(FakeMeter(), store, KEYS[:2], None)
    meter = FakeMeter()
    measure_samples(meter, store, KEYS[2:], None)
    assert {keys for _, keys in meter.readings} == {tuple(KEYS[2:])}
    assert metrics(store) == EXPECTED


def test_without_cells_the_baseline_is_measured(store):
    measure_samples(FakeMeter(), store, [], None)
    assert store.baseline.samples == 250


def test_a_cell_that_fails_half_way_is_named_and_tried_again(store):
    class Breaks(FakeMeter):
        def read(self, batch, keys):
            self.broken = {KEYS[1]: "no memory"} if batch[0] == 100 else {}
            return super().read(batch, keys)

    meter = Breaks()
    measure_samples(meter, store, KEYS, None)
    cell = store.cells()[KEYS[1]]
    assert (cell.kind, cell.note) == ("failed", "no memory")
    assert KEYS[1] not in meter.readings[-1][1]
    again = FakeMeter()
    measure_samples(again, store, [KEYS[1]], None)
    assert [start for start, _ in again.readings] == [100, 200]
    assert metrics(store) == EXPECTED


def test_a_batch_that_has_changed_is_found_though_nothing_of_it_is_missing(store):
    meter = FakeMeter()
    meter.stop = 2
    with pytest.raises(KeyboardInterrupt):
        measure_samples(meter, store, KEYS, None)
    changed = FakeMeter()
    changed.salt = "another"
    with pytest.raises(StudyConflictError, match="batch 0 of order 'in order' held other data"):
        measure_samples(changed, store, KEYS, None)


def test_data_that_have_become_fewer_are_found(store):
    measure_samples(FakeMeter(), store, KEYS[:1], None)
    with pytest.raises(StudyConflictError, match=r"the baseline of .* is .*now scores"):
        measure_samples(FakeMeter(100), store, KEYS[1:], None)


def test_a_cell_with_other_samples_than_the_baseline_is_no_result(store):
    class Loses(FakeMeter):
        def of(self, key):
            return super().of(key) if key is None else super().of(key)[:-1]

        def read(self, batch, keys):
            readings = super().read(batch[:-1], keys)
            return type(readings)(self.of(None)[batch], readings.scores, {})

    with pytest.raises(
        StudyConflictError, match="was measured on 247 samples, and the data has 250"
    ) as told:
        measure_samples(Loses(), store, KEYS[:1], None)
    assert "begin a new study" in told.value.fix


def test_data_without_a_sample_are_refused(store):
    class Empty(FakeMeter):
        def batches(self):
            yield np.arange(0)

    with pytest.raises(EvaluationError, match="the data has no sample\n  fix: give batches with"):
        measure_samples(Empty(), store, KEYS, None)


# Metrics with a state.


def test_an_object_metric_takes_one_run_a_group(store):
    meter, ticks = FakeMeter(per_sample=False), []
    measure_states(meter, store, KEYS, ticks.append)
    assert meter.readings == [tuple(KEYS[:3]), tuple(KEYS[3:])]
    assert metrics(store) == EXPECTED
    assert store.baseline.samples == 250
    assert (ticks[-1].done, ticks[-1].total, ticks[-1].unit) == (6, 6, "cells")


def test_an_object_metric_loses_one_group_at_most(store):
    meter = FakeMeter(per_sample=False)
    meter.stop = 1
    with pytest.raises(KeyboardInterrupt):
        measure_states(meter, store, KEYS, None)
    assert set(metrics(store)) == set(KEYS[:3])


def test_an_object_metric_without_cells_measures_the_baseline_once(store):
    meter = FakeMeter(per_sample=False)
    measure_states(meter, store, [], None)
    measure_states(meter, store, [], None)
    assert meter.readings == [()]


def test_a_failure_under_an_object_metric_is_named(store):
    meter = FakeMeter(per_sample=False)
    meter.broken = {KEYS[0]: "no memory"}
    measure_states(meter, store, KEYS, None)
    cell = store.cells()[KEYS[0]]
    assert (cell.kind, cell.note) == ("failed", "no memory")
    assert {one.kind for key, one in store.cells().items() if key != KEYS[0]} == {"exact"}


# A function of the user's.


def test_a_users_function_is_called_once_a_cell(store):
    seen, ticks = [], []

    def evaluate(model):
        seen.append(model)
        return 0.5 if model == "whole" else 0.4

    measure_each(evaluate, lambda: "whole", lambda key: key, store, KEYS, ticks.append)
    assert seen == ["whole", *KEYS]
    assert store.baseline == Baseline(0.5)
    assert set(metrics(store).values()) == {0.4}
    assert ticks[-1].worst == (("a", pytest.approx(0.2)), ("b", pytest.approx(0.2)))
    measure_each(evaluate, lambda: "whole", lambda key: key, store, [], None)
    assert len(seen) == 1 + len(KEYS)


def test_a_cut_model_that_cannot_be_built_is_named(store):
    def build(key):
        if key == KEYS[0]:
            raise RuntimeError("shapes differ\nand more")
        return key

    measure_each(lambda model: 1.0, lambda: "whole", build, store, KEYS, None)
    cell = store.cells()[KEYS[0]]
    assert (cell.kind, cell.note) == ("failed", "RuntimeError: shapes differ")
    assert {one.kind for key, one in store.cells().items() if key != KEYS[0]} == {"exact"}


def test_an_error_of_the_users_function_keeps_what_was_measured(store):
    def evaluate(model):
        if model == KEYS[2]:
            raise ValueError("the data is gone")
        return 1.0

    with pytest.raises(ValueError, match="the data is gone"):
        measure_each(evaluate, lambda: "whole", lambda key: key, store, KEYS, None)
    assert set(metrics(store)) == set(KEYS[:2])
    assert store.baseline == Baseline(1.0)


# The baseline.


def test_a_baseline_that_differs_by_rounding_stays_what_it_was(store):
    settle(store, 0.3, 10)
    settle(store, 0.1 + 0.2, 10)
    assert store.baseline == Baseline(0.3, 10)
    with pytest.raises(StudyConflictError, match=r"the baseline of .* is 0\.3, .* scores 0\.4"):
        settle(store, 0.4, 10)


@pytest.mark.parametrize("value", [math.nan, math.inf, 0.0])
def test_a_baseline_that_nothing_is_relative_to_is_kept(store, value):
    settle(store, value, 10)
    settle(store, value, 10)
    assert repr(store.baseline.metric) == repr(value)

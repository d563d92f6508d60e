"""Cells stop when enough is known, and nothing that was seen is read again."""

import numpy as np
import pytest

from prunus.core.engine.early import bounds_of, measure_early
from prunus.core.engine.evaluation import Evaluation
from prunus.core.errors import EvaluationError, PrunusError
from prunus.core.study.cells import Key
from prunus.core.study.store import Store

from .fake import HEADER, KEYS, FakeMeter, scores_of

SAMPLES = 2000


@pytest.fixture
def store(tmp_path):
    with Store.open_or_create(tmp_path / "a.study", HEADER) as opened:
        yield opened


def measure(meter, store, keys=KEYS, **options):
    options = {"width": 0.2, "budget": None, "bounds": (0.0, 1.0), **options}
    measure_early(meter, store, keys, None, **options)


def cells(store):
    return {
        key: (one.kind, one.metric, one.samples, one.low, one.high)
        for key, one in store.cells().items()
    }


def test_each_cell_stops_when_its_interval_is_narrow(store):
    meter = FakeMeter(SAMPLES)
    measure(meter, store)
    baseline = store.baseline.metric
    assert baseline == scores_of(None, SAMPLES).mean()
    for key, cell in store.cells().items():
        truth = scores_of(key, SAMPLES).mean()
        assert cell.kind == "adaptive"
        assert 0 < cell.samples < SAMPLES
        assert cell.low <= truth <= cell.high
        assert cell.high - cell.low <= 2 * 0.2 * baseline + 1e-9
        assert cell.low <= cell.metric <= cell.high


def test_a_budget_leaves_cells_bounded(store):
    meter = FakeMeter(SAMPLES)
    measure(meter, store, width=None, budget=0.2)
    kinds = {cell.kind for cell in store.cells().values()}
    assert "bounded" in kinds
    for key, cell in store.cells().items():
        truth = scores_of(key, SAMPLES).mean()
        assert cell.low is None or cell.low <= truth
        assert cell.high is None or truth <= cell.high
        assert (cell.metric is None) == (cell.kind == "bounded")


def test_where_less_is_better_the_interval_is_of_the_metric(tmp_path):
    import dataclasses

    identity = dataclasses.replace(HEADER.identity, higher_is_better=False, metric="error")
    header = dataclasses.replace(HEADER, identity=identity)

    def errors(key, samples):
        return 1.0 - scores_of(key, samples) * 0.5

    with Store.open_or_create(tmp_path / "b.study", header) as store:
        measure(FakeMeter(SAMPLES, scores=errors), store)
        for key, cell in store.cells().items():
            assert cell.low <= errors(key, SAMPLES).mean() <= cell.high
            assert cell.metric > store.baseline.metric


@pytest.mark.parametrize("stop", [0, 7, 19, 20, 22, 25])
def test_an_interruption_costs_nothing_that_was_read(store, tmp_path, stop):
    whole = FakeMeter(SAMPLES)
    with Store.open_or_create(tmp_path / "b.study", HEADER) as other:
        measure(whole, other, width=0.12)
        expected = cells(other)
    first = FakeMeter(SAMPLES)
    first.stop = stop
    with pytest.raises(KeyboardInterrupt):
        measure(first, store, width=0.12)
    second = FakeMeter(SAMPLES)
    measure(second, store, width=0.12)
    assert cells(store) == expected
    asked = [(start, key) for start, keys in first.readings + second.readings for key in keys]
    assert len(asked) == len(set(asked))
    assert len(first.readings) + len(second.readings) == len(whole.readings)


def test_the_same_again_reads_nothing_and_changes_nothing(store):
    measure(FakeMeter(SAMPLES), store)
    before = cells(store)
    again = FakeMeter(SAMPLES)
    measure(again, store)
    assert again.readings == []
    assert cells(store) == before


def test_a_narrower_width_goes_on_from_what_was_seen(store):
    measure(FakeMeter(SAMPLES), store, width=0.3)
    wide = cells(store)
    meter = FakeMeter(SAMPLES)
    measure(meter, store, width=0.1)
    for key, (_, _, samples, low, high) in cells(store).items():
        assert samples > wide[key][2]
        assert high - low < wide[key][4] - wide[key][3]
    assert all(keys for _, keys in meter.readings)  # the baseline was known


def test_a_cell_that_fails_is_named_and_the_others_go_on(store):
    meter = FakeMeter(SAMPLES)
    meter.broken = {KEYS[1]: "no memory"}
    measure(meter, store)
    cell = store.cells()[KEYS[1]]
    assert (cell.kind, cell.note) == ("failed", "no memory")
    assert {cell.kind for key, cell in store.cells().items() if key != KEYS[1]} == {"adaptive"}


def test_samples_without_a_number_count_as_lost_and_are_said(store):
    def broken(key, samples):
        scores = scores_of(key, samples)
        if key == Key("a", 2):
            scores[::2] = np.nan
        return scores

    measure(FakeMeter(SAMPLES, scores=broken), store)
    assert "samples scored no finite number" in store.cells()[Key("a", 2)].note
    assert store.cells()[Key("b", 2)].note == ""


@pytest.mark.parametrize("value", [0.0, np.nan])
def test_a_baseline_that_nothing_is_relative_to_is_refused(store, value):
    meter = FakeMeter(SAMPLES, scores=lambda key, samples: np.full(samples, value))
    with pytest.raises(PrunusError, match=rf"the baseline is {value}, and no loss is relative"):
        measure(meter, store)


def test_what_has_no_bounds_or_no_samples_is_refused(store):
    message = "must be one score a sample, between known bounds\n  fix: use .top1. or"
    with pytest.raises(EvaluationError, match=message):
        measure(FakeMeter(), store, bounds=None)
    with pytest.raises(EvaluationError, match=message):
        measure(FakeMeter(per_sample=False), store)


def test_bounds_are_known_for_named_metrics_only():
    assert bounds_of(Evaluation([], "top5")) == (0.0, 1.0)
    assert bounds_of(Evaluation([], lambda output, batch: output)) is None
    assert bounds_of(Evaluation([], lambda output, batch: output, bounds=(0, 3))) == (0, 3)

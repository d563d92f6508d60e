"""Work in progress: written batch by batch, read back to the bit, gone when it is done."""

from __future__ import annotations

import re

import numpy as np
import pytest

from prunus.core.errors import StudyConflictError, StudyError
from prunus.core.study.cells import Key
from prunus.core.study.progress import BatchRow
from prunus.core.study.store import Store

from .samples import HEADER, adaptive, bounded, exact, failed

A, B = Key("stem.weight", 2), Key("a.weight", 8)


@pytest.fixture
def store(tmp_path):
    with Store.open_or_create(tmp_path / "a.study", HEADER) as store:
        yield store


def _same(found, expected):
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        assert found[name].tolist() == values
        assert found[name].dtype == np.float64


def test_batches_and_scores_come_back(store):
    store.put_batch("o", 1, "d1", [1, 0], {A: np.array([True, False]), B: [0.5, np.inf]})
    store.put_batch("o", np.int64(0), "d0", None, {A: np.float32([0.25])})
    store.put_batch("other", 0, "x", [1], {B: [1]})
    assert store.orders() == ["o", "other"]
    assert store.batches("o")[0] == BatchRow("d0", None)
    assert store.batches("o")[1].digest == "d1"
    assert store.batches("o")[1].baseline.tolist() == [1, 0]
    _same(store.scores("o", A), {0: [0.25], 1: [1, 0]})
    _same(store.scores("o", B), {1: [0.5, np.inf]})
    _same(store.in_batch("o", 1), {A: [1, 0], B: [0.5, np.inf]})
    assert store.progress("o") == {A: {0, 1}, B: {1}}
    assert store.progress("other") == {B: {0}}
    assert (store.batches("no"), store.scores("no", A), store.progress("no")) == ({}, {}, {})


def test_what_is_there_stays(store):
    store.put_batch("o", 0, "d", None, {A: [1]})
    store.put_batch("o", 0, "d", [1], {A: [0], B: [0]})
    store.put_batch("o", 0, "d", [0], {})
    store.put_batch("o", 0, "d", None, {})
    assert store.batches("o")[0].baseline.tolist() == [1]
    _same(store.in_batch("o", 0), {A: [1], B: [0]})


def test_other_data_at_the_same_place_is_a_conflict(store):
    store.put_batch("o", 3, "a" * 64, [1], {A: [1]})
    with pytest.raises(StudyConflictError, match=re.escape(
        f"batch 3 of order 'o' held other data before: {'a' * 12}, and now {'b' * 12}"
    )) as caught:  # fmt: skip
        store.put_batch("o", 3, "b" * 64, [1], {B: [1]})
    assert "no shuffling, no random augmentation" in caught.value.fix
    assert store.progress("o") == {A: {3}}


def test_a_cell_that_is_measured_has_no_scores_any_more_and_takes_none(store):
    store.put_batch("o", 0, "d0", [1], {A: [1], B: [1]})
    store.put_batch("p", 5, "d5", [1], {A: [1]})
    store.add([exact(*A, 1.0)])
    store.put_batch("o", 1, "d1", [1], {A: [1], B: [1]})
    assert store.progress("o") == {B: {0, 1}}
    assert store.progress("p") == {}
    assert store.scores("o", A) == store.scores("p", A) == {}


@pytest.mark.parametrize(
    "cell", [adaptive(*A, 0.5, 0.4, 0.6), bounded(*A, 0.1), failed(*A)], ids=lambda cell: cell.kind
)
def test_a_cell_that_is_not_measured_to_the_end_can_be_gone_on_with(store, cell):
    store.put_batch("o", 0, "d0", [1], {A: [1]})
    store.add([cell])
    store.put_batch("o", 1, "d1", [1], {A: [0]})
    _same(store.scores("o", A), {0: [1], 1: [0]})
    assert store.progress("o") == {A: {0, 1}}


@pytest.mark.parametrize(
    ("baseline", "scores", "message"),
    [
        (None, [[1]], "the scores of group 'stem.weight' with 2 channels removed cannot be kept"),
        (None, ["x"], "the scores of group 'stem.weight' with 2 channels removed cannot be kept"),
        (0.5, [1], "the scores of the baseline cannot be kept: scores are one number a sample, and "
         "these have shape ()"),
    ],
)  # fmt: skip
def test_scores_are_one_number_a_sample(store, baseline, scores, message):
    with pytest.raises(StudyError, match=re.escape(message)) as caught:
        store.put_batch("o", 0, "d", baseline, {A: scores})
    assert caught.value.fix == "return one number a sample from the metric"
    assert store.batches("o") == {}


def test_estimates_are_replaced_and_kept_apart(store):
    store.put_estimates("taylor", {A: 1, B: np.nan})
    store.put_estimates("taylor", {A: np.float32(0.5)})
    store.put_estimates("fisher", {A: np.inf})
    assert repr(store.estimates("taylor")) == repr({B: float("nan"), A: 0.5})
    assert store.estimates("fisher") == {A: np.inf}
    assert store.estimates("no") == {}
    assert store.estimate_names() == ["fisher", "taylor"]
    with pytest.raises(
        StudyError, match=re.escape(f"the estimate of {A} is 'x', which is no number")
    ):
        store.put_estimates("taylor", {A: "x"})


def test_a_study_does_not_grow_by_what_is_done(tmp_path):
    path = tmp_path / "a.study"
    with Store.open_or_create(path, HEADER) as store:
        size = path.stat().st_size
        for position in range(20):
            store.put_batch("o", position, f"{position}", None, {A: np.random.rand(5000)})
        assert path.stat().st_size > size + 800_000
        store.add([exact(*A, 0.5)])
        assert path.stat().st_size < size + 20_000

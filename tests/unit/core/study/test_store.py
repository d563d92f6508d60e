"""What is measured is in the file, once, and only where it belongs."""

from __future__ import annotations

import dataclasses
import math
import re

import numpy as np
import pytest

from prunus.core.errors import StudyConflictError, StudyError, StudyMismatchError
from prunus.core.study.cells import Baseline, Key
from prunus.core.study.database import Database
from prunus.core.study.store import Store

from .samples import (
    GROUPS,
    HEADER,
    adaptive,
    bounded,
    content,
    exact,
    failed,
    filled,
    header,
    nothing,
)


@pytest.fixture
def store(tmp_path):
    with Store.open_or_create(tmp_path / "a.study", HEADER) as store:
        yield store


def test_a_new_study_is_one_file_with_a_header_and_nothing_else(tmp_path):
    with Store.open_or_create(tmp_path / "a.study", HEADER) as store:
        assert store.header == HEADER
        assert (store.baseline, store.asked(), store.cells()) == (None, {}, {})
    assert [one.name for one in tmp_path.iterdir()] == ["a.study"]


def test_what_is_written_is_there_for_whoever_opens_the_file_next(tmp_path):
    path = filled(tmp_path / "a.study")
    with Store.open_or_create(path, HEADER) as store:
        assert store.baseline == Baseline(0.9, 100)
        assert store.asked()["a.weight"] == {0.25: 4, 0.5: 8, 0.75: 12}
        assert store.cells()[Key("a.weight", 12)] == failed("a.weight", 12)
        assert len(store.cells()) == 7


@pytest.mark.parametrize("metric", [math.nan, math.inf, -math.inf, -0.5, 0.0, 5e-324, 0.1 + 0.2])
def test_every_number_comes_back_as_it_was(store, metric):
    store.set_baseline(metric)
    store.set_baseline(metric, 7)
    store.add([exact("stem.weight", 1, metric)])
    assert repr(store.baseline) == repr(Baseline(metric, 7))
    assert repr(store.cells()[Key("stem.weight", 1)].metric) == repr(metric)


def test_the_same_baseline_may_come_again_and_more_samples_are_kept(store):
    store.set_baseline(np.float32(0.5), np.int64(10))
    store.set_baseline(0.5)
    assert store.baseline == Baseline(0.5, 10)


def test_another_baseline_is_a_conflict(store):
    store.set_baseline(0.5)
    with pytest.raises(StudyConflictError, match=re.escape(
        f"the baseline of {str(store.path)!r} is 0.5, and the same model on the same data now "
        "scores nan"
    )) as caught:  # fmt: skip
        store.set_baseline(math.nan)
    assert "evaluate without randomness" in caught.value.fix
    assert store.baseline == Baseline(0.5, 0)


def test_a_baseline_is_a_number(store):
    with pytest.raises(StudyError, match="the baseline is None, which is no number") as caught:
        store.set_baseline(None)
    assert "float(accuracy)" in caught.value.fix


def test_ratios_are_rounded_and_stand_for_one_count(store):
    store.ask({"stem.weight": {0.3: 2, 0.1 + 0.2: 2}})
    store.ask({"stem.weight": {np.float64(0.3): np.int64(2)}})
    assert store.asked() == {"stem.weight": {0.3: 2}}
    for again, message in (
        ({0.3: 3}, "ratio 0.3 of group 'stem.weight' stood for 2 channels, and now for 3"),
        ({0.5: 4, 0.50000000000001: 5}, "ratio 0.5 of group 'stem.weight' stood for 4 channels"),
    ):
        with pytest.raises(StudyConflictError, match=re.escape(message)) as caught:
            store.ask({"stem.weight": again})
        assert "the options of before, such as align" in caught.value.fix
    assert store.asked() == {"stem.weight": {0.3: 2}}


def test_a_ratio_that_removes_nothing_is_known_at_once(store):
    store.ask({"stem.weight": {0.05: 0, 0.5: 4}})
    assert store.cells() == {Key("stem.weight", 0): nothing("stem.weight")}


@pytest.mark.parametrize("write", [
    lambda store, key: store.ask({key.group: {0.5: key.removed}}),
    lambda store, key: store.add([exact(*key, 0.5)]),
    lambda store, key: store.put_batch("o", 0, "d", None, {key: [1]}),
    lambda store, key: store.put_estimates("taylor", {key: 1}),
    lambda store, key: store.scores("o", key),
])  # fmt: skip
def test_cells_that_the_study_cannot_have_are_refused(store, write):
    with pytest.raises(StudyError, match=r"a.study' has no group 'stam.weight'") as caught:
        write(store, Key("stam.weight", 1))
    assert "the nearest are 'stem.weight'" in caught.value.fix
    with pytest.raises(StudyError, match=re.escape(
        "group 'stem.weight' with 8 channels removed cannot be: it has 8, and one stays"
    )) as caught:  # fmt: skip
        write(store, Key("stem.weight", 8))
    assert caught.value.fix == "remove 0 to 7 channels"


def test_what_says_more_takes_the_place_of_what_is_there(store):
    for cell in (
        failed("stem.weight", 1),
        bounded("stem.weight", 1, 0.1),
        adaptive("stem.weight", 1, 0.5, 0.4, 0.6),
        exact("stem.weight", 1, 0.55),
        adaptive("stem.weight", 1, 0.9, 0.8, 1.0),
        bounded("stem.weight", 1, 0.1),
    ):
        store.add([cell])
    assert store.cells() == {Key("stem.weight", 1): exact("stem.weight", 1, 0.55)}


def test_a_conflict_writes_none_of_the_cells(store):
    store.add([exact("stem.weight", 1, 0.5)])
    with pytest.raises(StudyConflictError, match=r"scored 0\.5 before, .* in '.*a\.study'"):
        store.add([exact("stem.weight", 2, 0.5), exact("stem.weight", 1, 0.6)])
    assert list(store.cells()) == [Key("stem.weight", 1)]


def test_several_calls_can_be_one(store):
    def write(then):
        with store.transaction():
            store.set_baseline(0.9)
            store.add([exact("stem.weight", 1, 0.5)])
            then()

    with pytest.raises(KeyboardInterrupt):
        write(lambda: (_ for _ in ()).throw(KeyboardInterrupt))
    assert (store.baseline, store.cells()) == (None, {})
    write(lambda: None)
    assert (store.baseline, len(store.cells())) == (Baseline(0.9), 1)


def test_a_part_that_failed_is_undone_inside_a_whole_that_goes_on(store):
    with store.transaction():
        store.add([exact("stem.weight", 1, 0.5)])
        with pytest.raises(StudyConflictError, match=r"scored 0\.5 before, and 0\.6 now"):
            store.add([exact("stem.weight", 2, 0.5), exact("stem.weight", 1, 0.6)])
        store.set_baseline(0.9)
    assert list(store.cells()) == [Key("stem.weight", 1)]
    assert store.baseline == Baseline(0.9)


DIFFERENT = {
    "model": (
        header(model="77" * 32),
        "the model: 5f0c5f0c5f0c... in the study, 777777777777... here",
    ),
    "data": (
        header(data="88" * 32),
        "the data: 91aa91aa91aa... in the study, 888888888888... here",
    ),
    "metric": (header(metric="top5"), "the metric: top1 in the study, top5 here"),
    "direction": (header(higher_is_better=False), "the direction: higher is better in the study"),
    "criterion": (header(criterion="l2"), "the criterion: l1 in the study, l2 here"),
    "option": (
        header(options={"precision": "bf16", "recalibrate": 0}),
        "option 'precision': float32",
    ),
    "group": (dataclasses.replace(HEADER, groups=GROUPS[:2]), "the groups: 4 in the study, 2 here"),
}


@pytest.mark.parametrize(("other", "message"), DIFFERENT.values(), ids=DIFFERENT)
def test_a_foreign_study_is_refused_and_left_alone(tmp_path, other, message):
    path = filled(tmp_path / "a.study")
    before = path.read_bytes()
    with pytest.raises(StudyMismatchError, match=re.escape(message)) as caught:
        Store.open_or_create(path, other)
    assert f"{str(path)!r} is another study; what differs is" in caught.value.problem
    assert "is of model 5f0c5f0c5f0c and data 91aa91aa91aa, and here are model" in str(caught.value)
    assert "give the path of a new file" in caught.value.fix
    assert path.read_bytes() == before


def test_a_header_that_is_no_json_makes_no_file(tmp_path):
    with pytest.raises(StudyError, match="must be plain JSON"):
        Store.open_or_create(tmp_path / "a.study", dataclasses.replace(HEADER, costs={"a": {1, 2}}))
    assert list(tmp_path.iterdir()) == []


def test_resuming_keeps_the_header_of_the_file_until_it_is_replaced(tmp_path):
    path = filled(tmp_path / "a.study")
    newer = dataclasses.replace(HEADER, versions={"prunus": "9"}, note="")
    with Store.open_or_create(path, newer) as store:
        assert store.header == HEADER
        store.replace_header(newer)
        assert store.header == newer
        with pytest.raises(StudyMismatchError, match="the criterion: l1 in the study, l2 here"):
            store.replace_header(header(criterion="l2"))
    assert content(path)["header"] == newer


def test_who_only_reads_cannot_write(tmp_path):
    path = filled(tmp_path / "a.study")
    with Store.open(path, readonly=True) as store:
        with pytest.raises(
            StudyError, match=r"a.study', or its folder, may not be written to"
        ) as caught:
            store.add([exact("stem.weight", 1, 0.5)])
        assert "copy the file" in caught.value.fix
        assert len(store.cells()) == 7


def test_two_that_have_it_open_see_each_other(tmp_path):
    path = tmp_path / "a.study"
    with Store.open_or_create(path, HEADER) as one, Store.open_or_create(path, HEADER) as two:
        one.add([exact("stem.weight", 1, 0.5)])
        two.add([exact("stem.weight", 2, 0.4)])
        assert one.cells() == two.cells()
        assert len(one.cells()) == 2
        with pytest.raises(StudyConflictError, match=r"scored 0\.5 before, and 0\.6 now"):
            two.add([exact("stem.weight", 1, 0.6)])


def test_whoever_is_slower_goes_on_with_the_file_of_the_other(tmp_path, monkeypatch):
    path = tmp_path / "a.study"

    def meanwhile(_):
        monkeypatch.undo()
        filled(path)

    monkeypatch.setattr(Database, "give_room_back", meanwhile)
    with Store.open_or_create(path, HEADER) as store:
        assert len(store.cells()) == 7

"""A study as users see it: losses, curves, tables, and what they say where there is no number."""

from __future__ import annotations

import math
import pickle
import re

import pytest

from prunus.core.errors import StudyError, UnknownNameError
from prunus.core.study.cells import Key
from prunus.core.study.store import Store
from prunus.core.study.study import Study

from .samples import HEADER, adaptive, bounded, exact, filled, header


@pytest.fixture
def study(tmp_path):
    return Study.open(filled(tmp_path / "a.study"))


def _with(path, baseline, metrics, **changes):
    """A study of one group with these metrics."""
    with Store.open_or_create(path, header(**changes)) as store:
        store.set_baseline(baseline)
        for removed, metric in enumerate(metrics, 1):
            store.ask({"stem.weight": {removed / 8: removed}})
            store.add([exact("stem.weight", removed, metric)])
        return Study.of(store)


def test_what_is_in_it(study):
    assert study.baseline == 0.9
    assert study.groups == HEADER.groups
    assert study.frozen == HEADER.frozen
    assert study.missing == (Key("a.weight", 8),)
    assert not study.complete
    assert [cell.key for cell in study.cells] == [
        ("stem.weight", 0), ("stem.weight", 2), ("stem.weight", 4), ("stem.weight", 6),
        ("a.weight", 4), ("a.weight", 12), ("qkv.weight[0:4]", 2),
    ]  # fmt: skip
    assert study.cell("stem.weight", 2).metric == 0.81
    assert study.cell("stem.weight", 3) is None
    assert study.loss(study.cell("stem.weight", 2)) == pytest.approx(0.1)
    assert study.absolute_loss(study.cell("stem.weight", 2)) == pytest.approx(0.09)
    assert math.isnan(study.loss(study.cell("stem.weight", 6)))


def test_the_rows_are_of_the_study_and_it_holds_no_file(study, tmp_path):
    (tmp_path / "a.study").unlink()
    copy = pickle.loads(pickle.dumps(study))
    assert copy.curve("stem.weight") == study.curve("stem.weight")


def test_a_curve_is_a_dict_of_what_was_measured(study):
    curve = study.curve("stem.weight")
    assert curve == {0.25: pytest.approx(0.1), 0.5: pytest.approx(0.5)}
    assert all(type(x) is float for x in (*curve, *curve.values()))
    assert study.curve("stem.weight", absolute=True) == {
        0.25: pytest.approx(0.09),
        0.5: pytest.approx(0.45),
    }
    assert study.curve("b.weight") == study.curve("a.weight") == {0.25: 0.0}


def test_points_have_intervals_and_what_was_not_measured(study):
    nothing, first, second, third = study.curve("stem.weight").points
    assert (nothing.kind, nothing.loss) == ("nothing", None)
    assert (first.kind, first.low, first.high, first.samples) == ("exact", None, None, 100)
    assert (second.kind, second.removed, second.samples) == ("adaptive", 4, 50)
    assert (second.low, second.high) == (pytest.approx(0.4 / 0.9), pytest.approx(0.5 / 0.9))
    assert (third.kind, third.loss) == ("bounded", None)
    assert (third.low, third.high) == (pytest.approx(0.4 / 0.9), None)


def test_a_curve_prints_and_survives_pickle(study):
    curve = study.curve("stem.weight")
    assert str(curve).splitlines() == [
        "stem.weight",
        "ratio  removed  relative loss  at least  at most      kind  samples",
        "0.05         0                                     nothing",
        "0.25         2         0.1000                        exact      100",
        "0.5          4         0.5000    0.4444   0.5556  adaptive       50",
        "0.75         6                   0.4444            bounded",
    ]
    copy = pickle.loads(pickle.dumps(curve))
    assert (copy, copy.points, str(copy)) == (curve, curve.points, str(curve))
    assert repr(curve) == f"Curve('stem.weight', {dict(curve)!r})"
    assert "absolute" not in str(curve)
    assert str(study.curve("stem.weight", absolute=True)).splitlines()[1].split()[2] == "loss"
    assert str(study.curve("qkv.weight[4:8]")) == "qkv.weight[4:8]: nothing is measured yet"


def test_sensitivities_are_of_every_weight_and_each_group_was_measured_once(study):
    found = study.sensitivities()
    assert list(found) == ["stem.weight", "a.weight", "b.weight", "qkv.weight[0:4]"]
    assert found["a.weight"] == found["b.weight"] == {0.25: 0.0}
    assert found["a.weight"] is not found["b.weight"]
    assert found["stem.weight"] == study.curve("stem.weight")
    assert {type(row) for row in found.values()} == {dict}
    assert study.sensitivities(absolute=True)["stem.weight"][0.5] == pytest.approx(0.45)


@pytest.mark.parametrize(
    ("name", "problem", "fix"),
    [
        ("stam.weight", "no weight or group of the study is named 'stam.weight'",
         "the nearest are 'stem.weight'"),
        ("qkv.weight", "'qkv.weight' holds 2 groups, with a curve each",
         "name one of the groups: 'qkv.weight[0:4]', 'qkv.weight[4:8]'"),
        ("head.weight", "'head.weight' has no curve, because it is frozen: it makes the network's",
         "study.frozen lists what stays"),
    ],
)  # fmt: skip
def test_a_name_without_a_curve(study, name, problem, fix):
    with pytest.raises(UnknownNameError, match=re.escape(problem)) as caught:
        study.curve(name)
    assert fix in caught.value.fix


def test_before_the_baseline_there_are_cells_and_no_losses(tmp_path):
    study = Study.open(filled(tmp_path / "a.study", baseline=None))
    assert len(study.cells) == 7
    for ask in (lambda: study.baseline, study.sensitivities, lambda: study.curve("stem.weight")):
        with pytest.raises(StudyError, match=r"baseline of '.*a.study' has not been measured yet"):
            ask()
    assert repr(study).endswith("7 cells, 1 missing, no baseline yet)")
    assert "? measured, and a loss once the baseline is measured too" in str(study)
    assert str(study).startswith("top1, baseline not measured yet\n")


def test_where_lower_is_better_to_lose_is_to_have_more(tmp_path):
    study = _with(tmp_path / "a.study", 2.0, [2.5, 1.5], higher_is_better=False)
    assert study.curve("stem.weight") == {0.125: 0.25, 0.25: -0.25}
    assert not study.higher_is_better
    with Store.open(study.path) as store:
        store.add([adaptive("a.weight", 1, 3.0, 2.5, 4.0), bounded("a.weight", 2, low=3.0)])
        store.ask({"a.weight": {0.1: 1, 0.2: 2}})
        first, second = Study.of(store).curve("a.weight").points
    assert (first.low, first.loss, first.high) == (0.25, 0.5, 1.0)
    assert (second.low, second.high) == (0.5, None)


def test_a_negative_baseline_loses_by_its_size(tmp_path):
    # Such as a log likelihood: -2 is worse than -1, and that is to lose, not to win.
    study = _with(tmp_path / "a.study", -1.0, [-2.0, -0.5])
    assert study.curve("stem.weight") == {0.125: 1.0, 0.25: -0.5}
    assert study.curve("stem.weight", absolute=True) == {0.125: 1.0, 0.25: -0.5}


@pytest.mark.parametrize("baseline", [0.0, -0.0, math.nan, math.inf])
def test_where_nothing_is_relative_to_the_baseline_it_is_said(tmp_path, baseline):
    study = _with(tmp_path / "a.study", baseline, [-1.0, 2.0])
    caveat = (
        f"the baseline is {baseline + 0.0:g}, and no loss is relative to that: ask for absolute"
    )
    assert study.caveat.startswith(caveat)
    assert all(map(math.isnan, study.curve("stem.weight").values()))
    assert all(map(math.isnan, study.sensitivities()["stem.weight"].values()))
    assert caveat in str(study.curve("stem.weight"))
    assert caveat in str(study)
    absolute = study.curve("stem.weight", absolute=True)
    assert repr(dict(absolute)) == repr({0.125: baseline + 1.0, 0.25: baseline - 2.0})
    assert caveat not in str(absolute)
    assert caveat not in study.table(absolute=True)
    with pytest.raises(StudyError, match="there are no relative losses to write: the baseline is"):
        study.to_paddleslim(tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_nan_is_a_measurement_and_the_worst_of_all(tmp_path):
    study = _with(tmp_path / "a.study", 0.5, [0.4, math.nan, 0.1, -math.inf])
    curve = study.curve("stem.weight")
    assert curve[0.125] == pytest.approx(0.2)
    assert math.isnan(curve[0.25])
    assert curve[0.5] == math.inf
    assert [cell.removed for cell in study.worst()] == [2]
    assert "nan" in str(study)
    assert "inf" in str(study)
    assert study.complete


def test_the_worst_are_one_a_group_and_the_worst_first(study):
    assert [cell.key for cell in study.worst()] == [
        ("stem.weight", 4), ("a.weight", 4), ("qkv.weight[0:4]", 2),
    ]  # fmt: skip
    assert [cell.key for cell in study.worst(1)] == [("stem.weight", 4)]


def test_an_estimate_is_judged_by_its_ranks(tmp_path):
    with Store.open_or_create(tmp_path / "a.study", HEADER) as store:
        store.set_baseline(1.0)
        store.add([exact("a.weight", k, 1 - k / 20) for k in range(1, 6)])
        store.put_estimates("taylor", {Key("a.weight", k): k**3 for k in range(1, 8)})
        store.put_estimates("bad", {Key("a.weight", k): -k for k in range(1, 4)})
        study = Study.of(store)
    assert study.rank_correlation() == pytest.approx(1)
    assert study.rank_correlation("bad") == pytest.approx(-1)
    assert study.rank_correlation("no") is None


def test_it_prints_on_one_line_and_as_a_table(study):
    assert repr(study) == (
        f"Study({str(study.path)!r}: 4 groups, 7 cells, 1 missing, baseline 0.9)"
    )
    assert str(study) == study.table()


def test_a_file_that_is_not_there(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StudyError, match=r"there is no study at 'no\.study'") as caught:
        Study.open("no.study")
    assert f"a relative one starts at {str(tmp_path)!r}" in caught.value.fix
    assert list(tmp_path.iterdir()) == []

"""JSON, CSV and DataFrames hold what the study holds."""

from __future__ import annotations

import csv
import io
import json
import math
import sys

import pytest

from prunus.core.errors import MissingExtraError, StudyError
from prunus.core.study.export import COLUMNS
from prunus.core.study.pickles import read_sensitivities
from prunus.core.study.store import Store
from prunus.core.study.study import Study

from .samples import HEADER, exact, filled


@pytest.fixture
def study(tmp_path):
    path = filled(tmp_path / "a.study")
    with Store.open(path) as store:
        store.add([exact("qkv.weight[4:8]", 3, math.nan, seconds=1.5, host="node, 1")])
    return Study.open(path)


def test_json_holds_everything(study, tmp_path):
    text = study.to_json(tmp_path / "out.json")
    assert (tmp_path / "out.json").read_text() == text

    def refuse(constant):
        raise AssertionError(constant)

    found = json.loads(text, parse_constant=refuse)
    assert found["prunus_study"] == 1
    assert found["header"] == json.loads(HEADER.to_json())
    assert found["baseline"] == {"metric": 0.9, "samples": 100}
    assert len(found["cells"]) == 9
    assert found["cells"][1] == {
        "group": "stem.weight", "params": "stem.weight", "size": 8, "ratio": 0.25, "removed": 2,
        "kind": "exact", "metric": 0.81, "low": None, "high": None, "loss": pytest.approx(0.1),
        "absolute_loss": pytest.approx(0.09), "samples": 100, "seconds": 0.0, "host": "",
        "note": "",
    }  # fmt: skip
    assert found["cells"][-1]["metric"] == "nan"
    assert found["estimates"] == [
        {"name": "taylor", "group": "a.weight", "removed": 4, "value": 0.5},
        {"name": "taylor", "group": "stem.weight", "removed": 2, "value": 1.0},
    ]


def test_csv_has_a_row_a_ratio_and_one_for_each_cell_without(study, tmp_path):
    text = study.to_csv(tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text() == text
    rows = list(csv.DictReader(io.StringIO(text)))
    assert tuple(rows[0]) == COLUMNS
    assert [(row["group"], row["ratio"], row["removed"], row["kind"]) for row in rows] == [
        ("stem.weight", "0.05", "0", "nothing"),
        ("stem.weight", "0.25", "2", "exact"),
        ("stem.weight", "0.5", "4", "adaptive"),
        ("stem.weight", "0.75", "6", "bounded"),
        ("a.weight", "0.25", "4", "exact"),
        ("a.weight", "0.5", "8", ""),
        ("a.weight", "0.75", "12", "failed"),
        ("qkv.weight[0:4]", "0.5", "2", "exact"),
        ("qkv.weight[4:8]", "", "3", "exact"),
    ]
    assert rows[4]["params"] == "a.weight b.weight"
    assert rows[5]["metric"] == rows[3]["metric"] == rows[3]["loss"] == ""
    assert (rows[-1]["metric"], rows[-1]["host"]) == ("nan", "node, 1")
    assert rows[6]["note"] == "it ran out of memory"


def test_a_frame_has_the_same_rows(study):
    frame = study.to_frame()
    assert tuple(frame.columns) == COLUMNS
    assert len(frame) == 9
    measured = frame[frame.kind == "exact"]
    assert measured.loss[1] == pytest.approx(0.1)
    assert measured.metric.tolist()[:3] == [0.81, 0.9, 0.99]


def test_without_pandas_it_is_said_what_to_do(study, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingExtraError, match="a DataFrame needs pandas") as caught:
        study.to_frame()
    assert caught.value.fix == "pip install pandas, or use study.to_csv() or study.to_json()"


def test_before_the_baseline_there_are_no_losses(tmp_path):
    study = Study.open(filled(tmp_path / "a.study", baseline=None))
    rows = list(csv.DictReader(io.StringIO(study.to_csv())))
    assert (rows[1]["metric"], rows[1]["loss"]) == ("0.81", "")
    assert json.loads(study.to_json())["baseline"] is None


def test_paddleslim_reads_what_is_written(study, tmp_path):
    study.to_paddleslim(tmp_path / "out.data")
    found = read_sensitivities(tmp_path / "out.data")
    assert (found.losses, found.repaired) == (study.sensitivities(), ())


@pytest.mark.parametrize("write", ["to_json", "to_csv", "to_paddleslim"])
def test_where_it_cannot_be_written_it_is_said(study, tmp_path, write):
    with pytest.raises(StudyError, match="cannot write"):
        getattr(study, write)(tmp_path / "no" / "out")

"""Tables for any terminal."""

from __future__ import annotations

import dataclasses
import math

import pytest

from prunus.core.study.header import FrozenRow
from prunus.core.study.store import Store
from prunus.core.study.study import Study
from prunus.core.study.text import aligned, number

from .samples import HEADER, bounded, exact, failed, filled


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""), (0.0, "0.0000"), (0.12345, "0.1235"), (-0.5, "-0.5000"), (1e-4, "0.0001"),
        (9e-5, "9.0e-05"), (-1e-7, "-1.0e-07"), (math.nan, "nan"), (math.inf, "inf"),
    ],
)  # fmt: skip
def test_numbers(value, text):
    assert number(value) == text


def test_columns():
    assert aligned([["a", "bc", ""], ["abc", "d", "e"]]) == "a    bc\nabc   d  e"


def test_a_table_says_all_it_knows(tmp_path):
    path = filled(tmp_path / "a.study")
    with Store.open(path) as store:
        store.ask({"qkv.weight[4:8]": {0.25: 1, 0.5: 2}})
        store.add([bounded("qkv.weight[4:8]", 1, 0.45, 0.9), bounded("qkv.weight[4:8]", 2, 0.45)])
    assert Study.open(path).table().splitlines() == [
        "top1, baseline 0.9: relative loss for each ratio",
        "1 of 10 cells are missing: the same analysis goes on",
        "group            size  0.05             0.25      0.5     0.75",
        "stem.weight         8     0           0.1000  ~0.5000  >0.4444",
        "a.weight           16                 0.0000        .        !",
        "qkv.weight[0:4]     4                         -0.1000",
        "qkv.weight[4:8]     4        >0.0000 <0.5000  <0.5000",
        "~ of a part of the samples; its interval is in study.curve(...).points",
        "> < not measured: at least, at most that much",
        "! could not be evaluated",
        "0 the ratio removes no channel",
        ". not measured yet",
        "! group 'a.weight' with 12 channels removed: it ran out of memory",
        "'head.weight' stays: it makes the network's output",
        "note: a note",
    ]
    assert Study.open(path).table(absolute=True).splitlines()[0] == (
        "top1, baseline 0.9: absolute loss for each ratio"
    )


def test_a_whole_table_has_no_legend(tmp_path):
    with Store.open_or_create(
        tmp_path / "a.study",
        dataclasses.replace(HEADER, groups=HEADER.groups[:1], frozen=(), note=""),
    ) as store:
        store.set_baseline(0.5)
        store.ask({"stem.weight": {0.5: 4}})
        store.add([exact("stem.weight", 4, 0.5)])
        assert str(Study.of(store)).splitlines() == [
            "top1, baseline 0.5: relative loss for each ratio",
            "group        size     0.5",
            "stem.weight     8  0.0000",
        ]


def test_many_reasons_are_counted(tmp_path):
    frozen = tuple(FrozenRow(f"w{k}", "it stays", 1, 1) for k in range(9))
    with Store.open_or_create(
        tmp_path / "a.study", dataclasses.replace(HEADER, frozen=frozen, note="")
    ) as store:
        store.add([failed("a.weight", k) for k in (1, 2, 3)])
        lines = str(Study.of(store)).splitlines()
    assert lines[-2:] == [
        "'w6' stays: it stays",
        "and 2 more: see study.cells and study.frozen",
    ]

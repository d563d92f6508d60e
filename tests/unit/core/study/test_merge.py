"""A merge is a set union: any order, any grouping, and a file twice is a file once."""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from prunus.core.errors import StudyConflictError, StudyError, StudyMismatchError
from prunus.core.study import merge as module
from prunus.core.study.cells import Baseline, Key
from prunus.core.study.merge import merge
from prunus.core.study.store import Store
from prunus.core.study.study import Study

from .samples import HEADER, adaptive, bounded, content, exact, failed, filled, header

A, B, C = Key("stem.weight", 2), Key("stem.weight", 3), Key("a.weight", 8)


def make(path, *, header=HEADER, baseline=None, asked=(), cells=(), guesses=(), batches=()):
    with Store.open_or_create(path, header) as store, store.transaction():
        if baseline is not None:
            store.set_baseline(*baseline)
        store.ask(dict(asked))
        for order, position, digest, whole, scores in batches:
            store.put_batch(order, position, digest, whole, scores)
        store.add(cells)
        store.put_estimates("taylor", dict(guesses))
    return path


# What is known of a cell may differ from file to file, but never in what it scored.
_known = {
    A: [exact(*A, 0.5), exact(*A, 0.5, seconds=2), adaptive(*A, 0.4, 0.3, 0.6), bounded(*A, 0.1)],
    B: [adaptive(*B, 0.4, 0.3, 0.6, 10), adaptive(*B, 0.5, 0.4, 0.6, 20), failed(*B)],
    C: [exact(*C, math.nan), failed(*C, "x"), failed(*C, "y"), bounded(*C, 0.1, 0.2)],
}
_scores = {A: [1.0, 0.5], B: [0.0, 1.0], C: [math.nan, 1.0]}
_cells = st.tuples(*(st.sampled_from([None, *some]) for some in _known.values()))
_batch = st.tuples(
    st.sampled_from("xy"),
    st.integers(0, 1),
    st.sampled_from([None, [1.0, 0.0]]),
    st.sets(st.sampled_from([A, B, C])),
)
_studies = st.fixed_dictionaries(
    {
        "header": st.sampled_from("abc").map(lambda note: dataclasses.replace(HEADER, note=note)),
        "baseline": st.sampled_from([None, (0.9,), (0.9, 100)]),
        "asked": st.sampled_from([{}, {"stem.weight": {0.05: 0, 0.25: 2}}, {"a.weight": {0.5: 8}}]),
        "cells": _cells.map(lambda cells: [cell for cell in cells if cell is not None]),
        "guesses": st.dictionaries(st.sampled_from([A, B]), st.sampled_from([0.0, 1.0, math.nan])),
        "batches": st.lists(_batch, max_size=3).map(
            lambda batches: [
                (order, position, f"{order}{position}", whole, {key: _scores[key] for key in keys})
                for order, position, whole, keys in batches
            ]
        ),
    }
)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(_studies, _studies, _studies)
def test_the_laws_of_a_union(a, b, c):
    with tempfile.TemporaryDirectory() as name:
        names = map(str, itertools.count())

        def new():
            return Path(name) / f"{next(names)}.study"

        def union(*paths, into=None):
            path = into or new()
            merge(paths, path)
            return path

        a, b, c = (make(new(), **one) for one in (a, b, c))
        whole = content(union(a, b, c))
        assert content(union(c, a, b)) == content(union(b, a, c, a)) == whole
        assert content(union(union(a, b), c)) == content(union(a, union(b, c))) == whole
        assert content(union(union(a, a), a)) == content(a)
        assert content(union(b, c, into=a)) == whole
        assert content(union(a, b, c, into=a)) == whole
        assert not list(Path(name).glob(".*"))


def test_it_is_the_union(tmp_path):
    one = filled(tmp_path / "a.study")
    two = make(
        tmp_path / "b.study",
        asked={"a.weight": {0.5: 8}, "qkv.weight[4:8]": {0.25: 1}},
        cells=[exact("a.weight", 8, 0.5), exact("stem.weight", 4, 0.46)],
    )
    study = merge([one, two], tmp_path / "all.study")
    assert isinstance(study, Study)
    assert study.path == tmp_path / "all.study"
    assert study.whole == Baseline(0.9, 100)
    assert len(study.cells) == 8
    assert study.cell("stem.weight", 4).kind == "exact"
    assert study.missing == (Key("qkv.weight[4:8]", 1),)
    assert content(study.path)["scores"] == {}


def test_one_study_is_copied_and_one_path_may_be_text(tmp_path):
    path = filled(tmp_path / "a.study")
    merge(str(path), str(tmp_path / "b.study"))
    assert content(tmp_path / "b.study") == content(path)
    merge([path], path)
    assert content(tmp_path / "b.study") == content(path)


def test_two_names_of_one_file_are_one(tmp_path, monkeypatch):
    path = filled(tmp_path / "a.study")
    before = content(path)
    (tmp_path / "b.study").symlink_to(path)
    monkeypatch.chdir(tmp_path)
    merge([path, "a.study", tmp_path / "b.study"], "b.study")
    assert content(path) == before
    assert (tmp_path / "b.study").is_symlink()


def test_an_empty_file_is_as_good_as_none(tmp_path):
    path = filled(tmp_path / "a.study")
    (tmp_path / "all.study").touch()
    merge([path], tmp_path / "all.study")
    assert content(tmp_path / "all.study") == content(path)


def test_no_study_is_no_merge(tmp_path):
    with pytest.raises(StudyError, match="there is no study to merge") as caught:
        merge([], tmp_path / "all.study")
    assert caught.value.fix == "give the path of one study or more"


FAULTS = {
    "another model": (
        {"header": header(model="b" * 64)}, {"header": header(model="c" * 64)}, StudyMismatchError,
        "these are two studies; what differs is the model: bbbbbbbbbbbb... in {a}, cccccccccccc... "
        "in {b}", "merge studies of one model, data set, metric and criterion",
    ),
    "another option": (
        {}, {"header": header(options={})}, StudyMismatchError,
        "the option 'precision': float32 in {a}, (not set) in {b}", "with the same options",
    ),
    "another baseline": (
        {"baseline": (0.9,)}, {"baseline": (0.8,)}, StudyConflictError,
        "the baseline is 0.9 in {a}, and 0.8 in {b}", "keep one of the files",
    ),
    "another count": (
        {"asked": {"a.weight": {0.5: 8}}}, {"asked": {"a.weight": {0.5: 7}}}, StudyConflictError,
        "ratio 0.5 of group 'a.weight' stands for 8 channels in {a}, and for 7 in {b}",
        "asked with the same options, such as align",
    ),
    "another score": (
        {"cells": [exact(*A, 0.5)]}, {"cells": [exact(*A, math.nan)]}, StudyConflictError,
        "group 'stem.weight' with 2 channels removed scored 0.5 in {a}, and nan in {b}, both exact",
        "keep one of them",
    ),
    "other data": (
        {"batches": [("o", 3, "d", [1], {})]}, {"batches": [("o", 3, "e", [1], {})]},
        StudyConflictError,
        "batch 3 of order 'o' is another in {a} than in {b}: its data or its baseline differ",
        "keep one of the files",
    ),
    "another baseline of a batch": (
        {"batches": [("o", 3, "d", [1], {})]}, {"batches": [("o", 3, "d", [0], {})]},
        StudyConflictError,
        "batch 3 of order 'o' is another in {a} than in {b}: its data or its baseline differ",
        "keep one of the files",
    ),
    "another score of a sample": (
        {"batches": [("o", 3, "d", None, {A: [1, 0]})]},
        {"batches": [("o", 3, "d", None, {A: [1, 1]})]}, StudyConflictError,
        "batch 3 of order 'o' is another in {a} than in {b}: the "
        "scores of group 'stem.weight' with "
        "2 channels removed differ", "keep one of the files",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("a", "b", "kind", "problem", "fix"), FAULTS.values(), ids=FAULTS)
def test_a_merge_that_fails_names_what_and_where_and_leaves_all_as_it_was(
    tmp_path, a, b, kind, problem, fix
):
    one, two = make(tmp_path / "a.study", **a), make(tmp_path / "b.study", **b)
    third = make(tmp_path / "c.study", header=a.get("header", HEADER), cells=[exact(*C, 0.1)])
    before = {path: path.read_bytes() for path in (one, two, third)}
    shown = {"a": repr(str(one)), "b": repr(str(two))}
    turned = {"a": shown["b"], "b": shown["a"]}
    either = "|".join(re.escape(problem.format(**names)) for names in (shown, turned))
    for paths in ([one, two], [third, two, one], [one, two, one, third]):
        with pytest.raises(kind) as caught:
            merge(paths, tmp_path / "all.study")
        if kind is StudyMismatchError or paths[0] == one:
            assert fix in caught.value.fix
        if paths[0] == one:
            assert re.search(either, caught.value.problem), caught.value.problem
    for into in (one, two, third):
        with pytest.raises(kind, match=r"in '|than in '"):
            merge([one, two], into)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_what_another_file_knows_better_is_no_conflict(tmp_path):
    one = make(tmp_path / "a.study", cells=[adaptive(*A, 0.5, 0.4, 0.6)])
    two = make(tmp_path / "b.study", cells=[adaptive(*A, 0.6, 0.4, 0.6)])
    best = make(tmp_path / "c.study", cells=[exact(*A, 0.55)])
    for paths in itertools.permutations([one, two, best]):
        (tmp_path / "all.study").unlink(missing_ok=True)
        assert merge(paths, tmp_path / "all.study").cells == (exact(*A, 0.55),)


def test_three_files_of_one_batch_name_the_two_that_differ(tmp_path):
    batch = ("o", 0, "d", None)
    one = make(tmp_path / "a.study", batches=[(*batch, {A: [1]})])
    two = make(tmp_path / "b.study", batches=[(*batch, {B: [1]})])
    three = make(tmp_path / "c.study", batches=[(*batch, {A: [0]})])
    with pytest.raises(StudyConflictError, match=r"in '.*a\.study' than in '.*c\.study'"):
        merge([one, two, three], tmp_path / "all.study")


def test_scores_in_progress_of_what_another_file_measured_are_left_out(tmp_path):
    one = make(tmp_path / "a.study", batches=[("o", 0, "d", [1], {A: [1], B: [0]})])
    two = make(tmp_path / "b.study", cells=[exact(*A, 0.5)])
    merge([one, two], tmp_path / "all.study")
    assert list(content(tmp_path / "all.study")["scores"]) == [("o", 0, B)]
    merge([two], one)
    assert content(one) == content(tmp_path / "all.study")


def test_a_study_that_is_made_meanwhile_is_not_lost(tmp_path, monkeypatch):
    one, into = filled(tmp_path / "a.study"), tmp_path / "all.study"
    fill = module._fill

    def slow(store, others, header):
        fill(store, others, header)
        make(into, cells=[exact(*A, 0.81)])

    monkeypatch.setattr(module, "_fill", slow)
    with pytest.raises(StudyError, match="was made by another process meanwhile") as caught:
        merge([one], into)
    assert "run the same command again" in caught.value.fix
    monkeypatch.undo()
    assert len(merge([one], into).cells) == 7
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.study", "all.study"]


def test_what_is_written_meanwhile_is_not_lost(tmp_path, monkeypatch):
    one, into = filled(tmp_path / "a.study"), make(tmp_path / "all.study")
    fill = module._fill

    def slow(store, others, header):
        make(into, cells=[exact("a.weight", 1, 0.3)])
        fill(store, others, header)

    monkeypatch.setattr(module, "_fill", slow)
    assert len(merge([one], into).cells) == 8


def test_a_merge_that_is_killed_leaves_the_old_file_or_the_new(tmp_path):
    one, into = filled(tmp_path / "a.study"), make(tmp_path / "all.study", cells=[exact(*C, 0.3)])
    expected = content(into)
    program = """
import os, signal, sys
from prunus.core.study import merge
merge._copy_progress = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
merge.merge([sys.argv[1]], sys.argv[2])
"""
    for path in (into, tmp_path / "new.study"):
        done = subprocess.run([sys.executable, "-c", program, one, path], check=False, timeout=300)
        assert done.returncode == -9
    assert content(into) == expected
    assert not (tmp_path / "new.study").exists()
    assert merge([one, into], tmp_path / "new.study").cells == merge([one], into).cells


def test_a_folder_that_does_not_exist(tmp_path):
    path = filled(tmp_path / "a.study")
    with pytest.raises(StudyError, match="there is no folder"):
        merge([path], tmp_path / "no" / "all.study")
    with pytest.raises(StudyError, match=r"there is no study at '.*no\.study'"):
        merge([path, tmp_path / "no.study"], tmp_path / "all.study")
    with pytest.raises(StudyError, match="is a folder"):
        merge([path], tmp_path)
    assert list(tmp_path.iterdir()) == [path]


def test_what_each_file_notes_is_kept(tmp_path):
    notes = ("b is slow", "a is slow\nb is slow", "")
    paths = []
    for k, note in enumerate(notes):
        paths.append(tmp_path / f"{k}.study")
        Store.open_or_create(paths[-1], dataclasses.replace(HEADER, note=note)).close()
    one = merge(paths, tmp_path / "one.study")
    other = merge([*reversed(paths)], tmp_path / "other.study")
    assert one.header.note == other.header.note == "a is slow\nb is slow"

"""Losses that PaddleSlim kept become a study, to the digit."""

from __future__ import annotations

import math
import pickle
import re

import numpy as np
import pytest

from prunus.core.errors import StudyConflictError, StudyError, StudyMismatchError, UnknownNameError
from prunus.core.study.imported import import_paddleslim
from prunus.core.study.pickles import read_sensitivities
from prunus.core.study.study import Study

# Losses that 1 - (1 - loss) would not give back.
TABLE = {"conv1": {0.1: 0.05, 0.2: 0.1 + 0.2, 0.9: -0.003}, "conv2": {0.5: 1e-17, 0.6: math.nan}}


@pytest.fixture
def kept(tmp_path):
    """A function that keeps losses as PaddleSlim does."""

    def keep(table, name="sensitivities.data"):
        (tmp_path / name).write_bytes(pickle.dumps(table))
        return tmp_path / name

    return keep


def test_the_losses_are_the_same_to_the_digit_there_and_back(kept, tmp_path):
    study = Study.from_paddleslim(kept(TABLE), tmp_path / "a.study")
    assert repr(study.sensitivities()) == repr(TABLE)
    assert repr(dict(study.curve("conv1"))) == repr(TABLE["conv1"])
    assert repr(study.sensitivities(absolute=True)) == repr(TABLE)
    study.to_paddleslim(tmp_path / "out.data")
    assert repr(read_sensitivities(tmp_path / "out.data").losses) == repr(TABLE)
    assert repr(Study.open(tmp_path / "a.study").sensitivities()) == repr(TABLE)


def test_it_says_what_is_not_known(kept, tmp_path):
    study = import_paddleslim(kept(TABLE), tmp_path / "a.study")
    identity = study.header.identity
    assert (identity.model, identity.data, identity.criterion) == ("unknown",) * 3
    assert (identity.metric, study.baseline, study.higher_is_better) == ("relative loss", 0, False)
    assert study.caveat == ""
    assert study.complete
    assert study.header.note == (
        "imported from PaddleSlim; sizes are not known: counts of channels are parts of a million"
    )
    assert study.cell("conv1", 100_000).metric == 0.05
    assert str(study).splitlines()[:3] == [
        "relative loss, baseline 0: relative loss for each ratio",
        "group     size     0.1     0.2      0.5  0.6      0.9",
        "conv1  1000000  0.0500  0.3000                -0.0030",
    ]


def test_with_sizes_counts_are_counts(kept, tmp_path):
    table = {"conv1": {0.1: 0.05, 0.5: 0.2, 0.99: 0.3}}
    study = import_paddleslim(kept(table), tmp_path / "a.study", {"conv1": 16, "more": 3})
    assert study.asked == {"conv1": {0.1: 2, 0.5: 8, 0.99: 15}}
    assert study.groups[0].size == 16
    assert study.header.note == "imported from PaddleSlim"


def test_a_ratio_that_removes_nothing_has_no_loss(kept, tmp_path):
    # PaddleSlim kept a loss of 0.0 for what it did not cut at all.
    table = {"conv1": {0.1: 0.0, 0.5: 0.2}, "conv2": {0.1: 0.01, 0.5: 0.2}}
    study = import_paddleslim(kept(table), tmp_path / "a.study", {"conv1": 4, "conv2": 4})
    assert study.curve("conv1") == {0.5: 0.2}
    assert study.cell("conv1", 0).kind == "nothing"
    assert study.header.note.endswith("; 'conv2' lost 0.01 at ratio 0.1, which removes no channel")


def test_two_losses_of_one_count_are_told(kept, tmp_path):
    table = {"conv1": {0.5: 0.2, 0.55: 0.1, 0.6: 0.2, 0.3: 0.1}}
    study = import_paddleslim(kept(table), tmp_path / "a.study", {"conv1": 4})
    assert study.curve("conv1") == {0.3: 0.1, 0.5: 0.2, 0.55: 0.2, 0.6: 0.2}
    assert "'conv1' lost 0.2 and 0.1 with the same 2 channels removed; 0.2 is kept" in (
        study.header.note
    )


def test_what_was_repaired_is_in_the_note(kept, tmp_path):
    path = kept({"conv1": {0.3: 0.1, np.float64(0.1) * 3: 0.1}})
    study = import_paddleslim(path, tmp_path / "a.study")
    assert study.sensitivities() == {"conv1": {0.3: 0.1}}
    assert "'conv1' had ratio 0.3 twice, as 0.3 with loss 0.1 and as 0.30000000000000004" in (
        study.header.note
    )


def test_files_of_several_processes_become_one_study(kept, tmp_path):
    one = kept({"conv1": {0.1: 0.05}, "conv2": {0.1: math.nan}}, "one")
    two = kept({"conv2": {0.1: math.nan, 0.2: 0.5}, "conv3": {}}, "two")
    study = import_paddleslim([one, two], tmp_path / "a.study")
    assert repr(study.sensitivities()) == "{'conv1': {0.1: 0.05}, 'conv2': {0.1: nan, 0.2: 0.5}}"
    three = kept({"conv1": {0.1: 0.06}}, "three")
    with pytest.raises(StudyConflictError, match=re.escape(
        f"'conv1' at ratio 0.1 loses 0.05 in {str(one)!r}, and 0.06 in {str(three)!r}"
    )) as caught:  # fmt: skip
        import_paddleslim([one, two, three], tmp_path / "b.study")
    assert "leave one of the two files out" in caught.value.fix
    assert not (tmp_path / "b.study").exists()


def test_the_same_file_again_changes_nothing_and_another_is_refused(kept, tmp_path):
    path = kept(TABLE)
    import_paddleslim(path, tmp_path / "a.study")
    before = (tmp_path / "a.study").read_bytes()
    study = import_paddleslim(path, tmp_path / "a.study")
    assert repr(study.sensitivities()) == repr(TABLE)
    with pytest.raises(StudyMismatchError, match="the groups: 2 in the study, 1 here"):
        import_paddleslim(kept({"conv1": {0.1: 0.05}}), tmp_path / "a.study")
    with pytest.raises(
        StudyConflictError, match=r"group 'conv1' with 100000 channels removed scored"
    ):
        import_paddleslim(kept({"conv1": {0.1: 0.06}, "conv2": {0.1: 0}}), tmp_path / "a.study")
    assert len(before) == (tmp_path / "a.study").stat().st_size


@pytest.mark.parametrize("table", [{}, {"conv1": {}}])
def test_a_file_without_losses(kept, tmp_path, table):
    path = kept(table)
    with pytest.raises(
        StudyError, match=re.escape(f"there are no losses in {str(path)!r}")
    ) as caught:
        import_paddleslim(path, tmp_path / "a.study")
    assert "has written something to" in caught.value.fix
    with pytest.raises(StudyError, match="there are no losses in no file"):
        import_paddleslim([], tmp_path / "a.study")


def test_a_size_that_is_not_told(kept, tmp_path):
    with pytest.raises(
        UnknownNameError, match="sizes does not say how many filters 'conv2' has"
    ) as e:
        import_paddleslim(kept(TABLE), tmp_path / "a.study", {"conv1": 8, "conv3": 8})
    assert "the nearest there are 'conv" in e.value.fix
    assert not (tmp_path / "a.study").exists()


def test_what_is_no_table_makes_no_study(kept, tmp_path):
    with pytest.raises(StudyError, match="this is no table of losses"):
        import_paddleslim(kept([1]), tmp_path / "a.study")
    assert not (tmp_path / "a.study").exists()

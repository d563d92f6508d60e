"""Files appear whole, or not at all."""

from __future__ import annotations

import os

import pytest

from prunus.core.errors import StudyError
from prunus.core.study import files
from prunus.core.study.files import is_vacant, new_file, write_whole


def _names(folder):
    return sorted(one.name for one in folder.iterdir())


def test_text_and_bytes_are_written_whole(tmp_path):
    write_whole(tmp_path / "a", "é\n")
    write_whole(tmp_path / "a", b"\x00")
    assert (tmp_path / "a").read_bytes() == b"\x00"
    assert _names(tmp_path) == ["a"]


def test_where_it_cannot_be_written_the_old_file_stays(tmp_path, monkeypatch):
    write_whole(tmp_path / "a", "old")

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StudyError, match=r"cannot write '.*a': .*No space left") as caught:
        write_whole(tmp_path / "a", "new")
    assert "has room" in caught.value.fix
    assert (tmp_path / "a").read_text() == "old"
    assert _names(tmp_path) == ["a"]


def test_a_folder_that_does_not_exist(tmp_path):
    with pytest.raises(StudyError, match="cannot write"):
        write_whole(tmp_path / "no" / "a", "")


def test_a_new_file_gets_its_name_when_all_went_well(tmp_path):
    path = tmp_path / "a"
    with new_file(path) as part:
        part.write_text("whole")
        assert _names(tmp_path) == [part.name]
    assert path.read_text() == "whole"
    assert _names(tmp_path) == ["a"]


def _half(path):
    with new_file(path) as part:
        part.write_text("half")
        raise ZeroDivisionError("a fault")


def _second(path):
    with new_file(path) as part:
        part.write_text("mine")
        path.write_text("theirs")


def test_a_new_file_that_fails_leaves_nothing(tmp_path):
    with pytest.raises(ZeroDivisionError, match="a fault"):
        _half(tmp_path / "a")
    assert _names(tmp_path) == []


def test_a_file_that_somebody_else_made_is_not_touched(tmp_path):
    path = tmp_path / "a"
    with pytest.raises(StudyError, match="made by another process meanwhile") as caught:
        _second(path)
    assert "run the same command again" in caught.value.fix
    assert path.read_text() == "theirs"
    assert _names(tmp_path) == ["a"]


def test_an_empty_file_is_as_good_as_none(tmp_path):
    path = tmp_path / "a"
    assert is_vacant(path)
    path.touch()
    assert is_vacant(path)
    with new_file(path) as part:
        part.write_text("whole")
    assert path.read_text() == "whole"
    assert not is_vacant(path)
    assert not is_vacant(tmp_path)


def test_a_disk_without_second_names(tmp_path, monkeypatch):
    def refuse(*_):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(files.os, "link", refuse)
    with new_file(tmp_path / "a") as part:
        part.write_text("whole")
    assert (tmp_path / "a").read_text() == "whole"
    assert _names(tmp_path) == ["a"]

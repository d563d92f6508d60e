"""A file is written whole, or the one that was there stays."""

import errno
import os

import pytest

from prunus.core.errors import LoadError
from prunus.core.files import whole_file


def left(folder):
    return sorted(path.name for path in folder.iterdir())


def test_the_new_content_takes_the_place_of_the_old(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with whole_file(path) as part:
        part.write_text("new")
        assert part.suffix == ".txt"
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert left(tmp_path) == ["a.txt"]


def test_a_writer_that_fails_leaves_the_old_content_and_nothing_else(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")

    def fail():
        with whole_file(path) as part:
            part.write_text("half")
            raise ZeroDivisionError("by zero")

    with pytest.raises(ZeroDivisionError, match="by zero"):
        fail()
    assert path.read_text() == "old"
    assert left(tmp_path) == ["a.txt"]


def test_a_full_disk_is_told(tmp_path, monkeypatch):
    path = tmp_path / "a.txt"
    path.write_text("old")

    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with (
        pytest.raises(LoadError, match=r"(?s)a\.txt': No space left on device.*has room"),
        whole_file(path) as part,
    ):
        part.write_text("new")
    assert path.read_text() == "old"
    assert left(tmp_path) == ["a.txt"]


def test_a_folder_that_is_not_there_is_told(tmp_path):
    with (
        pytest.raises(LoadError, match=r"(?s)cannot write .*fix: choose a folder that exists"),
        whole_file(tmp_path / "none" / "a.txt") as part,
    ):
        part.write_text("new")

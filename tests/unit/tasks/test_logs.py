"""The log of a training."""

import json
import sys

import pytest

from prunus.core.errors import LoadError, MissingExtraError
from prunus.tasks.logs import opened_log


def lines(folder):
    return [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]


def write(folder, steps, start=0, **given):
    with opened_log(folder, start, **{"tensorboard": False, **given}) as log:
        for step in steps:
            log.note("train", step, loss=step / 2)


def test_a_line_a_note(tmp_path):
    write(tmp_path, [1, 2])
    assert lines(tmp_path) == [
        {"kind": "train", "step": 1, "loss": 0.5},
        {"kind": "train", "step": 2, "loss": 1.0},
    ]


def test_going_on_takes_out_what_came_after_and_a_torn_line(tmp_path):
    write(tmp_path, [1, 2, 3, 4])
    with (tmp_path / "log.jsonl").open("a") as file:
        file.write('{"kind": "tra')
    write(tmp_path, [3], start=2)
    assert [line["step"] for line in lines(tmp_path)] == [1, 2, 3]


def test_starting_anew_begins_with_nothing(tmp_path):
    write(tmp_path, [1, 2])
    write(tmp_path, [1], start=0)
    assert [line["step"] for line in lines(tmp_path)] == [1]


def test_tensorboard_has_the_numbers(tmp_path):
    write(tmp_path, [1, 2], tensorboard=True)
    (events,) = (tmp_path / "tensorboard").iterdir()
    assert b"train/loss" in events.read_bytes()


def test_tensorboard_is_asked_for(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    with pytest.raises(MissingExtraError, match=r"(?s)tensorboardX.*pip install 'prunus\[train\]'"):
        write(tmp_path, [1], tensorboard=True)


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(LoadError, match=r"(?s)cannot write .*log\.jsonl.*train\.folder"):
        write(tmp_path / "none", [1])


def test_a_full_disk(tmp_path, monkeypatch):
    with opened_log(tmp_path, 0, tensorboard=False) as log:
        monkeypatch.setattr(log, "file", open("/dev/full", "w"))  # noqa: SIM115
        with pytest.raises(LoadError, match=r"cannot write '/dev/full': No space left"):
            log.note("train", 1)
        with pytest.raises(OSError, match="No space"):
            log.file.close()

"""`prunus init`: the file, and what it says of what was asked for."""

from __future__ import annotations

import json
import os

import pytest

from prunus.tasks.config import load_config

from .conftest import error_of, good


def test_a_file_that_can_be_trained_at_once(tmp_path):
    path = tmp_path / "prunus.yaml"
    result = good("init", path)
    assert result.stdout.splitlines()[-1] == f"next: prunus train {path}"
    assert load_config(path).images.kind == "digits"


def test_nothing_is_overwritten_unasked(tmp_path):
    path = tmp_path / "prunus.yaml"
    path.write_text("mine")
    assert "is there already\n  fix: give another name, or overwrite" in error_of("init", path)
    assert path.read_text() == "mine"
    found = json.loads(good("init", path, "--force", "--json").stdout)
    assert found == {"file": str(path), "next": f"prunus train {path}"}


def test_model_and_data_of_ones_own(tmp_path):
    path = tmp_path / "p.yaml"
    good("init", path, "--model", "timm:resnet18", "--data", "photos", "--test", "others")
    config = load_config(path)
    assert config.model.name == "timm:resnet18"
    assert (config.images.kind, config.images.channels) == ("folder", 3)
    assert config.images.train == tmp_path / "photos"
    assert config.images.test == tmp_path / "others"


@pytest.mark.parametrize(
    ("data", "kind"), [("list.csv", "csv"), ("saved", "datasets"), ("mine:images", "mine:images")]
)
def test_the_kind_of_data(tmp_path, monkeypatch, data, kind):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "saved").mkdir()
    (tmp_path / "saved" / "dataset_info.json").write_text("{}")
    good("init", "p.yaml", "--data", data)
    assert load_config("p.yaml").images.kind == kind


def test_a_model_alone_is_tried_on_digits(tmp_path):
    good("init", tmp_path / "p.yaml", "--model", "mine:net")
    assert load_config(tmp_path / "p.yaml").images.kind == "digits"


def test_a_folder_that_cannot_be_written_to(tmp_path):
    assert "cannot write" in error_of("init", tmp_path / "none" / "p.yaml")
    assert os.listdir(tmp_path) == []

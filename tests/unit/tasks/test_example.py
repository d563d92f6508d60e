"""The file that `prunus init` writes loads, as it is and with every key made active."""

from __future__ import annotations

import re

from prunus.tasks.config import Config, load_config
from prunus.tasks.example import example
from prunus.tasks.yaml_errors import fields


def test_it_loads_and_works_on_digits(tmp_path):
    (tmp_path / "c.yaml").write_text(example())
    config = load_config(tmp_path / "c.yaml")
    assert config.model.name == "prunus.tasks.digits:network"
    assert (config.data.kind, config.data.channels) == ("digits", 1)


def test_every_key_is_there_with_its_default(tmp_path):
    text = example()
    active = re.sub(r"(?m)^(\s*)#(?=\w)", r"\1", text)
    active = re.sub(r"(?m)^(\s*)#(?=  \S)", r"\1", active)
    (tmp_path / "all.yaml").write_text(active)
    (tmp_path / "some.yaml").write_text(text)
    everything, some = (load_config(tmp_path / name) for name in ("all.yaml", "some.yaml"))
    for name in ("model", "data", "metric", "analysis", "prune"):
        assert getattr(everything, name) == getattr(some, name), name
    said = {
        f"{section}.{key}"
        for section in Config.model_fields
        if section != "folder"
        for key in getattr(everything, section).model_fields_set
    }
    sections = ("model", "data", "metric", "analysis", "prune", "train")
    direct = {key for key in fields(Config) if key.count(".") == 1}
    assert {key for key in direct if key.startswith(sections)} <= said


def test_what_is_chosen_is_set(tmp_path):
    chosen = {
        "model": {"name": "timm:resnet18", "arguments": {"num_classes": 3}},
        "data": {"kind": "folder", "train": "photos", "channels": 3},
    }
    (tmp_path / "c.yaml").write_text(example(chosen))
    config = load_config(tmp_path / "c.yaml")
    assert config.model.arguments == {"num_classes": 3}
    assert config.data.train == tmp_path / "photos"


def test_no_line_is_too_long():
    assert max(map(len, example().splitlines())) <= 100

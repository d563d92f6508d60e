"""Files that are no YAML, and overrides that set nothing."""

from __future__ import annotations

import pytest

from prunus.core.errors import ConfigError
from prunus.tasks.yaml_file import Lines, override, read_yaml


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("model:\n  name: [a\n", r"c\.yaml, line 3 is no YAML: .*\n  fix: indent with spaces"),
        ("- a\n", r"c\.yaml holds a list, and no sections\n  fix: begin with model:"),
        ("a: 1\nb: 2\na: 3\n", r"'a' is written twice, in lines 1 and 3\n  fix: delete one"),
        ("x:\n  a: 1\n  a: 3\n", r"'x\.a' is written twice, in lines 2 and 3"),
    ],
)
def test_a_file_that_cannot_be_used(tmp_path, text, message):
    path = tmp_path / "c.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message):
        read_yaml(path)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(
        ConfigError,
        match=r"c\.yaml' cannot be read: No such file or directory\n  fix: .*prunus init",
    ):
        read_yaml(tmp_path / "c.yaml")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="cannot be read"):
        read_yaml(tmp_path / "binary")


def test_an_empty_file_is_an_empty_table(tmp_path):
    (tmp_path / "c.yaml").write_text("# nothing\n")
    assert read_yaml(tmp_path / "c.yaml") == ({}, {})


def test_nothing_is_built_but_plain_data(tmp_path):
    (tmp_path / "c.yaml").write_text("a: !!python/object/apply:os.system ['true']\n")
    with pytest.raises(ConfigError, match="could not determine a constructor"):
        read_yaml(tmp_path / "c.yaml")


def test_lines_of_keys(tmp_path):
    path = tmp_path / "c.yaml"
    path.write_text("a:\n  b: 1\n\n  c: {d: 2}\n")
    data, lines = read_yaml(path)
    assert data == {"a": {"b": 1, "c": {"d": 2}}}
    assert lines == {("a",): 1, ("a", "b"): 2, ("a", "c"): 4, ("a", "c", "d"): 4}
    where = Lines(path, lines, [("a", "b")])
    assert where.where(("a", "c", "missing")) == f"{path}, line 4"
    assert where.where(("a", "b")) == "-o a.b"
    assert where.where(("z",)) == str(path)


def test_an_override_makes_the_sections_it_needs():
    data = {"a": None}
    assert override(data, "a.b.c=[1, x]") == ("a", "b", "c")
    assert data == {"a": {"b": {"c": [1, "x"]}}}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("train", r"-o 'train' sets nothing\n  fix: write the key, =, and the value"),
        ("=3", "sets nothing"),
        ("a..b=3", "sets nothing"),
        ("a=[1", r"'\[1' is no value of YAML\n  fix: put it in quotes"),
        ("x.y=1", r"'x' is no section, but the value 5\n  fix: set 'x' itself"),
    ],
)
def test_an_override_that_cannot_be(text, message):
    with pytest.raises(ConfigError, match=message):
        override({"x": 5}, text)

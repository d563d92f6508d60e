"""`prunus demo`: the story is told to its end, and what it needs is named."""

import importlib.util

import pytest
from typer.testing import CliRunner

from prunus.cli import demo
from prunus.cli.main import app


def test_the_whole_story(tmp_path):
    result = CliRunner().invoke(app, ["demo", "--epochs", "2", "-o", str(tmp_path / "out")])
    assert result.exit_code == 0, result.output
    steps = [line[:2] for line in result.stdout.splitlines() if line[:1].isdigit()]
    assert steps[:5] == ["1.", "2.", "3.", "4.", "5."]
    assert "outputs differ by 0.\n" in result.stdout
    rows = {line.split("  ")[0]: line for line in result.stdout.splitlines()}
    assert rows["MACs"].endswith("25.1 %")
    assert rows["parameters"].endswith("25.3 %")
    assert float(rows["accuracy"].split()[2].removesuffix("%")) > 80
    assert "next: prunus params prunus.tasks.digits:network --shape 1,1,8,8\n" in result.stdout
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "small.safetensors",
        "whole.safetensors",
    ]


def test_an_impossible_ratio(tmp_path):
    result = CliRunner().invoke(
        app, ["demo", "--epochs", "1", "--ratio", "1.5", "-o", str(tmp_path)]
    )
    assert result.exit_code == 1
    assert "error: the ratio of 'all groups' is 1.5, and must lie in [0, 1)" in result.stderr


@pytest.mark.parametrize("package", ["torch", "sklearn"])
def test_a_package_that_is_not_installed(monkeypatch, package):
    real = importlib.util.find_spec
    monkeypatch.setattr(demo, "find_spec", lambda name: None if name == package else real(name))
    result = CliRunner().invoke(app, ["demo"])
    assert result.exit_code == 1
    assert result.stderr == (
        f"error: the demo needs {package!r}, which is not installed\n"
        "  fix: pip install 'prunus[demo]'\n"
    )

"""The command itself: help, version, and what happens to errors."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from prunus._version import __version__
from prunus.cli.main import _Group, app
from prunus.core.errors import RatioError


def run(*arguments):
    return CliRunner().invoke(app, arguments)


def test_version():
    result = run("--version")
    assert (result.exit_code, result.stdout) == (0, f"prunus {__version__}\n")


def test_help_names_every_command():
    result = run("--help")
    assert result.exit_code == 0
    for command in "demo init params train analyze merge plan prune finetune export report".split():
        assert f" {command} " in result.stdout


def test_without_arguments_it_shows_the_help():
    result = run()
    assert result.exit_code == 2
    assert "Usage: " in result.output


def test_an_unknown_command_is_a_usage_error():
    result = run("prams")
    assert result.exit_code == 2
    assert "No such command 'prams'" in result.stderr


@pytest.fixture
def failing():
    broken = typer.Typer(cls=_Group, pretty_exceptions_enable=False)

    @broken.callback()
    def _several() -> None: ...

    @broken.command()
    def ours() -> None:
        raise RatioError("the ratio is [2]", fix="give one below 1")

    @broken.command()
    def a_bug() -> None:
        raise AttributeError("no such attribute")

    return broken


def test_our_own_error_is_a_message_with_its_fix(failing):
    result = CliRunner().invoke(failing, ["ours"])
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr == "error: the ratio is [2]\n  fix: give one below 1\n"


def test_a_bug_keeps_its_traceback(failing):
    result = CliRunner().invoke(failing, ["a-bug"])
    assert isinstance(result.exception, AttributeError)


def test_the_installed_command_finds_models_in_the_current_folder(tmp_path):
    (tmp_path / "mine.py").write_text("factory = 3\n")
    script = (
        "import sys; sys.path = [p for p in sys.path if p]; import prunus.cli.main as m; m.main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, "params", "mine:factory", "--shape", "1"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3] / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("error: 'mine:factory' is an object of class int, neither")

"""`prunus demo`: the story is told to its end, and what it needs is named."""

import importlib.util
import json

import pytest
from typer.testing import CliRunner

from prunus.cli import demo
from prunus.cli.main import app

STEPS = ("train", "analyze", "plan", "prune", "finetune", "export")


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo") / "out"
    return folder, CliRunner().invoke(app, ["demo", "--epochs", "2", "-o", str(folder)])


def test_the_whole_story(told):
    folder, result = told
    assert result.exit_code == 0, result.output
    typed = [line.split()[2] for line in result.stdout.splitlines() if line.startswith("$ prunus")]
    assert typed == list(STEPS)
    titles = [line[:2] for line in result.stdout.splitlines() if line[:1].isdigit()]
    assert titles == ["1.", "2.", "3.", "4.", "5.", "6."]
    for name in ("prunus.yaml", "small.onnx", "curves.png", "runs/finetuned.safetensors"):
        assert (folder / name).is_file(), name


def test_it_ends_with_the_table_and_the_picture(told):
    folder, result = told
    end = result.stdout[result.stdout.index("Before and after:") :]
    for row in ("file size", "parameters", "MACs", "latency, PyTorch", "top1"):
        assert f"\n{row}" in end
    assert "latency, ONNX Runtime" in end
    lines = end.splitlines()
    parameters = next(line for line in lines if line.startswith("parameters"))
    assert float(parameters.split()[-2]) < 32  # at least 68 % are gone, as in the seeds' table
    assert f"picture: {folder / 'curves.png'}" in lines
    assert lines[-1] == "next: prunus init, with --model and --data of your own"


def test_a_second_run_finds_what_the_first_one_left(told):
    folder, _ = told
    again = CliRunner().invoke(app, ["demo", "--epochs", "2", "-o", str(folder), "--json"])
    assert again.exit_code == 0, again.output
    found = json.loads(again.stdout)
    assert found["picture"] == str(folder / "curves.png")
    before, after = found["figures"]["before"], found["figures"]["after"]
    assert after["numel"] < 0.32 * before["numel"]
    assert after["latency"]["onnxruntime"]["median"] > 0


def test_a_folder_of_another_demo_is_left_as_it_is(told):
    folder, _ = told
    result = CliRunner().invoke(app, ["demo", "--epochs", "3", "-o", str(folder)])
    assert result.exit_code == 1
    assert "is of another demo, or was changed\n  fix: choose another folder" in result.stderr


@pytest.mark.parametrize("package", demo.NEEDED)
def test_a_package_that_is_not_installed(monkeypatch, package):
    real = importlib.util.find_spec
    monkeypatch.setattr(demo, "find_spec", lambda name: None if name == package else real(name))
    result = CliRunner().invoke(app, ["demo"])
    assert result.exit_code == 1
    assert result.stderr == (
        f"error: the demo needs {package!r}, which is not installed\n"
        "  fix: pip install 'prunus[demo]'\n"
    )

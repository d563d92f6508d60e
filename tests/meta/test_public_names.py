"""What users may import, and what `prunus` imports itself."""

import importlib
import inspect
import subprocess
import sys

import pytest

import prunus

FRAMEWORKS = {"torch", "torchvision", "paddle", "onnx", "onnxruntime", "sklearn"}


def test_all_is_every_public_name():
    offered = [name for names in prunus._HOMES.values() for name in names]
    assert sorted(offered) == sorted(prunus.__all__) == sorted(dir(prunus))


def test_a_name_that_is_not_there_is_an_error_as_everywhere():
    with pytest.raises(AttributeError, match="module 'prunus' has no attribute 'prun'"):
        prunus.prun  # noqa: B018


@pytest.mark.parametrize("name", prunus.__all__)
def test_every_public_name_is_described(name):
    assert inspect.getdoc(getattr(prunus, name))


@pytest.mark.parametrize("module", ["prunus.api", "prunus.core.errors", "prunus.core.results"])
def test_every_name_that_a_file_offers_is_there_and_described(module):
    found = importlib.import_module(module)
    for name in found.__all__:
        assert inspect.getdoc(getattr(found, name)), name


def _imported_by(*lines: str) -> set[str]:
    code = "; ".join(["import sys", *lines, "print(*{m.split('.')[0] for m in sys.modules})"])
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split())


def test_import_prunus_imports_no_framework():
    found = _imported_by("import prunus")
    assert "prunus" in found
    assert not found & FRAMEWORKS


@pytest.mark.parametrize(
    "module", ["data", "latency", "logs", "metrics", "models", "progress", "schedule", "settings"]
)
def test_what_tasks_share_imports_no_framework(module):
    found = _imported_by(f"import prunus.tasks.{module}")
    assert not found & (FRAMEWORKS | {"PIL", "datasets", "tensorboardX", "timm"})


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["params", "--help"]])
def test_help_imports_no_framework(arguments):
    found = _imported_by(
        "from prunus.cli.main import app", f"app({arguments!r}, standalone_mode=False)"
    )
    assert "prunus" in found
    assert not found & FRAMEWORKS

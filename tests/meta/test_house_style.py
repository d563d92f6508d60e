"""What STYLE asks of every file, checked on every file."""

import dataclasses
import importlib
import inspect
import pkgutil
from pathlib import Path

import pytest

import prunus.core

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "prunus"

LONGEST = 400
LONGER = {
    "backends/torch/vocabulary.py": "a table, one entry an operator: read by searching",
}


def _core_modules() -> list[str]:
    return [one.name for one in pkgutil.walk_packages(prunus.core.__path__, "prunus.core.")]


@pytest.mark.parametrize("module", _core_modules())
def test_every_dataclass_of_the_core_is_frozen(module):
    for name, kind in inspect.getmembers(importlib.import_module(module), inspect.isclass):
        if dataclasses.is_dataclass(kind) and kind.__module__ == module:
            assert kind.__dataclass_params__.frozen, name


def test_no_file_is_too_long_but_those_with_a_reason():
    lengths = {
        path.relative_to(SOURCE).as_posix(): len(path.read_text("utf-8").splitlines())
        for path in SOURCE.rglob("*.py")
    }
    assert {path for path, length in lengths.items() if length > LONGEST} == set(LONGER)


def test_unit_tests_mirror_the_source():
    tests = ROOT / "tests" / "unit"
    for path in tests.rglob("test_*.py"):
        own = path.relative_to(tests)
        name = own.name.removeprefix("test_")
        found = [SOURCE / own.parent / one for one in (name, f"_{name}")]
        # A family of files that are tested together is named after their folder.
        folder = SOURCE / own.parent
        together = folder.name == name.removesuffix(".py") and folder.is_dir()
        assert together or any(one.is_file() for one in found), f"{own} tests no file of src/prunus"


def test_every_package_says_what_it_holds():
    for path in SOURCE.rglob("__init__.py"):
        assert path.read_text("utf-8").startswith('"""'), path


def test_every_setting_of_make_is_described():
    lines = (ROOT / "Makefile").read_text("utf-8").splitlines()
    phony = next(line for line in lines if line.startswith(".PHONY:")).split()[1:]
    described = {line.split(":")[0] for line in lines if ":" in line and "## " in line}
    assert set(phony) <= described

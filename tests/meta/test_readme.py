"""What README shows can be run, and what it points at is there."""

import re
from pathlib import Path

import pytest

from prunus.cli.main import app

ROOT = Path(__file__).parents[2]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "examples").rglob("*.md")),
]


def test_the_quick_start_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)
    assert blocks
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), names)
    assert (tmp_path / "small.safetensors").is_file()


def test_the_training_loop_of_the_docs_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs" / "training.md").read_text("utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert blocks
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "docs/training.md", "exec"), names)
    assert (tmp_path / "small.safetensors").is_file()


def test_every_command_that_pages_show_is_there():
    known = {one.callback.__name__: one.callback for one in app.registered_commands}
    for page in PAGES:
        text = page.read_text("utf-8")
        typed = "\n".join(re.findall(r"```\n(.*?)```", text, re.DOTALL))
        for name, rest in re.findall(r"^prunus (\w+)([^\n]*)", typed, re.MULTILINE):
            assert name in known, (page, name)
            shown = (ROOT / "docs" / "commands" / f"{name}.md").read_text("utf-8")
            for flag in re.findall(r" (--[a-z]+)", rest):
                assert f"{flag}" in shown, (page, name, flag)


def test_every_make_target_that_pages_name_is_there():
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    for page in PAGES:
        named = set(re.findall(r"(?:`|^)make ([a-z]+)", page.read_text("utf-8"), re.MULTILINE))
        assert named <= targets, page


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_and_paths_lead_somewhere(page):
    text = page.read_text("utf-8")
    for target in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (page.parent / target).exists(), target
    for path in re.findall(r"`((?:src|tests|docs|bench)/[\w./-]+)`", text):
        assert (ROOT / path).exists(), path

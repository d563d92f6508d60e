"""The pages of the commands are what the commands say of themselves."""

from __future__ import annotations

from pathlib import Path

from prunus.cli.main import app
from prunus.cli.pages import pages, write

FOLDER = Path(__file__).parents[3] / "docs" / "commands"


def test_the_pages_are_up_to_date():
    on_disk = {path.name: path.read_text("utf-8") for path in FOLDER.glob("*.md")}
    assert on_disk == pages(), "make docs writes them again"


def test_every_command_and_option_has_a_page_with_words():
    found = pages()
    names = [one.callback.__name__ for one in app.registered_commands]
    assert sorted(found) == sorted(["README.md", *(f"{name}.md" for name in names)])
    for text in found.values():
        for line in text.splitlines():
            if line.startswith("| `"):
                assert len(line.split(" | ")[1].strip(" |")) > 10, line


def test_only_what_changed_is_written(tmp_path):
    assert len(write(tmp_path)) == len(pages())
    assert write(tmp_path) == []
    (tmp_path / "plan.md").write_text("old")
    assert write(tmp_path) == [tmp_path / "plan.md"]

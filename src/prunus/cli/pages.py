"""A page for each command, made from the command itself.

That is `python -m prunus.cli.pages docs/commands`, or `make docs`. A test holds the
pages to what is generated, so that they are never out of date.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

__all__ = ["pages", "write"]

_NOTE = "This page is made from the command itself; `make docs` writes it again."


def pages() -> dict[str, str]:
    """Return the text of every page, by the name of its file."""
    from typer.main import get_command

    from prunus.cli.main import app

    commands: dict[str, Any] = dict(getattr(get_command(app), "commands", {}))
    found = {f"{name}.md": _page(name, command) for name, command in commands.items()}
    rows = [f"| [{name}]({name}.md) | {_first(command)} |" for name, command in commands.items()]
    index = [
        "# Commands",
        _NOTE,
        "\n".join(["| command | what it does |", "|---|---|", *rows]),
        "Every command has `--help`. Those that print results have `--json`, for scripts: one "
        "object on the output, progress on the error stream. The exit code is 0 when all went "
        "well, 1 for an error that is told with its fix, and 2 for a command line that cannot be "
        "understood.",
        "The YAML file is described key by key in the file that `prunus init` writes.",
    ]
    return {"README.md": "\n\n".join(index) + "\n", **found}


def write(folder: Path) -> list[Path]:
    """Write all pages; return those that changed."""
    folder.mkdir(parents=True, exist_ok=True)
    changed = []
    for name, text in pages().items():
        path = folder / name
        if not path.is_file() or path.read_text("utf-8") != text:
            path.write_text(text, "utf-8")
            changed.append(path)
    return changed


def _page(name: str, command: Any) -> str:
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    options = [one for one in command.params if one.param_type_name == "option"]
    usage = " ".join(["prunus", name, *map(_usage, arguments), "[OPTIONS]"])
    parts = [f"# prunus {name}", _NOTE, f"```\n{usage}\n```", *_paragraphs(command.help)]
    if arguments:
        rows = [f"| `{_bars(_shown(one))}` | {_described(one)} |" for one in arguments]
        parts.append("\n".join(["| argument | meaning |", "|---|---|", *rows]))
    rows = [f"| `{_flags(one)}` | {_described(one)} |" for one in options if one.name != "help"]
    parts.append("\n".join(["| option | meaning |", "|---|---|", *rows]))
    return "\n\n".join(parts) + "\n"


def _usage(argument: Any) -> str:
    name = _shown(argument)
    return name if argument.required else f"[{name}]"


def _shown(argument: Any) -> str:
    return str(argument.metavar or argument.name.upper())


def _flags(option: Any) -> str:
    flags = ", ".join(sorted(option.opts, key=len))
    if option.is_flag:
        return flags
    return _bars(f"{flags} {option.metavar or option.name.upper()}")


def _described(parameter: Any) -> str:
    text = _line(parameter.help or "")
    default = parameter.default
    if default is None or parameter.required or default is False or default == ():
        return text
    return f"{text} Without it: `{default}`."


def _first(command: Any) -> str:
    return next(_paragraphs(command.help)).rstrip(".")


def _paragraphs(text: str | None) -> Iterator[str]:
    for paragraph in re.split(r"\n\s*\n", (text or "").strip()):
        yield _line(paragraph)


def _line(text: str) -> str:
    return _bars(" ".join(text.split()))


def _bars(text: str) -> str:
    """Return text whose bars are no columns of a table."""
    return text.replace("|", r"\|")


if __name__ == "__main__":
    for written in write(Path(sys.argv[1])):
        print(written)  # noqa: T201

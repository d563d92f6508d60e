"""`prunus init`: a commented YAML file to begin with."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from prunus.cli.options import Json
from prunus.cli.output import Printer
from prunus.core.errors import ConfigError

__all__ = ["init"]


def init(
    file: Annotated[Path, typer.Argument(help="The file to write; nothing is overwritten.")] = Path(
        "prunus.yaml"
    ),
    model: Annotated[
        str | None,
        typer.Option(
            help="The network: timm:NAME, torchvision:NAME, or MODULE:FACTORY of your own.",
            show_default=False,
        ),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(
            help="The training images: a folder of folders, a CSV file, a datasets directory, or "
            "MODULE:FUNCTION.",
            show_default=False,
        ),
    ] = None,
    test: Annotated[
        str | None, typer.Option(help="The test images, likewise.", show_default=False)
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file.")] = False,
    as_json: Json = False,
) -> None:
    """Write a YAML file to begin with.

    Every key stands in it with its meaning, ready to be changed.

    Without --model and --data it describes a small network on scikit-learn's scanned
    digits, which needs no file and trains in a minute.
    """
    from prunus.core.files import whole_file
    from prunus.tasks.example import example

    if file.exists() and not force:
        raise ConfigError(
            f"{str(file)!r} is there already", fix="give another name, or overwrite it with --force"
        )
    text = example(_chosen(model, data, test))
    with whole_file(file) as part:
        part.write_text(text, encoding="utf-8")
    printer = Printer(as_json)
    printer.say(f"wrote {file}: look through it, every key is explained")
    printer.end(f"prunus train {file}", file=file)


def _chosen(model: str | None, data: str | None, test: str | None) -> dict[str, dict[str, Any]]:
    """Return what was asked for; what was not is left as in the file for digits."""
    if model is None and data is None:
        return {}
    found: dict[str, dict[str, Any]] = {"model": {"name": model or "timm:resnet18"}}
    if data is not None:
        found["data"] = {"kind": _kind(data), "channels": 3}
        if ":" not in data:
            found["data"]["train"] = data
        if test is not None:
            found["data"]["test"] = test
    else:
        found["data"] = {"kind": "digits", "channels": 1}
    return found


def _kind(data: str) -> str:
    path = Path(data)
    if path.suffix == ".csv":
        return "csv"
    if (path / "dataset_info.json").is_file() or (path / "dataset_dict.json").is_file():
        return "datasets"
    return data if ":" in data and not path.exists() else "folder"

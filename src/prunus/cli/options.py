"""Options that several commands have, described once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = [
    "ConfigPath",
    "Json",
    "PlanPath",
    "Settings",
    "SettingsOrFile",
    "Shapes",
    "StudyPath",
    "TargetName",
    "WeightsPath",
    "Within",
]

ConfigPath = Annotated[
    str,
    typer.Argument(
        metavar="CONFIG",
        help="A YAML file; prunus init writes one.",
        show_default=False,
    ),
]

TargetName = Annotated[
    str,
    typer.Argument(
        metavar="CONFIG|MODULE:FACTORY",
        help="A YAML file, or a function or class that gives the model, such as "
        "torchvision.models:resnet18 or timm:resnet18; then --shape is needed.",
        show_default=False,
    ),
]

StudyPath = Annotated[
    str,
    typer.Argument(
        metavar="STUDY|CONFIG",
        help="A file that prunus analyze made, or the YAML file of that analysis.",
        show_default=False,
    ),
]

Json = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]

Settings = Annotated[
    list[str] | None,
    typer.Option(
        "-o",
        "--option",
        metavar="KEY=VALUE",
        help="Set a key of the YAML file, such as -o train.epochs=5; as often as needed.",
        show_default=False,
    ),
]

SettingsOrFile = Annotated[
    list[str] | None,
    typer.Option(
        "-o",
        "--out",
        metavar="FILE|KEY=VALUE",
        help="The file to write; or a key of the YAML file to set, as often as needed.",
        show_default=False,
    ),
]

Shapes = Annotated[
    list[str] | None,
    typer.Option(
        "--shape",
        help="Shape of the input, batch first, such as 1,3,224,224; once for each input.",
        show_default=False,
    ),
]

Within = Annotated[
    str | None,
    typer.Option("--within", help="Cut this sub-module only.", metavar="NAME", show_default=False),
]

WeightsPath = Annotated[
    Path | None,
    typer.Option(
        "--weights",
        help="A file of weights, in place of those that the last step left.",
        show_default=False,
    ),
]

PlanPath = Annotated[
    Path | None,
    typer.Option(
        "--plan",
        help="A file that prunus plan made. Without it, plan.json in the folder of the YAML "
        "file's results.",
        show_default=False,
    ),
]

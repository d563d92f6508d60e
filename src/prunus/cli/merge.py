"""`prunus merge`: several studies of one model as one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from prunus.cli.options import Json
from prunus.cli.output import Printer

__all__ = ["merge"]


def merge(
    studies: Annotated[
        list[Path],
        typer.Argument(
            metavar="STUDY...", help="Files that prunus analyze made.", show_default=False
        ),
    ],
    out: Annotated[
        Path,
        typer.Option("-o", "--out", help="The file to write or to add to.", show_default=False),
    ],
    as_json: Json = False,
) -> None:
    """Put several studies of one model together.

    Whatever is known in one of them is known in the result. Two different results for
    one measurement are an error that names it.
    """
    from prunus.core.study.merge import merge as put_together

    printer = Printer(as_json)
    study = put_together(studies, into=out)
    printer.say(
        f"{out}: {len(study.groups)} groups, {len(study.cells)} measurements, "
        f"{len(study.missing)} of those asked for are missing"
    )
    following = f"prunus plan {out} --macs 0.5"
    if study.missing:
        following = "run prunus analyze with the shards that are missing, or " + following
    printer.end(
        following,
        study=out,
        groups=len(study.groups),
        cells=len(study.cells),
        missing=len(study.missing),
    )

"""`prunus report`: a study as a table, and as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from prunus.cli.options import Json, StudyPath
from prunus.cli.output import Printer
from prunus.cli.plan import opened, print_plan

__all__ = ["report"]


def report(
    study: StudyPath,
    plan: Annotated[
        Path | None,
        typer.Option(help="Show a plan beside: a file of prunus plan.", show_default=False),
    ] = None,
    png: Annotated[
        Path | None, typer.Option(help="Write the curves as a picture.", show_default=False)
    ] = None,
    absolute: Annotated[
        bool,
        typer.Option("--absolute", help="Losses in units of the metric, not of the baseline."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Show a study as a table, and as a picture.

    The picture has the losses of the groups, and how much of the model goes for each loss
    that every group may cost.
    """
    from prunus.core.plan.plan import Plan

    found, config = opened(study)
    printer = Printer(as_json)
    printer.say(found.table(absolute=absolute))
    made = Plan.load(plan) if plan else None
    if made is not None:
        printer.say()
        print_plan(printer, made)
        printer.data["plan"] = made.to_data()
    if png is not None:
        from prunus.cli.picture import draw

        draw(found, png, plan=made, absolute=absolute)
        printer.say(f"\npicture: {png}")
        printer.data["png"] = png
    printer.end(
        f"prunus prune {config or 'CONFIG'} --plan {plan}"
        if plan
        else f"prunus plan {study} --macs 0.5",
        baseline=found.baseline,
        groups=len(found.groups),
        cells=len(found.cells),
        missing=len(found.missing),
        sensitivities=found.sensitivities(absolute=absolute),
    )

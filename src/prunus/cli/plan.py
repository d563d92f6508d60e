"""`prunus plan`: how much of each group goes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from prunus.cli.options import Json, StudyPath
from prunus.cli.output import Printer
from prunus.cli.text import share, short

if TYPE_CHECKING:
    from prunus.core.plan.plan import Plan
    from prunus.core.study.study import Study

__all__ = ["opened", "plan", "print_plan"]


def plan(
    study: StudyPath,
    loss: Annotated[
        float | None,
        typer.Option(
            help="Of every group as much as costs at most this loss when it is cut alone, such as "
            "0.05: PaddleSlim's rule.",
            show_default=False,
        ),
    ] = None,
    macs: Annotated[
        float | None,
        typer.Option(
            help="Keep at most this share of the multiply-adds, for the least loss.",
            show_default=False,
        ),
    ] = None,
    params: Annotated[
        float | None,
        typer.Option(
            help="Keep at most this share of the parameters, for the least loss.",
            show_default=False,
        ),
    ] = None,
    align: Annotated[
        int, typer.Option(help="Leave a multiple of this many channels, such as 8.")
    ] = 1,
    absolute: Annotated[
        bool,
        typer.Option("--absolute", help="Losses in units of the metric, not of the baseline."),
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--out",
            help="The file to write. Without it, plan.json beside the study.",
            show_default=False,
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Choose how much of each group goes.

    The study is all it takes: neither model nor data are needed. One of --loss, --macs
    and --params; the last two may go together.
    """
    found, config = opened(study)
    made = found.plan(loss=loss, macs=macs, params=params, align=align, absolute=absolute)
    path = out or Path(found.path).parent / "plan.json"
    made.save(path)
    printer = Printer(as_json)
    print_plan(printer, made)
    printer.say(f"plan: {path}")
    following = f"prunus prune {config or 'CONFIG'} --plan {path}"
    printer.end(following, plan=path, **made.to_data())


def opened(text: str) -> tuple[Study, str]:
    """Return the study that was named, and the YAML file if it was named by that."""
    from prunus.core.study.study import Study

    if Path(text).suffix in {".yaml", ".yml"}:
        from prunus.cli.target import config_of

        return Study.open(config_of(text).study), text
    return Study.open(text), ""


def print_plan(printer: Printer, made: Plan) -> None:
    """Show what is asked and achieved, group by group, and the plan beside other rules."""
    rows = [
        [
            one.group,
            str(one.size),
            f"{one.asked:.3f}",
            str(one.removed),
            f"{one.ratio:.3f}",
            str(one.size - one.removed),
            "" if one.loss is None else f"{one.loss:.4f}",
        ]
        for one in made.groups
    ]
    printer.table(("group", "channels", "asked", "removed", "share", "left", "loss alone"), rows)
    if made.note:
        printer.say(f"\n{made.note}")
    if made.before is not None and made.after is not None:
        printer.say(
            f"cut together: {short(made.after.macs)} of {short(made.before.macs)} MACs left "
            f"({share(made.after.macs, made.before.macs)}), {short(made.after.numel)} of "
            f"{short(made.before.numel)} parameters ({share(made.after.numel, made.before.numel)})"
        )
        _print_compared(printer, made, made.before)


def _print_compared(printer: Printer, made: Plan, before: Any) -> None:
    rows = [
        [
            one.rule if one.setting is None else f"{one.rule}, {one.setting:.3f}",
            share(one.macs, before.macs),
            share(one.numel, before.numel),
            f"{one.sum:.4f}",
            f"{one.worst:.4f}",
            "" if one.kept is None else f"{one.kept:.1%}",
        ]
        for one in made.compared
    ]
    if len(rows) > 1:
        printer.say("\nBeside other rules at that cost, the losses of the groups one by one:")
        printer.table(
            (
                "rule",
                "MACs left",
                "parameters left",
                "sum of losses",
                "largest",
                "kept, multiplied",
            ),
            rows,
        )

"""`prunus prune`: the channels really go."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from prunus.cli.options import (
    Json,
    PlanPath,
    SettingsOrFile,
    Shapes,
    TargetName,
    WeightsPath,
    Within,
)
from prunus.cli.output import Printer, before_and_after, figures_data, made_folder
from prunus.cli.progress import Bar
from prunus.core.errors import PlanError

if TYPE_CHECKING:
    from prunus.cli.target import Target
    from prunus.core.plan.plan import Plan

__all__ = ["cut", "measured", "plan_of", "prune", "say_cut"]


def prune(
    target: TargetName,
    plan: PlanPath = None,
    ratio: Annotated[
        float | None,
        typer.Option(help="In place of a plan: this share of every group.", show_default=False),
    ] = None,
    option: SettingsOrFile = None,
    weights: WeightsPath = None,
    shape: Shapes = None,
    within: Within = None,
    criterion: Annotated[
        str | None,
        typer.Option(
            help="Which channels go first: l1, l2, fpgm, bn_scale, taylor, random or "
            "MODULE:FUNCTION. Without it, what the plan was made with.",
            show_default=False,
        ),
    ] = None,
    align: Annotated[
        int | None,
        typer.Option(
            help="Leave a multiple of this many channels. Without it, as the plan says.",
            show_default=False,
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Do not measure latency and accuracy.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Cut a model as a plan says, and check it.

    The result is one file, from which a freshly built model is reshaped. Where there is
    data, the statistics of batch norms are estimated anew.
    """
    from prunus import api
    from prunus.cli.target import outputs, target_of

    out, overrides = outputs(option)
    work = target_of(target, shapes=shape, overrides=overrides, within=within, weights=weights)
    chosen = plan_of(work, plan, ratio)
    printer = Printer(as_json)
    pruned = cut(work, chosen, criterion, align)
    say_cut(printer, pruned)
    layers = _recalibrated(work, pruned)
    if layers:
        printer.say(f"batch norms: {len(layers)} learned their statistics anew")
    path = _path(out, work)
    api.save(pruned, path)
    if not quick:
        found = measured(work, [work.model, pruned.model], [pruned.before, pruned.after])
        name = work.config.metric.name if work.config else ""
        before_and_after(printer, ("before", "after"), found, name)
        printer.data["figures"] = {
            when: figures_data(one) for when, one in zip(("before", "after"), found, strict=True)
        }
    printer.say(f"the cut model: {path}")
    given = f" --plan {plan}" if plan else ""
    following = f"prunus finetune {target}{given}"
    if work.config is None:
        following = "train it on: model = prunus.load(the_original(), path) in Python"
    printer.end(
        following,
        model=path,
        before=pruned.before.as_dict(),
        after=pruned.after.as_dict(),
        error=pruned.error,
        unverified=pruned.unverified,
        how=pruned.how,
        recalibrated=list(layers),
        groups={one.group: [one.size, one.removed] for one in pruned.achieved},
    )


def plan_of(work: Target, path: Path | None, ratio: float | None = None) -> Plan | float:
    """Return what to cut: the plan that was named, one ratio, or the plan beside the study."""
    from prunus.core.plan.plan import Plan

    if ratio is not None and path is not None:
        raise typer.BadParameter("--plan and --ratio both say what to cut: leave one of them out")
    if ratio is not None:
        return ratio
    if path is None and work.config is not None:
        path = work.config.study.parent / "plan.json"
        if not path.is_file():
            raise PlanError(
                f"there is no plan: neither --plan, nor a file {str(path)!r}",
                fix=f"make one with: prunus plan {work.config.study} --macs 0.5",
            )
    if path is None:
        raise typer.BadParameter(
            "nothing says what to cut: add --plan plan.json, or --ratio 0.5 for half of every group"
        )
    return Plan.load(path)


def cut(work: Target, chosen: Plan | float, criterion: str | None, align: int | None) -> Any:
    """Return the cut model; the original stays as it is."""
    from prunus import api
    from prunus.cli.analyze import criterion_of
    from prunus.core.scores.criteria import CRITERIA

    # A plan names a function of somebody's own, but only MODULE:FUNCTION leads to it.
    planned = getattr(chosen, "criterion", "")
    configured = work.config.analysis.criterion if work.config else "l1"
    name = criterion or (planned if planned in CRITERIA else configured)
    return api.prune(
        work.model,
        work.example,
        chosen,
        criterion=criterion_of(name),
        align=align,
        within=work.within,
        verify=work.config.prune.verify if work.config else True,
    )


def say_cut(printer: Printer, pruned: Any) -> None:
    """Say how much went, and how that was checked."""
    removed = sum(one.removed for one in pruned.achieved)
    whole = sum(one.size for one in pruned.achieved)
    printer.say(f"cut {removed} of {whole} channels in {len(pruned.achieved)} groups")
    if pruned.error is not None:
        printer.say(
            "checked against the original with those channels zeroed: the outputs differ by "
            f"{pruned.error:.0e}"
        )
    elif pruned.unverified:
        printer.say(f"not checked against the original: {pruned.unverified}")
    if pruned.mixes:
        printer.say(f"mixing channels, so accuracy depends on it: {', '.join(pruned.mixes[:3])}")


def _recalibrated(work: Target, pruned: Any) -> tuple[str, ...]:
    from prunus.cli.target import Some

    batches = work.config.prune.recalibrate if work.config else 0
    if not batches or not work.has_data:
        return ()
    found: tuple[str, ...] = work.kit.recalibrate(pruned.model, Some(work.data.train, batches))
    return found


def measured(work: Target, models: list[Any], costs: list[Any] | None) -> Any:
    """Return size, cost, latency and metric of the models."""
    with Bar() as bar:
        return work.kit.figures(
            models,
            work.example,
            costs=costs,
            evaluation=work.evaluation if work.has_data else None,
            progress=lambda done, total: bar.show("judge", done, total),
        )


def _path(out: Path, work: Target) -> Path:
    if out != Path():
        return out
    if work.config is None:
        return Path("small.safetensors")
    made_folder(work.config.folder)
    return work.config.folder / "pruned.safetensors"

"""`prunus analyze`: what each group of channels is worth."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from prunus.cli.options import ConfigPath, Json, Settings, WeightsPath
from prunus.cli.output import Printer, made_folder
from prunus.cli.progress import Bar
from prunus.core.errors import StudyError

__all__ = ["analyze", "criterion_of"]


def analyze(
    config: ConfigPath,
    study: Annotated[
        Path | None,
        typer.Option(
            help="The file of results, made or gone on with. Without it, the one that CONFIG says.",
            show_default=False,
        ),
    ] = None,
    params: Annotated[
        str | None,
        typer.Option(
            help="Names or patterns of weights, with commas between; without it, all.",
            show_default=False,
        ),
    ] = None,
    ratios: Annotated[
        str | None,
        typer.Option(
            help="Shares of each group to try without, such as 0.25,0.5,0.75.", show_default=False
        ),
    ] = None,
    shard: Annotated[
        str | None,
        typer.Option(
            metavar="K/N", help="Measure only the K-th of N parts, from 1.", show_default=False
        ),
    ] = None,
    adaptive: Annotated[
        float | None,
        typer.Option(
            help="Stop each measurement when its loss is known within this much, such as 0.005.",
            show_default=False,
        ),
    ] = None,
    budget: Annotated[
        float | None,
        typer.Option(
            help="Measure only what tells where each group loses this much.", show_default=False
        ),
    ] = None,
    estimate: Annotated[
        bool, typer.Option("--estimate", help="Begin with a guess from gradients.")
    ] = False,
    weights: WeightsPath = None,
    option: Settings = None,
    as_json: Json = False,
) -> None:
    """Measure what each group of channels is worth.

    At each ratio the channels of one group really go, and the model of CONFIG is judged
    on its test images. Whatever is measured is kept at once. Interrupt it as you like:
    the same command goes on.
    """
    from prunus import api
    from prunus.cli.target import Some, target_of

    typed = [
        f"analysis.{name}={value}"
        for name, value in (
            ("params", params and f"[{params}]"),
            ("ratios", ratios and f"[{ratios}]"),
            ("adaptive", adaptive),
            ("budget", budget),
            ("estimate", "true" if estimate else None),
            ("study", study),
        )
        if value is not None
    ]
    target = target_of(
        config, overrides=[*(option or ()), *typed], weights=weights, needs_data=True
    )
    settings = target.settings
    wanted = settings.analysis
    made_folder(settings.study.parent)
    try:
        with Bar() as bar:
            found = api.analyze(
                target.model,
                target.example,
                target.evaluation,
                study=settings.study,
                ratios=wanted.ratios,
                params=wanted.params,
                criterion=criterion_of(wanted.criterion),
                align=wanted.align,
                within=target.within,
                adaptive=wanted.adaptive,
                budget=wanted.budget,
                estimate=wanted.estimate,
                recalibrate=(
                    Some(target.data.train, wanted.recalibrate) if wanted.recalibrate else None
                ),
                precision=wanted.precision,
                shard=parse_shard(shard),
                progress=bar.analysis,
            )
    except KeyboardInterrupt:
        raise StudyError(
            f"interrupted; what was measured is in {settings.study}",
            fix="run the same command again: it goes on from there",
        ) from None
    printer = Printer(as_json)
    printer.say(found.table())
    correlation = found.rank_correlation() if wanted.estimate else None
    if correlation is not None:
        printer.say(
            f"the guess from gradients ordered the losses with a correlation of {correlation:.2f}"
        )
    _end(printer, found, settings, shard, correlation)


def _end(
    printer: Printer, found: Any, settings: Any, shard: str | None, correlation: float | None
) -> None:
    following = f"prunus plan {settings.study} --macs 0.5"
    if shard is not None:
        following = "prunus merge, when all shards are measured: prunus merge STUDY... -o ALL"
    printer.end(
        following,
        study=settings.study,
        baseline=found.baseline,
        groups=len(found.groups),
        cells=len(found.cells),
        missing=len(found.missing),
        estimate_correlation=correlation,
        sensitivities=found.sensitivities(),
    )


def parse_shard(text: str | None) -> tuple[int, int] | None:
    """Read a part of the work such as "2/4"."""
    if text is None:
        return None
    first, slash, last = text.partition("/")
    if not slash or not (first.isdigit() and last.isdigit()) or not 1 <= int(first) <= int(last):
        raise typer.BadParameter(
            f"{text!r} is no part of the work: write which part and of how many, from 1, such as "
            "1/4 to 4/4",
            param_hint="'--shard'",
        )
    return int(first), int(last)


def criterion_of(name: str) -> Any:
    """Return a criterion by its name, or the function that MODULE:FUNCTION names."""
    if ":" not in name:
        return name
    from prunus.tasks.models import named

    return named(name)

"""`prunus train`: the first step, a model that is worth cutting."""

from __future__ import annotations

from typing import Annotated

import typer

from prunus.cli.options import ConfigPath, Json, Settings, WeightsPath
from prunus.cli.output import Printer
from prunus.cli.progress import Bar, duration

__all__ = ["train"]


def train(
    config: ConfigPath,
    option: Settings = None,
    weights: WeightsPath = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Begin anew, even where a checkpoint is there.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Train the model of CONFIG.

    Interrupt it as you like: the same command goes on from the last checkpoint.
    """
    from prunus.cli.target import target_of

    target = target_of(config, overrides=option, weights=weights, steps=(), needs_data=True)
    printer = Printer(as_json)
    settings = target.settings
    images = settings.images
    with Bar() as bar:
        done = target.kit.train(
            target.model,
            target.data,
            settings.train.model_copy(update={"distillation": None}),
            metric=settings.metric,
            progress=bar.training,
            resume=not fresh,
        )
    target.kit.save_weights(done.model, settings.trained)
    if done.resumed_from:
        printer.say(f"went on from step {done.resumed_from} of an earlier run")
    stopped = ", stopped early" if done.stopped_early else ""
    printer.say(
        f"trained on {images.train or images.kind} for {done.epochs} epochs{stopped}, "
        f"{duration(done.seconds)}: {settings.metric.name} {done.metric:.4f} (epoch "
        f"{done.best_epoch})"
    )
    printer.say(f"weights: {settings.trained}")
    printer.end(
        f"prunus analyze {config}",
        metric=done.metric,
        best_epoch=done.best_epoch,
        epochs=done.epochs,
        seconds=done.seconds,
        stopped_early=done.stopped_early,
        resumed_from=done.resumed_from,
        weights=settings.trained,
        folder=done.folder,
    )

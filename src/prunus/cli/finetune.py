"""`prunus finetune`: train what is left, from the weights of the original."""

from __future__ import annotations

from typing import Annotated

import typer

from prunus.cli.options import ConfigPath, Json, PlanPath, SettingsOrFile, WeightsPath
from prunus.cli.output import Printer, before_and_after, figures_data
from prunus.cli.progress import Bar, duration
from prunus.cli.prune import cut, measured, plan_of, say_cut

__all__ = ["finetune"]


def finetune(
    config: ConfigPath,
    plan: PlanPath = None,
    option: SettingsOrFile = None,
    weights: WeightsPath = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Begin anew, even where a checkpoint is there.")
    ] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="Do not measure latency and size at the end.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Cut a model as a plan says, and train it on.

    Training starts from the weights of the original. Interrupt it as you like: the same
    command goes on from the last checkpoint. The section finetune says how, train where
    it does not; finetune.distillation lets the unpruned model teach.
    """
    from prunus import api
    from prunus.cli.target import outputs, target_of

    out, overrides = outputs(option)
    work = target_of(config, overrides=overrides, weights=weights, needs_data=True)
    settings = work.settings
    path = out if out.name else settings.folder / "finetuned.safetensors"
    printer = Printer(as_json)
    pruned = cut(work, plan_of(work, plan), None, None)
    say_cut(printer, pruned)
    with Bar() as bar:
        done = work.kit.train(
            pruned.model,
            work.data,
            settings.finetune,
            metric=settings.metric,
            teacher=work.model if settings.finetune.distillation else None,
            progress=bar.training,
            resume=not fresh,
        )
    api.save(pruned, path)
    if done.resumed_from:
        printer.say(f"went on from step {done.resumed_from} of an earlier run")
    printer.say(
        f"trained on for {done.epochs} epochs, {duration(done.seconds)}: {settings.metric.name} "
        f"{done.metric:.4f} (epoch {done.best_epoch})"
    )
    if not quick:
        found = measured(work, [work.model, pruned.model], [pruned.before, pruned.after])
        before_and_after(printer, ("before", "after"), found, settings.metric.name)
        printer.data["figures"] = {
            when: figures_data(one) for when, one in zip(("before", "after"), found, strict=True)
        }
    printer.say(f"the small model: {path}")
    printer.end(
        f"prunus export {config} -o small.onnx",
        model=path,
        metric=done.metric,
        best_epoch=done.best_epoch,
        epochs=done.epochs,
        seconds=done.seconds,
        resumed_from=done.resumed_from,
        before=pruned.before.as_dict(),
        after=pruned.after.as_dict(),
    )

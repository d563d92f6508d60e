"""`prunus export`: a file that runs without prunus, and without Python."""

from __future__ import annotations

from pathlib import Path

from prunus.cli.options import Json, SettingsOrFile, Shapes, TargetName, WeightsPath
from prunus.cli.output import Printer, bytes_of

__all__ = ["export"]


def export(
    target: TargetName,
    option: SettingsOrFile = None,
    weights: WeightsPath = None,
    shape: Shapes = None,
    as_json: Json = False,
) -> None:
    """Write a model as ONNX or torch.export archive.

    The ending of the file says which: .onnx or .pt2. The file is run and compared with
    the model before it is kept. Of a YAML file, the weights of the last step are taken:
    finetuned, pruned or trained.
    """
    from prunus.cli.target import outputs, target_of

    out, overrides = outputs(option, Path("small.onnx"))
    work = target_of(
        target,
        shapes=shape,
        overrides=overrides,
        weights=weights,
        steps=("finetuned", "pruned", "trained"),
    )
    printer = Printer(as_json)
    printer.say(f"weights: {work.weights or 'those of the factory'}")
    done = work.kit.export(work.model, work.example, out)
    printer.say(
        f"{done.path}: {done.format}, {bytes_of(done.size)}; run and compared with the model, the "
        f"outputs differ by {done.error:.0e}"
    )
    if done.note:
        printer.say(f"its batch size is fixed: {done.note}")
    printer.end(
        path=done.path,
        format=done.format,
        size=done.size,
        error=done.error,
        any_batch=done.any_batch,
        note=done.note,
        weights=work.weights,
    )

"""`prunus demo`: the whole flow on real data, in under three minutes."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from prunus.cli.options import Json
from prunus.cli.output import Printer, before_and_after, figures_data, made_folder
from prunus.core.errors import ConfigError, MissingExtraError

__all__ = ["demo"]

NEEDED = ("torch", "sklearn", "onnx", "onnxscript", "onnxruntime", "matplotlib")


def demo(
    folder: Annotated[Path, typer.Option("-o", "--out", help="Where all files go.")] = Path(
        "prunus-demo"
    ),
    macs: Annotated[float, typer.Option(help="Share of the multiply-adds that is kept.")] = 0.35,
    align: Annotated[int, typer.Option(help="Leave a multiple of this many channels.")] = 16,
    epochs: Annotated[int, typer.Option(min=1, help="Rounds of training, before and after.")] = 12,
    as_json: Json = False,
) -> None:
    """Go through the whole flow on real scanned digits.

    That is: train, analyse, plan, cut, train on, export, a table and a picture. Every
    step is a command that can be typed by itself; a second run finds what the first one
    left.
    """
    for package in NEEDED:
        if find_spec(package) is None:
            raise MissingExtraError(
                f"the demo needs {package!r}, which is not installed",
                fix="pip install 'prunus[demo]'",
            )
    from prunus.tasks.digits import one_thread

    made_folder(folder)
    config = _config(folder / "prunus.yaml", epochs)
    with one_thread():
        _story(Printer(as_json), folder, config, macs, align)


def _config(path: Path, epochs: int) -> Path:
    """Write the YAML file; one that is there must be the same."""
    from prunus.core.files import whole_file
    from prunus.tasks.example import example

    training = {"epochs": epochs, "learning_rate": 0.003}
    text = example(
        {
            "model": {"name": "prunus.tasks.digits:network"},
            "data": {"kind": "digits", "channels": 1, "image_size": 16, "batch_size": 64},
            "train": training,
            "finetune": training,
        }
    )
    if path.exists() and path.read_text(encoding="utf-8") != text:
        raise ConfigError(
            f"{str(path)!r} is of another demo, or was changed",
            fix=f"choose another folder with -o, or go on with it: prunus train {path}, and so on",
        )
    with whole_file(path) as part:
        part.write_text(text, encoding="utf-8")
    return path


def _story(printer: Printer, folder: Path, config: Path, macs: float, align: int) -> None:
    from prunus.cli.analyze import analyze
    from prunus.cli.export import export
    from prunus.cli.finetune import finetune
    from prunus.cli.plan import plan
    from prunus.cli.prune import prune
    from prunus.cli.train import train

    name = str(config)
    onnx = folder / "small.onnx"
    steps: list[tuple[str, str, Any]] = [
        ("train", "1. A network learns to read scanned digits.", lambda: train(name)),
        ("analyze", "2. What is each group of its channels worth?", lambda: analyze(name)),
        (
            f"plan --macs {macs:g} --align {align}",
            "3. How much of each goes, so that the least is lost?",
            lambda: plan(name, macs=macs, align=align),
        ),
        ("prune --quick", "4. They really go.", lambda: prune(name, quick=True)),
        ("finetune --quick", "5. What is left learns on.", lambda: finetune(name, quick=True)),
        (f"export -o {onnx}", "6. A file for other programs.", lambda: export(name, [str(onnx)])),
    ]
    for typed, title, step in steps:
        command, _, options = typed.partition(" ")
        printer.say(f"\n{title}\n$ prunus {command} {config} {options}".rstrip())
        step() if not printer.as_json else _silent(step)
    _end(printer, folder, name)


def _silent(step: Any) -> None:
    """Run a step without what it prints, for there will be one JSON at the end."""
    import contextlib
    import io

    with contextlib.redirect_stdout(io.StringIO()):
        step()


def _end(printer: Printer, folder: Path, config: str) -> None:
    """Print the table, draw the picture, and say where it is."""
    from prunus.cli.picture import draw
    from prunus.cli.prune import measured
    from prunus.cli.target import target_of
    from prunus.core.plan.plan import Plan
    from prunus.core.study.study import Study

    work = target_of(config)
    settings = work.settings
    small = work.built(settings.folder / "finetuned.safetensors")
    found = measured(work, [work.model, small], None)
    printer.say("\nBefore and after:")
    before_and_after(printer, ("before", "after"), found, settings.metric.name)
    picture = folder / "curves.png"
    draw(Study.open(settings.study), picture, plan=Plan.load(settings.study.parent / "plan.json"))
    printer.say(f"\npicture: {picture}")
    printer.end(
        "prunus init, with --model and --data of your own",
        figures={w: figures_data(one) for w, one in zip(("before", "after"), found, strict=True)},
        picture=picture,
        folder=folder,
    )

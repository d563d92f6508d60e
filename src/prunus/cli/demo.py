"""`prunus demo`: the whole story on real data, in under two minutes."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from prunus.cli.text import console, share, short, table
from prunus.core.errors import MissingExtraError

if TYPE_CHECKING:
    from rich.console import Console

    from prunus.core.results import Cost

__all__ = ["demo"]


def demo(
    folder: Annotated[
        Path, typer.Option("-o", "--out", help="Where the two model files go.")
    ] = Path("prunus-demo"),
    ratio: Annotated[float, typer.Option(help="Share of channels that each group loses.")] = 0.5,
    epochs: Annotated[int, typer.Option(min=1, help="Rounds of training, before and after.")] = 20,
) -> None:
    """Train a small network on scanned digits, cut it, train it on, save it, load it."""
    for package in ("torch", "sklearn"):
        if find_spec(package) is None:
            raise MissingExtraError(
                f"the demo needs {package!r}, which is not installed",
                fix="pip install 'prunus[demo]'",
            )
    from prunus.tasks.digits import one_thread

    with one_thread():
        _story(console(), folder, ratio, epochs)


def _story(out: Console, folder: Path, ratio: float, epochs: int) -> None:
    from prunus import api
    from prunus.tasks import digits

    data = digits.load()
    out.print(
        f"1. Train a residual network on {len(data.images)} scanned digits, "
        f"{len(data.test_images)} kept for testing ..."
    )
    model = digits.network()
    digits.train(model, data, epochs, rate=3e-3)
    example = data.test_images[:1]
    found = api.trace(model, example)
    out.print(
        f"2. Trace it: {len(found.groups)} groups of channels can go, such as "
        f"{found.groups[0].name!r}; {found.frozen[0].name!r} stays, because "
        f"{found.frozen[0].because}."
    )
    pruned = api.prune(model, example, ratio)
    cut_accuracy = digits.accuracy(pruned.model, data)
    out.print(
        f"3. Cut {ratio:.0%} of each group. Checked against the original with those channels "
        f"zeroed: the outputs differ by {pruned.error:.0e}. Accuracy before any training: "
        f"{cut_accuracy:.1%}."
    )
    out.print("4. Train what is left, for as long ...")
    digits.train(pruned.model, data, epochs, rate=3e-3, seed=1)
    folder.mkdir(parents=True, exist_ok=True)
    whole, small = folder / "whole.safetensors", folder / "small.safetensors"
    digits.save_weights(model, whole)
    api.save(pruned, small)
    loaded = api.load(digits.network(seed=1), small)
    out.print(
        f"5. Save it as {small}, load it into a freshly built network: on the test digits the "
        f"outputs differ by {digits.difference(pruned.model, loaded, data):g}.\n"
    )
    _print_table(out, _rows(model, pruned, (whole, small), data))
    out.print("\nnext: prunus params prunus.tasks.digits:network --shape 1,1,8,8")


def _rows(model: Any, pruned: Any, files: tuple[Path, Path], data: Any) -> list[list[str]]:
    from prunus.tasks import digits

    models: list[Any] = [model, pruned.model]
    costs: list[Cost] = [pruned.before, pruned.after]
    right = [digits.accuracy(one, data) for one in models]
    seconds = digits.latency(models, data)
    sizes = [path.stat().st_size for path in files]
    return [
        [
            "accuracy",
            *(f"{one:.1%}" for one in right),
            f"{100 * (right[1] - right[0]):+.1f} points",
        ],
        _row("MACs", [cost.macs for cost in costs]),
        _row("parameters", [cost.numel for cost in costs]),
        _row("file, bytes", sizes),
        ["64 digits, ms", *(f"{1000 * one:.2f}" for one in seconds), share(seconds[1], seconds[0])],
    ]


def _row(name: str, values: list[int]) -> list[str]:
    return [name, *(short(value) for value in values), share(values[1], values[0])]


def _print_table(out: Console, rows: list[list[str]]) -> None:
    table(out, ("", "before", "after", "left"), rows)

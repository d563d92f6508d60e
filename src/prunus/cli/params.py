"""`prunus params`: what can be cut, what cannot, and why."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from prunus.cli.options import Json, Settings, Shapes, TargetName, Within
from prunus.cli.text import console, more, share, short, table

if TYPE_CHECKING:
    from rich.console import Console

    from prunus.core.graph.groups import Frozen
    from prunus.core.results import Trace

__all__ = ["params"]

REASONS = 12
"""How many reasons are shown when nobody asks for all."""


def params(
    target: TargetName,
    shape: Shapes = None,
    within: Within = None,
    option: Settings = None,
    frozen: Annotated[
        bool, typer.Option("--frozen", help="List every weight that stays, with its reason.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show what a model can lose, and what stays and why.

    A group of channels lives and dies together, and gets one ratio.
    """
    from prunus.api import trace
    from prunus.cli.target import target_of

    work = target_of(target, shapes=shape, overrides=option, within=within)
    found = trace(work.model, work.example, within=work.within)
    if as_json:
        import json

        typer.echo(json.dumps(_as_data(found), indent=2))
        return
    out = console()
    _print_groups(out, found)
    (_print_frozen if frozen else _print_reasons)(out, found)
    out.print(_next(found, target if work.config else None))


def _as_data(found: Trace) -> dict[str, Any]:
    return {
        "macs": found.macs,
        "numel": found.numel,
        "groups": [
            {
                "name": group.name,
                "channels": group.size,
                "params": list(group.params),
                "macs": group.macs,
                "numel": group.numel,
            }
            for group in found.groups
        ],
        "frozen": [
            {"name": one.name, "because": one.because, "channels": one.channels, "of": one.of}
            for one in found.frozen
        ],
        "unknown": list(found.unknown),
    }


def _print_groups(out: Console, found: Trace) -> None:
    rows = [
        [
            group.name,
            str(group.size),
            str(len(group.params)),
            short(group.macs),
            share(group.macs, found.macs),
            short(group.numel),
            share(group.numel, found.numel),
        ]
        for group in found.groups
    ]
    if rows:
        header = ("group", "channels", "weights", "MACs", "of all", "parameters", "of all")
        table(out, header, rows)
        out.print()
    channels = sum(group.size for group in found.groups)
    out.print(
        f"{_count(len(found.groups), 'group')} of {_count(channels, 'channel')}; the whole model: "
        f"{short(found.macs)} MACs, {short(found.numel)} parameters"
    )
    if len(rows) > 1:
        out.print(
            "What lies between two groups counts for both, so the shares need not add up to 100 %."
        )


def _print_reasons(out: Console, found: Trace) -> None:
    """Print one line a reason, the most frequent first."""
    by_reason: dict[str, list[Frozen]] = defaultdict(list)
    for one in found.frozen:
        by_reason[one.because].append(one)
    if not by_reason:
        return
    out.print("\nWhat stays, and why:")
    ordered = sorted(by_reason.items(), key=lambda item: -len(item[1]))
    for because, members in ordered[:REASONS]:
        names = more([_part(one) for one in members])
        out.print(f"  {_count(len(members), 'weight')}, because {because}: {names}")
    if len(ordered) > REASONS:
        rest = _count(len(ordered) - REASONS, "more reason")
        out.print(f"  and {rest}: --frozen lists every weight")


def _print_frozen(out: Console, found: Trace) -> None:
    if not found.frozen:
        out.print("\nNothing stays whole.")
        return
    out.print("\nWhat stays, and why:")
    for one in found.frozen:
        out.print(f"  {_part(one)}: {one.because}")


def _part(one: Frozen) -> str:
    return one.name if one.channels == one.of else f"{one.name} ({one.channels} of {one.of})"


def _next(found: Trace, config: str | None) -> str:
    lines = [""]
    if found.unknown:
        lines.append(
            f"Without a rule: {more(found.unknown)}; what they touch stays, and their MACs are "
            "not counted. prunus.trace(..., rules=...) takes a rule of your own."
        )
    if found.groups and config is not None:
        lines.append(f"next: prunus analyze {config}, once the model is trained")
    elif found.groups:
        name = found.groups[0].name
        lines.append(
            f"next: prunus.prune(model, example, 0.5) in Python takes half of every group; "
            f"{{{name!r}: 0.5}} in place of 0.5, half of one"
        )
    else:
        lines.append("next: nothing here can be cut; the reasons above say what stands in the way")
    return "\n".join(lines)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"

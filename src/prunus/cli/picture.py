"""A study as a picture: what each group loses, and what the model loses for it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from prunus.core.errors import MissingExtraError, PlanError
from prunus.core.files import whole_file

if TYPE_CHECKING:
    from prunus.core.plan.plan import Plan
    from prunus.core.study.study import Study

__all__ = ["draw", "model_curve"]

SHOWN = 8
"""How many groups have a colour and a name: those that lose most."""

LOSSES = tuple(k / 40 for k in range(21))
"""Losses that every group may cost, from 0 to 0.5, at which the second picture is drawn."""


def draw(study: Study, path: Path, *, plan: Plan | None = None, absolute: bool = False) -> None:
    """Write the picture; the ending of `path` says in which format.

    To the left, the loss of each group by the share of channels removed, with dots where
    a plan cuts. To the right, the share of the model that goes when every group may cost
    a certain loss, as in PaddleX.
    """
    figure = _figure()
    totals = model_curve(study, absolute=absolute)
    left, *right = figure.subplots(1, 2 if totals else 1, squeeze=False)[0]
    _curves(left, study, plan, absolute)
    if totals:
        _totals(right[0], totals, plan)
    figure.suptitle(f"{study.header.identity.metric}, whole model {study.baseline:.4g}")
    with whole_file(path) as part:
        try:
            figure.savefig(part, dpi=150)
        except ValueError as error:
            raise PlanError(
                f"a picture cannot be written as {path.suffix or 'a file without an ending'!r}",
                fix="end the path with .png, .svg or .pdf",
            ) from error


def model_curve(study: Study, *, absolute: bool = False) -> list[tuple[float, float, float]]:
    """Return (loss, share of MACs gone, share of parameters gone) by the seeds' rule."""
    from prunus.core.plan.compare import by_loss
    from prunus.core.plan.costs import CostTable
    from prunus.core.plan.curves import losses_of

    if not study.header.costs or (study.caveat and not absolute):
        return []
    table = CostTable.read(study.header.costs)
    curves = losses_of(study, absolute=absolute)
    found = []
    for loss in LOSSES:
        left = table.cost(table.counts(by_loss(curves, loss)))
        found.append((loss, 1 - left.macs / table.whole.macs, 1 - left.numel / table.whole.numel))
    return found


def _figure() -> Any:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError(
            "a picture needs matplotlib, which is not installed",
            fix="pip install 'prunus[report]'",
        ) from error
    return Figure(figsize=(12, 5), layout="constrained")


def _curves(axes: Any, study: Study, plan: Plan | None, absolute: bool) -> None:
    named = {cell.group for cell in study.worst(SHOWN)}
    asked = {} if plan is None else {one.group: one for one in plan.groups}
    for group in study.groups:
        points = sorted(study.curve(group.name, absolute=absolute).items())
        if not points:
            continue
        ratios, losses = [0.0, *(r for r, _ in points)], [0.0, *(loss for _, loss in points)]
        colour = {} if group.name in named else {"color": "0.8", "linewidth": 0.8, "zorder": 1}
        label = group.name if group.name in named else None
        (line,) = axes.plot(ratios, losses, marker=".", label=label, **colour)
        chosen = asked.get(group.name)
        if chosen is not None and chosen.removed and chosen.loss is not None:
            style = {"color": line.get_color(), "edgecolors": "black", "zorder": 3}
            axes.scatter([chosen.ratio], [chosen.loss], s=40, **style)
    axes.set_xlabel("share of the group's channels removed")
    axes.set_ylabel("loss" if absolute else "loss, relative to the whole model")
    axes.axhline(0, color="black", linewidth=0.5)
    axes.legend(fontsize="x-small", title="the groups that lose most", title_fontsize="x-small")


def _totals(axes: Any, totals: list[tuple[float, float, float]], plan: Plan | None) -> None:
    losses = [loss for loss, _, _ in totals]
    axes.plot([numel for _, _, numel in totals], losses, marker=".", label="parameters")
    axes.plot([macs for _, macs, _ in totals], losses, marker=".", label="multiply-adds")
    if plan is not None and plan.before is not None and plan.after is not None:
        gone = 1 - plan.after.macs / plan.before.macs
        axes.axvline(gone, linestyle="--", color="0.5", label="multiply-adds of the plan")
    axes.set_xlabel("share of the model that goes")
    axes.set_ylabel("loss that every group may cost alone")
    axes.set_xlim(0, 1)
    axes.legend(fontsize="x-small")

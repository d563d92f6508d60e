"""A study and a wish to a plan: so much loss a layer, or so much left of the whole."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from prunus.core.cut.rounding import asked_count
from prunus.core.errors import PlanError
from prunus.core.plan.compare import KINDS, by_loss, compared
from prunus.core.plan.costs import CostTable
from prunus.core.plan.curves import Losses, Measurements, losses_of, remarks
from prunus.core.plan.optimise import optimise
from prunus.core.plan.plan import Plan, Planned

__all__ = ["make_plan"]


def make_plan(
    study: Measurements,
    *,
    loss: float | None = None,
    macs: float | None = None,
    params: float | None = None,
    align: int = 1,
    absolute: bool = False,
) -> Plan:
    """Choose how much of each group goes.

    Args:
        study: What was measured; the model is not needed.
        loss: Of every group as much as costs at most this loss when it is cut alone. This
            is the rule of PaddleSlim, to the digit.
        macs: Keep at most this share of the multiply-adds, for the least sum of losses.
        params: Keep at most this share of the parameters; both budgets may be given.
        align: Leave a multiple of this many channels, where a group has that many.
        absolute: Losses in units of the metric, not relative to the baseline.

    Raises:
        PlanError: Where what was measured does not allow such a plan.
    """
    given = {"loss": loss, "macs": macs, "params": params}
    asked = {name: value for name, value in given.items() if value is not None}
    _check(asked, align)
    absolute, notes = _scale(study, asked, absolute)
    curves = losses_of(study, absolute=absolute)
    notes += remarks(curves)
    if loss is not None:
        ratios = by_loss(curves, loss)
        table = CostTable.read(study.header.costs) if study.header.costs else None
    else:
        table = CostTable.read(study.header.costs)
        budget = {
            kind: asked[name] * getattr(table.whole, kind)
            for name, kind in KINDS.items()
            if name in asked
        }
        ratios = optimise(table, curves, budget, align)
    return Plan(
        ratios,
        note="; ".join([_sentence(asked, absolute), *notes]),
        align=align,
        criterion=str(study.header.identity.criterion),
        asked=asked,
        groups=_groups(table, curves, ratios, align),
        before=None if table is None else table.whole,
        after=None if table is None else table.cost(table.counts(ratios, align)),
        compared=() if table is None else compared(table, curves, align, ratios, asked),
    )


def _check(asked: Mapping[str, float], align: int) -> None:
    if not asked or ("loss" in asked and len(asked) > 1):
        given = ", ".join(asked) or "nothing"
        raise PlanError(
            f"a plan needs either loss=, or macs= or params=, and got {given}",
            fix="write study.plan(loss=0.05), or study.plan(macs=0.5) to keep half of the "
            "multiply-adds",
        )
    for name, value in asked.items():
        good = not isinstance(value, bool) and isinstance(value, int | float)
        if not good or (math.isnan(value) if name == "loss" else not 0 < value <= 1):
            raise PlanError(
                f"{name}={value!r} is no budget",
                fix="give the loss that each group may cost, such as 0.05"
                if name == "loss"
                else "give the share to keep, above 0 and at most 1, such as 0.5",
            )
    if isinstance(align, bool) or not isinstance(align, int) or align < 1:
        raise PlanError(f"align is {align!r}, and must be a whole number from 1", fix="try align=8")


def _scale(
    study: Measurements, asked: Mapping[str, float], absolute: bool
) -> tuple[bool, list[str]]:
    """Return whether losses are absolute, and what to say of that."""
    if absolute or not study.caveat:
        return absolute, []
    if "loss" in asked:
        raise PlanError(
            study.caveat,
            fix="pass absolute=True (--absolute on the command line), with the loss in units of "
            "the metric",
        )
    return True, ["the baseline allows no relative loss: losses are absolute"]


def _sentence(asked: Mapping[str, float], absolute: bool) -> str:
    if "loss" in asked:
        unit = "" if absolute else " of the baseline"
        return f"each group alone loses at most {asked['loss']:g}{unit}"
    words = {"macs": "multiply-adds", "params": "parameters"}
    kept = " and ".join(f"{value:.4g} of the {words[name]}" for name, value in asked.items())
    return f"keep at most {kept}, for the least sum of losses"


def _groups(
    table: CostTable | None, curves: Sequence[Losses], ratios: Mapping[str, float], align: int
) -> tuple[Planned, ...]:
    """Return what becomes of each group."""
    if table is None:
        counts = [asked_count(one.size, ratios.get(one.name, 0.0)) for one in curves]
    else:
        counts = table.rounding.by_group(table.counts(ratios, align))
    return tuple(
        Planned(
            one.name,
            one.size,
            ratios.get(one.name, 0.0),
            count,
            one.at(count) if one.ratios else None,
        )
        for one, count in zip(curves, counts, strict=True)
    )

"""What was measured of each group, as a plan reads it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from prunus.core.errors import PlanError

__all__ = ["Losses", "Measurements", "losses_of", "remarks"]

RELATIVE = "relative loss"
"""What a study calls its metric where losses were imported, and not measured."""

_LEAST = 1e-3
"""What is kept where all is lost, so that to lose all has a price."""


class Measurements(Protocol):
    """What a plan asks of a study."""

    @property
    def groups(self) -> Sequence[Any]:
        """Return the groups, each with `name` and `size`."""
        ...

    @property
    def header(self) -> Any:
        """Return what has `costs` and `identity.criterion`."""
        ...

    @property
    def caveat(self) -> str:
        """Return why no loss can be relative to the baseline; "" where it can."""
        ...

    def curve(self, name: str, *, absolute: bool = False) -> Any:
        """Return the losses of a group by ratio, with `points`."""
        ...


@dataclass(frozen=True, eq=False)
class Losses:
    """The curve of one group."""

    name: str
    size: int
    by_ratio: Mapping[float, float]
    """As measured; a loss may be negative, or NaN."""
    removed: Mapping[float, int]
    """How many channels each ratio took."""
    partial: int = 0
    """How many of the losses are of a part of the samples."""
    ruin: float | None = None
    """What a ruined model loses, where losses are shares of what the whole one scores."""

    @cached_property
    def ratios(self) -> tuple[float, ...]:
        """Return the ratios that a plan may choose, from the smallest."""
        return tuple(sorted(r for r, loss in self.by_ratio.items() if not math.isnan(loss)))

    @cached_property
    def most(self) -> int:
        """Return the largest number of channels that was tried."""
        return max((self.removed[ratio] for ratio in self.ratios), default=0)

    def at(self, count: float) -> float:
        """Return the loss to expect when so many channels go.

        Between two points it is a straight line. Losses that fall where more is cut are
        noise, and are replaced by the nearest curve that never falls; to gain is not to
        be expected either.
        """
        counts, losses = self._smooth
        return float(np.interp(count, counts, losses))

    def price(self, count: float) -> float:
        """Return what a plan pays for that: prices of several groups add up.

        Two cuts that each keep a half keep a quarter together, so it is the logarithms
        of what is kept that add up. Added up as they are, losses would make one ruined
        group, which cannot lose more than all, cheaper than a little less everywhere.
        """
        loss = self.at(count)
        return loss if self.ruin is None else -math.log(max(_LEAST, 1.0 - loss / self.ruin))

    @cached_property
    def falls(self) -> bool:
        """Tell whether the measured losses fall anywhere."""
        losses = [self.by_ratio[ratio] for ratio in self.ratios]
        return any(b < a for a, b in itertools.pairwise(losses))

    @cached_property
    def _smooth(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        found: dict[int, list[float]] = {}
        for ratio in self.ratios:
            found.setdefault(self.removed[ratio], []).append(self.by_ratio[ratio])
        counts = sorted(count for count in found if count)
        losses = _rising([float(np.mean(found[count])) for count in counts])
        return np.array([0.0, *counts]), np.maximum([0.0, *losses], 0.0)


def losses_of(study: Measurements, *, absolute: bool) -> list[Losses]:
    """Return the curves of a study, in the order of the network."""
    identity = study.header.identity
    shares = not absolute and (identity.higher_is_better or identity.metric == RELATIVE)
    found = []
    for group in study.groups:
        curve = study.curve(group.name, absolute=absolute)
        removed = {point.ratio: point.removed for point in curve.points}
        partial = sum(point.kind == "adaptive" for point in curve.points)
        found.append(Losses(group.name, group.size, dict(curve), removed, partial))
    if not any(one.ratios for one in found):
        raise PlanError(
            "no group of the study has a loss to plan with",
            fix="run prunus.analyze with the same study; study.table() shows what is known",
        )
    return [replace(one, ruin=_ruin(found)) for one in found] if shares else found


def _ruin(curves: Sequence[Losses]) -> float:
    """Return what a ruined model loses: it still guesses, so that is less than all.

    The largest measured loss tells, if anything was cut so far; two classes of which
    one is guessed lose a half.
    """
    lost = [loss for one in curves for loss in one.by_ratio.values() if not math.isnan(loss)]
    return min(1.0, max(0.5, *lost))


def remarks(curves: Sequence[Losses]) -> list[str]:
    """Say what is odd about the curves, a sentence each."""
    unmeasured = sum(not one.ratios for one in curves)
    nan = sum(math.isnan(loss) for one in curves for loss in one.by_ratio.values())
    negative = sum(any(loss < 0 for loss in one.by_ratio.values()) for one in curves)
    partial = sum(one.partial for one in curves)
    found = [
        (unmeasured, "{} without a measured loss: left whole"),
        (nan, "{} where the metric was not a number: never chosen"),
        (negative, "{} where a cut scored above the baseline: taken as noise, not as a gain"),
        (sum(one.falls for one in curves), "{} with a fall: smoothed"),
        (partial, "{} from a part of the samples"),
    ]
    nouns = ("group", "point", "curve", "curve", "loss")
    return [
        words.format(f"{count} {noun if count == 1 else _many(noun)}")
        for (count, words), noun in zip(found, nouns, strict=True)
        if count
    ]


def _many(noun: str) -> str:
    return "losses" if noun == "loss" else f"{noun}s"


def _rising(values: Sequence[float]) -> list[float]:
    """Return the nearest sequence that never falls (neighbours that do are averaged)."""
    blocks: list[tuple[float, int]] = []
    for value in values:
        mean, count = value, 1
        while blocks and blocks[-1][0] > mean:
            before, size = blocks.pop()
            mean, count = (before * size + mean * count) / (size + count), size + count
        blocks.append((mean, count))
    return [mean for mean, count in blocks for _ in range(count)]

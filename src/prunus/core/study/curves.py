"""What one group costs at each ratio: {ratio: loss}, with intervals beside."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from prunus.core.study.text import aligned, number

__all__ = ["Curve", "Point"]


@dataclass(frozen=True, slots=True)
class Point:
    """The loss at one ratio."""

    ratio: float
    """As it was asked."""
    removed: int
    """The channels that it stands for."""
    loss: float | None
    """None where it was not measured: see `kind`."""
    low: float | None
    high: float | None
    kind: str
    samples: int


class Curve(dict[float, float]):
    """The measured losses of one group, by the ratio that was asked: a dict of plain floats.

    Only what was measured is in the dict. `points` has every ratio of which anything is
    known, with intervals; there, what is bounded, failed or removes nothing has no loss.
    """

    def __init__(
        self, name: str, points: Iterable[Point], *, absolute: bool = False, caveat: str = ""
    ) -> None:
        points = sorted(points, key=lambda point: point.ratio)
        super().__init__((point.ratio, point.loss) for point in points if point.loss is not None)
        self.name = name
        self.absolute = absolute
        self.caveat = caveat
        """Why no loss is a number, where the baseline is to blame."""
        self.points = tuple(points)

    def __str__(self) -> str:
        loss = "loss" if self.absolute else "relative loss"
        rows = [("ratio", "removed", loss, "at least", "at most", "kind", "samples")]
        for point in self.points:
            rows.append(
                (
                    f"{point.ratio:g}",
                    str(point.removed),
                    number(point.loss),
                    number(point.low),
                    number(point.high),
                    point.kind,
                    str(point.samples) if point.samples else "",
                )
            )
        if not self.points:
            return f"{self.name}: nothing is measured yet"
        return "\n".join([self.name, *([self.caveat] if self.caveat else []), aligned(rows)])

    def __repr__(self) -> str:
        return f"Curve({self.name!r}, {super().__repr__()})"

    def __reduce__(self) -> tuple[object, ...]:
        # A dict with arguments of its own must be told how to be built again.
        return _rebuild, (self.name, self.points, self.absolute, self.caveat)


def _rebuild(name: str, points: tuple[Point, ...], absolute: bool, caveat: str) -> Curve:
    return Curve(name, points, absolute=absolute, caveat=caveat)

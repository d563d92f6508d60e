"""The seeds' rule: of every layer as much as costs no more than one and the same loss."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["ratio_by_loss", "ratios_by_loss"]


def ratio_by_loss(losses: Mapping[float, float], target: float) -> float | None:
    """Return the largest ratio of one curve whose loss is at most `target`; None without a point.

    This is PaddleSlim's `get_ratios_by_loss` to the digit. From the largest ratio down,
    the first point at or below the target counts, whatever lies at smaller ratios; from
    there it goes on in a straight line to the next point. Beyond the last point nothing
    is assumed, nor before the first: where all lose more, the ratio is 0. Where the next
    point is NaN, so is the ratio.
    """
    points = sorted((float(ratio), float(loss)) for ratio, loss in losses.items())
    for place in reversed(range(len(points))):
        ratio, loss = points[place]
        if loss <= target:
            if place == len(points) - 1:
                return ratio
            next_ratio, next_loss = points[place + 1]
            return ratio + (target - loss) * (next_ratio - ratio) / (next_loss - loss)
    return 0.0 if points else None


def ratios_by_loss(
    sensitivities: Mapping[str, Mapping[float, float]], target: float
) -> dict[str, float]:
    """Return the ratio of every weight that was measured: {weight: ratio}."""
    found = {name: ratio_by_loss(losses, target) for name, losses in sensitivities.items()}
    return {name: ratio for name, ratio in found.items() if ratio is not None}

"""Intervals for the mean of a finite list of bounded numbers that are read in random order.

They hold at any time: with probability 1 - alpha the mean of the whole list lies in the
interval at every moment, so that one may look after each sample and stop when one likes.

Scale the numbers to [-1, 1]. If the whole list has the mean m, what is left of it has the
mean rest(m) = (N m - sum so far) / left, and so has the next sample x on average. For a bet
b > 0 and a forecast f, both chosen before x is seen,

    E[1 + b (x - f)] = 1 + b (rest(m) - f) <= exp(b (rest(m) - f)).

The product of (1 + b (x - f)) exp(-b (rest(m) - f)) over the samples thus starts at 1 and
never grows on average, and Ville's inequality lets it reach 2 / alpha with probability
alpha / 2 at most. Every m with a product above that is ruled out from below; the numbers
-x rule out from above. An average of such products, with other bets, is one too.

Why this and not the hedged capital of Waudby-Smith and Ramdas (1 + b (x - rest(m)), sampling
without replacement), which it comes from: there every candidate m has a history of its
own, on a grid that is either coarse or slow. Here the logarithm of a product is linear in m,
two sums are the whole history, and the limits are roots. What is given away is of second
order, b^2 (rest(m) - f)^2 / 2, and the forecast is the running mean.

Bets of d / variance are best against means that are off by d. In what is left of the list an
error of d has grown to d N / left, hence bets grow likewise: that is what makes the interval
shrink to a point as the list runs out. As d is unknown, the products of several d are
averaged: `aim`, the half width at which the user will stop, and its doubles. About half the
weight is on `aim`, for there the samples are spent; each double has half of the one before.

The aim is part of the bets, so it is chosen before the first sample is seen, as they are.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from prunus.core.errors import PrunusError

__all__ = ["Sequences"]

_Floats = NDArray[np.float64]
_Ints = NDArray[np.int64]

# No bet risks more than this share of what it has on one sample. From 0.3 to 0.75 the work
# changes by two parts in a hundred; bolder bets decide only lists without any spread sooner.
_BOLDEST = 0.5
_SIDES = np.array([1.0, -1.0])
# Newton's method is within 1e-9 after three steps, and within rounding after four.
_STEPS = 4
# So many samples are worked on at once, for what is computed of each needs 32 numbers or more.
_AT_ONCE = 1 << 16


class Sequences:
    """Many sequences of samples, each from a list of `population` numbers, and their intervals.

    All are held as arrays: what is read of several sequences at the same position is
    one update. An interval depends on the samples and on their order, never on how they were
    grouped into updates: limits are computed at fixed numbers of samples.
    """

    def __init__(
        self, population: int, bounds: tuple[float, float], alpha: float, count: int, aim: float
    ) -> None:
        """Start `count` empty sequences.

        Args:
            population: How many numbers there are in all, N.
            bounds: The least and the greatest value that a number can have.
            alpha: The share of intervals that may miss their mean at some time.
            count: How many sequences.
            aim: The half width at which the user is content; bets are placed for it.
        """
        _check(population, bounds, alpha, aim)
        self.population = population
        self.bounds = (float(bounds[0]), float(bounds[1]))
        self._radius = self.bounds[1] / 2 - self.bounds[0] / 2
        self._centre = self.bounds[0] + self._radius
        self._errors, weights = _bets(population, aim / self._radius)
        # Subtracted from a product's logarithm, it leaves 0 where that product alone rules out.
        self._bar = np.log(2 / alpha) - np.log(weights)
        self._looks = _looks(population)
        self._seen: _Ints = np.zeros(count, np.int64)
        self._sums: _Floats = np.zeros((count, 2))
        """Of the scaled samples, and of their squares."""
        self._products: _Floats = np.zeros((count, 2, 2, len(weights)))
        """By side, then what is constant and what goes with -m, then by bet."""
        self._ruled_out: _Floats = np.full((count, 2), -1.0)
        """By side: the m, and the -m, up to which all are ruled out."""

    def seen(self, rows: ArrayLike) -> _Ints:
        """Return how many samples each of these sequences has."""
        return self._seen[np.asarray(rows, np.int64)]

    def means(self, rows: ArrayLike) -> _Floats:
        """Return the means of the samples seen, moved into the interval where they are outside."""
        rows = np.asarray(rows, np.int64)
        means = self._sums[rows, 0] / np.maximum(self._seen[rows], 1)
        low, high = self.intervals(rows)
        return np.asarray(np.clip(self._centre + self._radius * means, low, high))

    def intervals(self, rows: ArrayLike) -> tuple[_Floats, _Floats]:
        """Return the limits between which the means of the whole lists lie."""
        rows = np.asarray(rows, np.int64)
        sums, left = self._sums[rows, 0], self.population - self._seen[rows]
        # Whatever the rest of the list is, the mean lies between these two.
        least, most = (sums - left) / self.population, (sums + left) / self.population
        low = np.maximum(self._ruled_out[rows, 0], least)
        high = np.minimum(-self._ruled_out[rows, 1], most)
        # Where nothing is left between them, a limit is wrong: of alpha, this is a part. Or the
        # order is not random. What is certain is all that can be said then.
        agree = low <= high
        low, high = np.where(agree, low, least), np.where(agree, high, most)
        return self._unscaled(low), self._unscaled(high)

    def update(self, rows: ArrayLike, values: ArrayLike) -> None:
        """Append samples to sequences that have equally many, a row of them to each.

        Raises:
            PrunusError: A value is outside the bounds or not a number, there are more than
                `population`, or the sequences are not at one position.
        """
        rows = np.asarray(rows, np.int64)
        samples = self._scaled(np.asarray(values, np.float64).reshape(len(rows), -1))
        self._check_position(rows, samples.shape[1])
        width = max(1, _AT_ONCE // len(rows))
        for start in range(0, samples.shape[1], width):
            self._append(rows, samples[:, start : start + width])

    def _append(self, rows: _Ints, samples: _Floats) -> None:
        seen = int(self._seen[rows[0]])
        sums = _running(self._sums[rows], np.stack([samples, samples**2], axis=-1))
        products = _running(self._products[rows], self._steps(samples, sums[:, :-1], seen))
        first, last = np.searchsorted(self._looks, [seen, seen + samples.shape[1]], "right")
        if last > first:
            roots = self._roots(products[:, self._looks[first:last] - seen])
            self._ruled_out[rows] = np.maximum(self._ruled_out[rows], roots.max(axis=1))
        self._sums[rows], self._products[rows] = sums[:, -1], products[:, -1]
        self._seen[rows] += samples.shape[1]

    def _steps(self, samples: _Floats, sums: _Floats, seen: int) -> _Floats:
        """Return what each sample adds to each product: by row, sample, side, term and bet."""
        count = seen + np.arange(samples.shape[1])
        grown = (self.population / (self.population - count))[:, None, None]
        # One imagined sample, a zero of the greatest variance, so that both exist at the start.
        forecast = sums[..., 0] / (count + 1)
        variance = (sums[..., 1] + 1) / (count + 1) - forecast**2
        safe = _BOLDEST / (1 + _SIDES * forecast[..., None])
        wanted = self._errors * grown / variance[..., None, None]
        bets = np.minimum(wanted, safe[..., None])
        rest = (forecast + sums[..., 0] * grown[:, 0, 0] / self.population)[..., None, None]
        gains = np.log1p(bets * _SIDES[:, None] * (samples - forecast)[..., None, None])
        return np.stack([gains + bets * _SIDES[:, None] * rest, bets * grown], axis=-2)

    def _roots(self, products: _Floats) -> _Floats:
        """Return the m at which the average of the products reaches the bar.

        As a function of m its logarithm falls and is convex, so Newton's method, begun
        where one product alone suffices, comes from the left and never goes too far:
        with any number of steps the limit is on the safe side.
        """
        constant, slope = products[..., 0, :] - self._bar, products[..., 1, :]
        root = (constant / slope).max(axis=-1)
        for _ in range(_STEPS):
            logs = constant - slope * root[..., None]
            top = logs.max(axis=-1)
            shares = np.exp(logs - top[..., None])
            total = shares.sum(axis=-1)
            root = root + (top + np.log(total)) * total / (shares * slope).sum(axis=-1)
        return np.asarray(root)

    def _scaled(self, values: _Floats) -> _Floats:
        low, high = self.bounds
        inside = (values >= low) & (values <= high)
        if not inside.all():
            raise PrunusError(
                f"a sample is {values[~inside][0]}, and must lie between {low} and {high}",
                fix="give the bounds of the differences as bounds=, and a number for each sample",
            )
        return np.clip((values - self._centre) / self._radius, -1, 1)

    def _unscaled(self, values: _Floats) -> _Floats:
        return np.asarray(np.clip(self._centre + self._radius * values, *self.bounds))

    def _check_position(self, rows: _Ints, more: int) -> None:
        positions = np.unique(self._seen[rows])
        if len(positions) != 1 or len(np.unique(rows)) != len(rows):
            raise PrunusError(
                f"sequences {rows.tolist()} are not {len(rows)} at one position, but at "
                f"{positions.tolist()}",
                fix="update sequences that have seen equally many samples together, others apart",
            )
        if positions[0] + more > self.population:
            raise PrunusError(
                f"{more} samples after {positions[0]} are more than the {self.population} there "
                "are",
                fix="give each sample once, or the right population",
            )


def _running(start: _Floats, steps: _Floats) -> _Floats:
    """Return the running sums along axis 1, from `start` on: the same for any grouping."""
    return np.cumsum(np.concatenate([start[:, None], steps], axis=1), axis=1)


def _bets(population: int, aim: float) -> tuple[_Floats, _Floats]:
    """Return the errors that bets are placed against, `aim` and its doubles, and their weights."""
    least = min(0.5, max(aim, 1 / population))
    doubles = np.arange(np.ceil(-np.log2(least)))
    weights = 0.5**doubles
    return least * 2.0**doubles, weights / weights.sum()


def _looks(population: int) -> _Ints:
    """Return the numbers of samples at which limits are computed: each 64th more, or 4."""
    looks = [0]
    while looks[-1] < population:
        looks.append(looks[-1] + max(4, looks[-1] // 64))
    return np.array(looks[1:-1], np.int64)


def _check(population: int, bounds: tuple[float, float], alpha: float, aim: float) -> None:
    if population < 1:
        raise PrunusError(
            f"a population of {population} has no mean", fix="give one sample at least"
        )
    if not -np.inf < bounds[0] < bounds[1] < np.inf:
        raise PrunusError(
            f"the bounds are {bounds}, and must be two finite numbers in ascending order",
            fix="give the least and the greatest difference one sample can have: (-1, 1) for top-1",
        )
    if not 0 < alpha < 1:
        raise PrunusError(
            f"alpha is {alpha}, and must lie between 0 and 1",
            fix="give the share of intervals that may miss the truth, such as 0.05",
        )
    if not 0 < aim < np.inf:
        raise PrunusError(
            f"the half width to aim at is {aim}, and must be positive",
            fix="give the half width at which you would stop",
        )

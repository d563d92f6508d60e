"""The mean of a list lies in the interval at every moment, and the interval becomes a point."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prunus.core.engine import intervals
from prunus.core.engine.intervals import Sequences
from prunus.core.errors import PrunusError

EDGES = [-1.0, 1.0, 0.0, 1 - 1e-16, -1 + 1e-16, 5e-324]
numbers = st.sampled_from(EDGES) | st.floats(-1, 1)


def sequences(population, count=1, bounds=(-1.0, 1.0), alpha=0.05, aim=0.005):
    return Sequences(population, bounds, alpha, count, aim)


def interval_of(values, **options):
    found = sequences(len(values), **options)
    found.update([0], values)
    return tuple(float(limit[0]) for limit in found.intervals([0]))


def churn(size, worse, better):
    """What cuts do to top-1: most samples stay as they were."""
    return np.repeat([1.0, -1.0, 0.0], [worse, better, size - worse - better])


LISTS = {
    "a cut that costs little": churn(300, 12, 6),
    "one sample only": churn(300, 1, 0),
    "one sample the other way": churn(300, 0, 1),
    "all but one": -churn(300, 299, 0),
    "none": np.zeros(300),
    "halves at the ends": np.repeat([-1.0, 1.0], 150),
    "skewed": np.random.default_rng(1).beta(0.1, 3, 300) * 2 - 1,
    "even": np.linspace(-1, 1, 300),
    "far from zero": np.random.default_rng(2).normal(0.9, 0.01, 300),
    "two": np.array([0.2, 1.0]),
}


@given(st.lists(numbers, min_size=1, max_size=5), st.floats(0.001, 0.9))
@settings(max_examples=40, deadline=None)
def test_no_product_grows_on_average_over_all_orders(values, aim):
    orders = np.array(list(itertools.permutations(values)))
    found = sequences(len(values), len(orders), aim=aim)
    rows = np.arange(len(orders))
    for place in range(len(values)):
        found.update(rows, orders[:, place : place + 1])
        constant, slope = found._products[:, :, 0], found._products[:, :, 1]
        means = np.mean(values) * np.array([1.0, -1.0])[:, None]
        products = np.exp(constant - slope * means).mean(axis=0)
        assert (products <= 1 + 1e-9).all()
        assert (slope > 0).all()


@pytest.mark.parametrize("values", LISTS.values(), ids=LISTS)
@pytest.mark.parametrize("aim", [0.0005, 0.05, 0.7])
def test_the_share_of_intervals_that_ever_miss_is_alpha_at_most(values, aim):
    alpha, count = 0.2, 500
    rng = np.random.default_rng(0)
    found = sequences(len(values), count, alpha=alpha, aim=aim)
    orders = rng.permuted(np.tile(values, (count, 1)), axis=1)
    missed = np.zeros(count, bool)
    rows = np.arange(count)
    for start in range(0, len(values), 5):
        found.update(rows, orders[:, start : start + 5])
        low, high = found.intervals(rows)
        missed |= (values.mean() < low - 1e-12) | (values.mean() > high + 1e-12)
    # Three standard errors above what is promised.
    assert missed.mean() <= alpha + 3 * math.sqrt(alpha * (1 - alpha) / count)


def test_the_promise_is_not_kept_by_saying_nothing():
    """The fixed-size interval of the normal law is 1.96 standard errors wide to either side."""
    values = np.random.default_rng(0).permutation(churn(50_000, 1500, 500))
    found = sequences(50_000)
    found.update([0], values[:10_000])
    low, high = found.intervals([0])
    error = values.std() * math.sqrt((1 / 10_000) * (1 - 10_000 / 50_000))
    assert (high - low) / 2 < 1.96 * error * 1.8


def by_hand(values, population, alpha, aim, grid):
    """The means on a grid that no product rules out, as the module's docstring has it."""
    errors, weights = [aim], [1.0]
    while errors[-1] * 2 < 1:
        errors.append(errors[-1] * 2)
        weights.append(weights[-1] / 2)
    open_ = np.ones(len(grid), bool)
    totals = {}
    total = squares = 0.0
    looks = intervals._looks(population)
    for count, value in enumerate(values):
        left = population - count
        forecast = total / (count + 1)
        variance = (squares + 1) / (count + 1) - forecast**2
        rest = (population * grid - total) / left
        for (k, error), sign in itertools.product(enumerate(errors), (1, -1)):
            boldest = intervals._BOLDEST / (1 + sign * forecast)
            bet = min(error * population / left / variance, boldest)
            gain = math.log(1 + bet * sign * (value - forecast)) - bet * sign * (rest - forecast)
            totals[k, sign] = totals.get((k, sign), 0.0) + gain
        total, squares = total + value, squares + value**2
        if count + 1 in looks:
            for sign in (1, -1):
                products = sum(w * np.exp(totals[k, sign]) for k, w in enumerate(weights))
                open_ &= products / sum(weights) < 2 / alpha
    return grid[open_][0], grid[open_][-1]


@pytest.mark.parametrize("seen", [40, 200, 288])
def test_limits_are_where_the_products_say(seen):
    rng = np.random.default_rng(seen)
    values = rng.permutation(np.concatenate([churn(200, 20, 6), rng.uniform(-0.2, 0.3, 100)]))
    looks = intervals._looks(300)
    seen = int(looks[looks <= seen][-1])
    grid = np.linspace(-1, 1, 20_001)
    found = sequences(300, aim=0.02)
    found.update([0], values[:seen])
    low, high = by_hand(values[:seen], 300, 0.05, 0.02, grid)
    assert found._ruled_out[0] == pytest.approx([low, -high], abs=1.01e-4)


@given(st.lists(numbers, min_size=1, max_size=150), st.data())
@settings(max_examples=60, deadline=None)
def test_grouping_changes_nothing(values, data):
    cuts = data.draw(st.lists(st.integers(0, len(values)), max_size=6))
    whole, parts, beside = (sequences(200, 3) for _ in range(3))
    whole.update([1], values)
    for start, stop in itertools.pairwise([0, *sorted(cuts), len(values)]):
        parts.update([1], values[start:stop])
    beside.update([0, 1, 2], [values[::-1], values, np.zeros(len(values))])
    for other in (parts, beside):
        assert other.intervals([1]) == whole.intervals([1])
        assert other.means([1]) == whole.means([1])
        assert other.seen([1]) == whole.seen([1]) == len(values)


def test_what_is_worked_on_at_once_changes_nothing(monkeypatch):
    values = np.random.default_rng(0).uniform(-1, 1, (2, 400))
    found = []
    for size in (1 << 16, 7):
        monkeypatch.setattr(intervals, "_AT_ONCE", size)
        found.append(sequences(500, 2))
        found[-1].update([0, 1], values)
    assert np.array_equal(found[0].intervals([0, 1]), found[1].intervals([0, 1]))
    assert np.array_equal(found[0].means([0, 1]), found[1].means([0, 1]))


@given(st.lists(numbers, min_size=1, max_size=120))
@settings(max_examples=60, deadline=None)
def test_in_any_order_the_interval_ends_as_the_mean(values):
    low, high = interval_of(values)
    assert low == pytest.approx(high, abs=1e-12)
    assert low == pytest.approx(math.fsum(values) / len(values), abs=1e-12)


@given(st.lists(numbers, min_size=1, max_size=120), st.floats(0.001, 0.5))
@settings(max_examples=60, deadline=None)
def test_in_any_order_the_interval_shrinks_unless_its_limits_contradict(values, aim):
    found = sequences(len(values), aim=aim)
    before = (-1.0, 1.0)
    for count, value in enumerate(values, 1):
        found.update([0], [value])
        low, high = (float(limit[0]) for limit in found.intervals([0]))
        total, left = math.fsum(values[:count]), len(values) - count
        certain = ((total - left) / len(values), (total + left) / len(values))
        assert low <= high
        assert low <= found.means([0])[0] <= high
        nested = before[0] - 1e-12 <= low and high <= before[1] + 1e-12
        assert nested or (low, high) == pytest.approx(certain, abs=1e-12)
        before = (low, high)


@pytest.mark.parametrize("values", LISTS.values(), ids=LISTS)
def test_in_random_order_intervals_shrink_but_for_those_that_missed(values):
    count = 100
    found = sequences(len(values), count)
    orders = np.random.default_rng(0).permuted(np.tile(values, (count, 1)), axis=1)
    rows = np.arange(count)
    grew, missed = np.zeros((2, count), bool)
    low, high = found.intervals(rows)
    for place in range(len(values)):
        found.update(rows, orders[:, place : place + 1])
        lower, higher = found.intervals(rows)
        grew |= (lower < low - 1e-12) | (higher > high + 1e-12)
        low, high = lower, higher
        missed |= (values.mean() < low - 1e-12) | (values.mean() > high + 1e-12)
    assert not (grew & ~missed).any()
    assert missed.mean() <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / count)


def test_a_sorted_list_leaves_what_is_certain():
    found = sequences(300)
    found.update([0], np.repeat([1.0, -1.0], [150, 100]))
    assert np.concatenate(found.intervals([0])) == pytest.approx([0.0, 1 / 3])


def test_lists_without_spread_are_decided_soonest():
    found = sequences(10_000, 2)
    found.update([0, 1], np.repeat([[0.0], [0.25]], 1500, axis=1))
    low, high = found.intervals([0, 1])
    assert (high - low < 0.02).all()
    assert found.means([0, 1]) == pytest.approx([0.0, 0.25])


@pytest.mark.parametrize("population", [1, 2, 3, 4, 5])
def test_the_smallest_lists(population):
    found = sequences(population)
    assert found.intervals([0]) == (-1.0, 1.0)
    for count in range(1, population):
        found.update([0], [1.0])
        assert np.concatenate(found.intervals([0])) == pytest.approx(
            [2 * count / population - 1, 1]
        )
    found.update([0], [-1.0])
    assert np.concatenate(found.intervals([0])) == pytest.approx(1 - 2 / population)


@pytest.mark.parametrize("bounds", [(0.0, 10.0), (-3.0, -2.5), (-1e-6, 1e6), (-0.01, 0.02)])
def test_other_bounds_are_the_same_stretched(bounds):
    values = np.random.default_rng(0).beta(2, 5, 400)
    size = bounds[1] - bounds[0]
    unit = sequences(500, bounds=(0.0, 1.0), aim=0.01)
    other = sequences(500, bounds=bounds, aim=0.01 * size)
    unit.update([0], values)
    other.update([0], np.clip(bounds[0] + size * values, *bounds))
    expected = bounds[0] + size * np.concatenate(unit.intervals([0]))
    assert np.concatenate(other.intervals([0])) == pytest.approx(expected, abs=1e-9 * size)


@pytest.mark.parametrize("bounds", [(-1.0, 1.0), (0.1, 0.3), (-1e300, 1e300), (0.0, 5e-300)])
@pytest.mark.parametrize("end", [0, 1])
def test_numbers_on_the_bounds_are_inside(bounds, end):
    found = sequences(100, bounds=bounds, aim=bounds[1] / 4)
    found.update([0], np.full(60, bounds[end]))
    low, high = found.intervals([0])
    assert bounds[0] <= low[0] < high[0] <= bounds[1]
    assert low[0] <= found.means([0])[0] <= high[0]
    found.update([0], np.full(40, bounds[end]))
    assert np.concatenate(found.intervals([0])) == pytest.approx(bounds[end])


@pytest.mark.parametrize("value", [1.0000001, -2.0, math.nan, math.inf])
def test_a_number_outside_the_bounds_is_named(value):
    with pytest.raises(PrunusError, match=f"a sample is {value}, and must lie between -1.0 and"):
        sequences(5).update([0], [0.5, value])


@pytest.mark.parametrize(
    ("options", "problem", "fix"),
    [
        ({"population": 0}, "a population of 0 has no mean", "one sample at least"),
        ({"bounds": (1, -1)}, r"the bounds are \(1, -1\)", r"\(-1, 1\) for top-1"),
        ({"bounds": (-1, math.inf)}, "two finite numbers", "least and the greatest difference"),
        ({"bounds": (math.nan, 1)}, "two finite numbers", "least and the greatest difference"),
        ({"alpha": 0.0}, r"alpha is 0\.0", r"such as 0\.05"),
        ({"alpha": 1.0}, r"alpha is 1\.0", r"such as 0\.05"),
        ({"aim": 0.0}, r"to aim at is 0\.0", "half width at which you would stop"),
        ({"aim": math.nan}, "to aim at is nan", "half width at which you would stop"),
    ],
)
def test_what_cannot_be_promised_is_refused(options, problem, fix):
    with pytest.raises(PrunusError, match=rf"(?s){problem}.*fix: .*{fix}"):
        sequences(**{"population": 5, **options})


def test_more_samples_than_there_are_are_refused():
    found = sequences(5)
    found.update([0], [0.0, 0.0, 0.0])
    with pytest.raises(PrunusError, match="3 samples after 3 are more than the 5 there are"):
        found.update([0], [0.0, 0.0, 0.0])


def test_sequences_at_several_positions_are_not_updated_together():
    found = sequences(5, 2)
    found.update([0], [0.0])
    with pytest.raises(PrunusError, match=r"not 2 at one position, but at \[0, 1\](?s:.*)apart"):
        found.update([0, 1], [[0.0], [0.0]])
    with pytest.raises(PrunusError, match=r"sequences \[1, 1\] are not 2 at one position"):
        found.update([1, 1], [[0.0], [0.0]])

"""The cells that are asked for, and the channels that go in each."""

import numpy as np
import pytest

from prunus.core.engine.table import RATIOS, table_of
from prunus.core.errors import NothingToCutError, RatioError, UnknownNameError
from prunus.core.scores.group import Weights
from prunus.core.study.cells import Key
from prunus.testing.networks import Net, chain


def weights():
    """Filters that matter more, the later they come."""

    def value(name):
        shape = {"a.weight": (8, 3, 1), "b.weight": (6, 8, 1)}[name]
        return np.arange(1, shape[0] + 1.0).reshape(-1, 1, 1) * np.ones(shape)

    return Weights(value, lambda name: None)


GROUPS = chain(8, 6, 2)


def table(ratios=(0.25, 0.5), params=None, **options):
    return table_of(GROUPS, ratios, params, weights(), **options)


def test_every_group_gets_every_ratio_in_the_order_of_the_network():
    found = table()
    assert found.asked == {"a.weight": {0.25: 2, 0.5: 4}, "b.weight": {0.25: 2, 0.5: 3}}
    assert [tuple(key) for key in found.cuts] == [
        ("a.weight", 2), ("a.weight", 4), ("b.weight", 2), ("b.weight", 3),
    ]  # fmt: skip
    assert found.nothing == ()
    cut = found.cuts[Key("a.weight", 2)]
    assert cut.by_name() == {"a.weight": {0: (0, 1)}, "b.weight": {1: (0, 1)}}


def test_the_standard_ratios_are_nine():
    assert tuple(k / 10 for k in range(1, 10)) == RATIOS


def test_ratios_that_mean_the_same_cut_share_a_cell():
    found = table((0.5, 0.45, 0.50000000000001), params="a.weight")
    assert found.asked == {"a.weight": {0.45: 4, 0.5: 4}}
    assert set(found.cuts) == {Key("a.weight", 4)}


def test_ratios_may_come_from_an_iterator():
    assert table(iter([0.25, 0.5])).asked == table().asked


def test_a_ratio_too_small_is_a_cell_of_its_own():
    found = table((0.01, 0.5))
    assert found.nothing == (Key("a.weight", 0), Key("b.weight", 0))
    assert found.asked["a.weight"] == {0.01: 0, 0.5: 4}
    assert set(found.cuts) == {Key("a.weight", 4), Key("b.weight", 3)}


def test_an_align_makes_fewer_cells():
    found = table((0.25, 0.5, 0.6), align=4)
    assert found.asked["a.weight"] == {0.25: 0, 0.5: 4, 0.6: 4}


def test_names_and_patterns_choose_groups():
    assert set(table(params=["b.*"]).asked) == {"b.weight"}
    with pytest.raises(UnknownNameError, match="z"):
        table(params=["z"])


def test_no_name_is_no_group():
    with pytest.raises(NothingToCutError, match="params= names no group\n  fix: name weights"):
        table(params=[])


@pytest.mark.parametrize("ratios", [(), (0,), (1,), (-0.1, 0.5), (float("nan"),), ("a",)])
def test_ratios_that_are_none_are_refused(ratios):
    with pytest.raises(RatioError, match=r"the ratios to try are .* between 0 and 1") as told:
        table(ratios)
    assert "(0.25, 0.5, 0.75)" in told.value.fix


def test_a_balanced_axis_takes_its_neighbour_along():
    net = Net()
    x = net.input("x", 1, 3, 4)
    left, right = net.conv(x, "a", 4), net.conv(x, "b", 4)
    groups = net.groups(net.conv(net.norm(net.concat(left, right), "n", groups=2), "c", 2))
    one = Weights(lambda name: np.arange(4.0 * 3).reshape(4, 3, 1), lambda name: None)
    found = table_of(groups, (0.5,), ["a.weight"], one)
    (cut,) = found.cuts.values()
    assert {"a.weight", "b.weight"} <= set(cut.by_name())

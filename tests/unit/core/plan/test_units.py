"""Groups that drag each other along are decided together, and their loss is counted once."""

from __future__ import annotations

import pytest

from prunus.core.plan.units import shares, units_of
from prunus.testing.networks import Net, chain

from .studies import curves_of, table_of


def _halves():
    net = Net()
    first, second = net.split(net.conv(net.input("x", 1, 3, 4), "a", 12), 6, 6)
    y = net.conv(net.concat(net.conv(first, "b", 3), net.conv(second, "c", 5)), "head", 2)
    return table_of(net.groups(y))


def test_groups_that_nothing_ties_are_decided_one_by_one():
    table = table_of(chain(10, 8, 4))
    curves = curves_of(table, lambda k, ratio: ratio)
    assert shares(table, curves) == [1.0, 1.0]
    first, second = units_of(table, curves, 1)
    assert [dict(one.counts) for one in first] == [{}, {0: 2}, {0: 4}, {0: 6}, {0: 8}]
    assert [one.price for one in second] == pytest.approx([0, 0.2, 0.4, 0.6, 0.8], abs=1e-6)


def test_halves_that_lose_the_same_number_are_one_decision_and_one_loss():
    table = _halves()
    assert table.names[:2] == ("a.weight[0:6]", "a.weight[6:12]")
    curves = curves_of(table, lambda k, ratio: ratio)
    assert shares(table, curves) == [0.5, 0.5, 1.0, 1.0]
    units = units_of(table, curves, 1)
    assert [sorted(unit[-1].counts) for unit in units] == [[0, 1], [2], [3]]
    last = units[0][-1]
    assert last.ratios == {0: 0.8, 1: 0.8}
    assert last.price == pytest.approx(0.8, abs=1e-6)


def test_choices_that_take_the_same_channels_are_one():
    table = table_of(chain(16, 4))
    curves = curves_of(table, lambda k, ratio: ratio)
    (unit,) = units_of(table, curves, 8)
    assert [dict(one.counts) for one in unit] == [{}, {0: 8}]

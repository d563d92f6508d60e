"""The table says what the graph says, for any joint cut, without the graph."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prunus.core.cut.cut import make_cut
from prunus.core.errors import PlanError
from prunus.core.graph.costs import Cost, macs, numel
from prunus.core.graph.groups import Groups
from prunus.core.plan.costs import CostTable, cost_table
from prunus.testing.networks import Net, chain

from .studies import table_of


def _joined() -> Groups:
    net = Net()
    x = net.input("x", 1, 3, 4)
    a, b = net.conv(x, "a", 6, bias=True), net.conv(x, "b", 10)
    joined = net.norm(net.concat(a, b), "n")
    return net.groups(net.conv(net.conv(joined, "depthwise", 16, groups=16, kernel=3), "c", 4))


def _halves() -> Groups:
    net = Net()
    first, second = net.split(net.conv(net.input("x", 1, 3, 4), "a", 12), 6, 6)
    y = net.conv(net.concat(net.conv(first, "b", 3), net.conv(second, "c", 5)), "head", 2)
    return net.groups(y)


def _grouped() -> Groups:
    net = Net()
    x = net.conv(net.input("x", 1, 3, 4), "a", 6)
    return net.groups(net.conv(net.conv(x, "grouped", 12, groups=3), "b", 2))


def _shuffled() -> Groups:
    net = Net()
    x = net.conv(net.input("x", 1, 3, 4), "a", 12)
    return net.groups(net.conv(net.shuffle(x, 2), "b", 8))


def _plain() -> Groups:
    return chain(10, 7, 12, 4)


NETS = {net.__name__: net for net in (_plain, _joined, _halves, _grouped, _shuffled)}


@pytest.mark.parametrize("name", NETS)
@given(st.data())
@settings(max_examples=30, deadline=None)
def test_any_joint_cut_costs_what_the_graph_costs_after_it(name, data):
    groups = NETS[name]()
    table = table_of(groups)
    size = len(groups.groups)
    ratios = data.draw(st.lists(st.floats(0, 0.95), min_size=size, max_size=size))
    align = data.draw(st.sampled_from([1, 2, 4]))
    scores = {k: np.random.default_rng(k).random(one.size) for k, one in enumerate(groups.groups)}
    cut = make_cut(groups, ratios, scores, align)
    counts = table.counts(dict(zip(table.names, ratios, strict=True)), align)
    removed = {one.group: one.removed for one in cut.achieved}
    assert table.rounding.by_group(counts) == [removed.get(name, 0) for name in table.names]
    graph, channels = groups.graph, groups.channels
    assert table.exact
    assert table.cost(counts) == Cost(
        macs(graph, channels, cut.gone), numel(graph, channels, cut.gone)
    )


@pytest.mark.parametrize("name", NETS)
def test_the_whole_model(name):
    groups = NETS[name]()
    assert table_of(groups).whole == Cost(macs(groups.graph), numel(groups.graph))


def test_many_cuts_at_once_cost_what_they_cost_one_by_one():
    table = table_of(chain(10, 7, 12, 4))
    rows = np.random.default_rng(0).integers(0, 4, (20, len(table.sizes)))
    for kind in ("macs", "numel"):
        expected = [getattr(table.cost(row.tolist()), kind) for row in rows]
        assert table.costs(kind, rows.astype(float)).tolist() == expected


def test_an_axis_that_holds_a_part_of_a_group_is_called_inexact():
    # The picture's three channels stay, and with them come five of the twelve.
    net = Net()
    x = net.input("x", 1, 3, 4)
    part = net.slice(net.concat(x, net.conv(x, "a", 12)), 0, 8)
    groups = net.groups(net.node("einsum", [part, part], (1, 4, 4), equation="bci,bcj->bij"))
    table = table_of(groups)
    assert not table.exact
    # With 6 of the 12, 2.5 of the first 5 are expected to go.
    saved = 6 * 3 * 4 + 2.5 * 16
    assert table.whole.macs - table.cost([6]).macs == saved


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data.clear(), "has no table of costs"),
        (lambda data: data.update(schema=9), "has schema 9, and this version reads 1"),
        (lambda data: data.pop("parts"), "is damaged: KeyError"),
        (lambda data: data.update(macs=[[1, [99]]]), "is damaged: IndexError"),
        (lambda data: data.update(lengths=3), "is damaged: TypeError"),
    ],
)
def test_a_table_that_cannot_be_read(change, message):
    data = json.loads(json.dumps(cost_table(chain(4, 4))))
    change(data)
    with pytest.raises(PlanError, match=message):
        CostTable.read(data)

"""The closure: which indices live and die together, and which stay, for what reason."""

from __future__ import annotations

import numpy as np
import pytest

from prunus.core.errors import GraphError
from prunus.core.graph.channels import Channels, close
from prunus.core.graph.facts import Balance, Couple, Filters, Free, Freeze, Mixes
from prunus.core.graph.ir import Dim, Node
from prunus.core.graph.rules import default_rules
from prunus.testing.networks import Net


def reasons(channels: Channels, tensor: str, axis: int) -> list[str]:
    sets = channels.sets[Dim(tensor, axis)]
    return [channels.frozen.get(one, "") for one in sets.tolist()]


def same(channels: Channels, a: tuple[str, int], b: tuple[str, int]) -> bool:
    return channels.sets[Dim(*a)].tolist() == channels.sets[Dim(*b)].tolist()


def test_a_chain_couples_what_is_made_with_what_is_used():
    net = Net()
    y = net.conv(net.conv(net.input("x", 1, 3, 4), "a", 5), "b", 2)
    channels = net.close(y)
    assert same(channels, ("a.weight", 0), ("b.weight", 1))
    assert reasons(channels, "a.weight", 0) == [""] * 5
    assert reasons(channels, "a.weight", 1) == ["it meets axis 1 of the network's input"] * 3
    assert reasons(channels, "b.weight", 0) == ["it is an output of the network"] * 2


def test_an_axis_that_no_fact_mentions_is_frozen():
    net = Net()
    y = net.conv(net.input("x", 1, 3, 4), "a", 5, kernel=3)
    assert reasons(net.close(y), "a.weight", 2) == ["conv in 'conv0' works along it"] * 3


def test_reasons_travel_with_rigid_axes():
    # Pooling and adding keep the input's channels; the reason still names the input.
    net = Net()
    x = net.input("x", 1, 3, 4)
    pooled = net.node("spatial", [x], (1, 3, 2), axes=1)
    y = net.add(pooled, net.node("spatial", [net.conv(x, "a", 3)], (1, 3, 2), axes=1))
    channels = net.close(y)
    assert reasons(channels, "a.weight", 0) == ["it meets axis 1 of the network's input"] * 3


def test_a_length_that_an_operator_sets_is_a_reason():
    net = Net()
    x = net.input("x", 1, 3, 4)
    positions = net.node("constant", [], (5, 4))
    y = net.conv(net.add(net.conv(x, "a", 5), positions), "b", 2)
    channels = net.close(y)
    assert reasons(channels, "a.weight", 0) == ["its length is set by constant in 'constant0'"] * 5


def test_a_tensor_that_is_pinned_keeps_its_shape_for_the_reason_given():
    net = Net()
    middle = net.conv(net.input("x", 1, 3, 4), "a", 5)
    y = net.conv(middle, "b", 2)
    channels = net.close(y, pinned={middle: "a hook reads it", "no such tensor": "never"})
    assert reasons(channels, "b.weight", 1) == ["a hook reads it"] * 5


def test_a_weight_that_two_layers_share_couples_them():
    net = Net()
    x = net.input("x", 1, 3, 4)
    weight = net.param("shared", 5, 3, 1)
    a = net.node("conv", [x], (1, 5, 4), {"weight": weight}, groups=1)
    b = net.node("conv", [x], (1, 5, 4), {"weight": weight}, groups=1)
    y = net.conv(net.concat(a, b), "c", 2)
    channels = net.close(y)
    sets = channels.sets[Dim("c.weight", 1)]
    assert sets[:5].tolist() == sets[5:].tolist()


# Parts and gaps.


def test_channels_that_no_weight_makes_are_gaps_and_stay():
    net = Net()
    x = net.conv(net.input("x", 1, 3, 4), "a", 2)
    amounts = [(0, 0), (1, 2), (0, 0)]
    padded = net.node("pad", [x], (1, 5, 4), amounts=amounts, constant=True)
    channels = net.close(net.conv(padded, "b", 2))
    gap = "pad in 'pad1' puts in channels that no weight makes"
    assert reasons(channels, "b.weight", 1) == [gap, "", "", gap, gap]


def test_what_meets_a_gap_stays_too():
    net = Net()
    x = net.input("x", 1, 3, 4)
    amounts = [(0, 0), (0, 2), (0, 0)]
    padded = net.node("pad", [net.conv(x, "a", 2)], (1, 4, 4), amounts=amounts, constant=True)
    y = net.conv(net.add(padded, net.conv(x, "b", 4)), "c", 2)
    channels = net.close(y)
    gap = "pad in 'pad1' puts in channels that no weight makes"
    assert reasons(channels, "b.weight", 0) == ["", "", gap, gap]
    assert reasons(channels, "a.weight", 0) == ["", ""]


def test_a_rigid_part_of_a_concat_stays_and_says_where_it_comes_from():
    net = Net()
    x = net.input("x", 1, 3, 4)
    y = net.conv(net.concat(net.conv(x, "a", 2), x), "b", 2)
    rigid = "it meets axis 1 of the network's input"
    assert reasons(net.close(y), "b.weight", 1) == ["", "", rigid, rigid, rigid]


def test_a_part_that_nobody_reads_is_free_to_go():
    net = Net()
    y = net.conv(net.slice(net.conv(net.input("x", 1, 3, 4), "a", 5), 1, 3), "b", 2)
    channels = net.close(y)
    assert reasons(channels, "a.weight", 0) == [""] * 5
    assert channels.sets[Dim("b.weight", 1)].tolist() == (
        channels.sets[Dim("a.weight", 0)][1:3].tolist()
    )


def test_lost_answers_in_indices_of_each_axis():
    net = Net()
    x = net.input("x", 1, 3, 4)
    y = net.conv(net.concat(net.conv(x, "a", 2), net.conv(x, "b", 3)), "c", 2)
    channels = net.close(y)
    gone = np.zeros(channels.count, bool)
    gone[channels.sets[Dim("b.weight", 0)][1]] = True
    assert channels.lost(Dim("b.weight", 0), gone).tolist() == [1]
    assert channels.lost(Dim("c.weight", 1), gone).tolist() == [3]
    assert channels.lost(Dim("a.weight", 0), gone).tolist() == []
    assert channels.lost(Dim("x", 1), gone).tolist() == []  # it has no atoms at all


# Rules of one's own, and rules that contradict themselves.


def close_with(facts, *, shape=(1, 5, 4)) -> Channels:
    """A convolution `a`, then an operator with these facts, then a convolution `b`."""
    net = Net()
    x = net.conv(net.input("x", 1, 3, 4), "a", 5)
    made = net.node("own", [x], shape)
    y = net.conv(made, "b", 2)
    find = {"x": Dim(x, 1), "y": Dim(made, 1)}
    rules = {**default_rules(), "own": lambda node, view: iter(facts(find["x"], find["y"]))}
    return close(net.graph(y), rules)


def test_a_couple_of_different_lengths_is_a_wrong_rule():
    def facts(x, y):
        return [Couple(x, y, np.arange(3), np.arange(2))]

    with pytest.raises(GraphError, match=r"the rule of 'own' couples 3 indices of .* with 2 of"):
        close_with(facts)


def test_a_couple_beyond_an_axis_is_a_wrong_rule():
    def facts(x, y):
        return [Couple(x, y, None, np.arange(1, 6))]

    with pytest.raises(GraphError, match=r"couples channel 5 of own1\.out\[1\], which has 5, at"):
        close_with(facts)


def test_runs_that_do_not_divide_are_a_wrong_rule():
    def facts(x, y):
        return [Couple(x, y), Balance(x, 2)]

    with pytest.raises(
        GraphError, match=r"balances 2 runs of conv0\.out\[1\], which has 5 channels"
    ):
        close_with(facts)


def test_a_freeze_may_speak_of_an_output():
    channels = close_with(
        lambda x, y: [Couple(x, y), Freeze(y, because="it is counted", index=np.array([1]))]
    )
    assert reasons(channels, "a.weight", 0) == ["", "it is counted", "", "", ""]


def test_a_freeze_of_a_rigid_output_gives_the_reason():
    channels = close_with(lambda x, y: [Freeze(x, "no"), Freeze(y, because="it is a table")])
    assert reasons(channels, "a.weight", 0) == ["no"] * 5
    assert reasons(channels, "b.weight", 1) == ["it is a table"] * 5


def test_mixes_may_speak_of_an_output():
    channels = close_with(lambda x, y: [Couple(x, y), Mixes(y)])
    assert [dim for _, dim in channels.mixes] == [Dim("own1.out", 1)]


def test_an_axis_out_of_nothing_may_have_any_length():
    channels = close_with(lambda x, y: [Free(y)])
    assert reasons(channels, "b.weight", 1) == [""] * 5
    assert reasons(channels, "a.weight", 0) == ["own in 'own1' works along it"] * 5


def test_the_first_reason_is_kept():
    channels = close_with(lambda x, y: [Freeze(x, "first"), Freeze(x, "second"), Couple(x, y)])
    assert reasons(channels, "b.weight", 1) == ["first"] * 5


# Weights that are computed.


def test_the_filters_of_a_computed_weight_are_those_of_its_parameter():
    net = Net()
    x = net.input("x", 1, 3, 4)
    v, g = net.param("v", 5, 3, 1), net.param("g", 5, 1, 1)
    weight = net.node("weight_norm", [], (5, 3, 1), {"direction": v, "length": g}, axis=0)
    y = net.conv(net.node("conv", [x], (1, 5, 4), {"weight": weight}, groups=1), "b", 2)
    channels = net.close(y)
    assert channels.filters[:2] == (Dim("g", 0), Dim("v", 0))
    assert same(channels, ("v", 0), ("b.weight", 1))


def test_a_weight_computed_by_an_unknown_operator_stays():
    net = Net()
    x = net.input("x", 1, 3, 4)
    weight = net.node("mystery", [net.param("v", 5, 3, 1)], (5, 3, 1))
    y = net.conv(net.node("conv", [x], (1, 5, 4), {"weight": weight}, groups=1), "b", 2)
    channels = net.close(y)
    assert reasons(channels, "v", 0) == ["operator 'mystery' has no rule"] * 5
    assert reasons(channels, "b.weight", 1) == ["its length is set by mystery in 'mystery0'"] * 5


def test_filters_of_an_activation_are_none():
    channels = close_with(lambda x, y: [Couple(x, y), Filters(x)])
    assert [dim.tensor for dim in channels.filters] == ["a.weight", "b.weight"]


def test_a_single_number_has_no_axes_to_speak_of():
    net = Net()
    scale = net.param("scale")
    y = net.conv(net.add(net.conv(net.input("x", 1, 3, 4), "a", 5), scale), "b", 2)
    assert reasons(net.close(y), "a.weight", 0) == [""] * 5


def test_a_graph_without_couples_is_closed():
    node = Node("n", "constant", (), ("y",))
    net = Net()
    net.tensor("y", 3)
    net.nodes.append(node)
    channels = net.close("y")
    assert (channels.count, channels.frozen, channels.filters) == (0, {}, ())

"""Groups: what gets a ratio, its name, and what is frozen."""

from __future__ import annotations

from prunus.core.graph.groups import Frozen, Groups
from prunus.core.graph.ir import Dim
from prunus.testing.networks import Net, chain


def table(groups: Groups) -> dict[str, tuple[int, tuple[str, ...]]]:
    return {group.name: (group.size, group.params) for group in groups.groups}


def frozen(groups: Groups) -> dict[str, tuple[str, int, int]]:
    return {one.name: (one.because, one.channels, one.of) for one in groups.frozen}


def test_a_chain_has_a_group_a_layer_but_for_the_last():
    groups = chain(4, 5, 6)
    assert table(groups) == {"a.weight": (4, ("a.weight",)), "b.weight": (5, ("b.weight",))}
    assert frozen(groups) == {"c.weight": ("it is an output of the network", 6, 6)}


def test_a_group_knows_every_axis_that_shrinks():
    net = Net()
    x = net.norm(net.conv(net.input("x", 1, 3, 4), "a", 4, bias=True), "n")
    (group,) = net.groups(net.conv(x, "b", 2)).groups
    assert [str(dim) for dim in group.dims] == [
        "a.weight[0]", "a.bias[0]", "n.weight[0]", "n.mean[0]", "b.weight[1]"
    ]  # fmt: skip
    assert group.filters == (Dim("a.weight", 0),)
    # Filters, bias and scale; and a column of b. The statistics are no parameters.
    assert group.numel == 4 * (3 + 1 + 1) + 4 * 2
    assert group.macs == 4 * 4 * (3 + 2)


def test_layers_that_are_added_live_and_die_together():
    net = Net()
    stem = net.conv(net.input("x", 1, 3, 4), "stem", 4)
    inner = net.conv(net.conv(stem, "a", 6), "b", 4)
    groups = net.groups(net.conv(net.add(stem, inner), "head", 2))
    assert table(groups) == {
        "stem.weight": (4, ("stem.weight", "b.weight")),
        "a.weight": (6, ("a.weight",)),
    }
    assert [group.name for group in groups.named()["b.weight"]] == ["stem.weight"]


def test_layers_that_are_concatenated_go_each_by_itself():
    net = Net()
    x = net.input("x", 1, 3, 4)
    groups = net.groups(net.conv(net.concat(net.conv(x, "a", 4), net.conv(x, "b", 5)), "head", 2))
    assert table(groups) == {"a.weight": (4, ("a.weight",)), "b.weight": (5, ("b.weight",))}


def test_parts_of_a_weight_that_go_different_ways_are_named_by_their_place():
    net = Net()
    first, second = net.split(net.conv(net.input("x", 1, 3, 4), "a", 6), 2, 4)
    y = net.conv(net.concat(net.conv(first, "b", 3), net.conv(second, "c", 3)), "head", 2)
    groups = net.groups(y)
    assert table(groups) == {
        "a.weight[0:2]": (2, ("a.weight",)),
        "a.weight[2:6]": (4, ("a.weight",)),
        "b.weight": (3, ("b.weight",)),
        "c.weight": (3, ("c.weight",)),
    }
    assert [group.name for group in groups.named()["a.weight"]] == [
        "a.weight[0:2]", "a.weight[2:6]"
    ]  # fmt: skip


def test_parts_that_span_the_same_range_are_numbered():
    # After a shuffle, even and odd channels of `a` go to different layers.
    net = Net()
    shuffled = net.shuffle(net.conv(net.input("x", 1, 3, 4), "a", 8), 4)
    first, second = net.split(shuffled, 4, 4)
    y = net.conv(net.concat(net.conv(first, "b", 3), net.conv(second, "c", 3)), "head", 2)
    names = [group.name for group in net.groups(y).groups]
    assert len(set(names)) == len(names)
    assert sum(name.startswith("a.weight") for name in names) >= 1


def test_a_shuffle_ties_the_same_place_of_each_run():
    net = Net()
    x = net.conv(net.input("x", 1, 3, 4), "a", 6)
    groups = net.groups(net.conv(net.shuffle(x, 2), "b", 2))
    (group,) = groups.groups
    assert (group.name, group.size) == ("a.weight", 3)
    sets = groups.channels.sets
    assert sets[Dim("a.weight", 0)].tolist() == [*group.sets.tolist()] * 2
    assert sets[Dim("b.weight", 1)].tolist() == [one for one in group.sets.tolist() for _ in "12"]


def test_what_is_frozen_in_part_says_how_many_and_why():
    net = Net()
    x = net.input("x", 1, 3, 4)
    amounts = [(0, 0), (0, 2), (0, 0)]
    padded = net.node("pad", [net.conv(x, "a", 2)], (1, 4, 4), amounts=amounts, constant=True)
    groups = net.groups(net.conv(net.add(padded, net.conv(x, "b", 4)), "c", 2))
    gap = "pad in 'pad1' puts in channels that no weight makes"
    assert table(groups) == {"a.weight": (2, ("a.weight", "b.weight"))}
    assert groups.frozen[0] == Frozen("b.weight", gap, 2, 4)


def test_a_network_in_which_nothing_can_go_has_no_groups():
    groups = chain(4)
    assert groups.groups == ()
    assert [one.name for one in groups.frozen] == ["a.weight"]


def test_channels_that_an_activation_needs_are_a_group_of_their_own():
    # Only the first two channels are averaged. Were they in one group with the others,
    # both could go, and the average would be one of nothing.
    net = Net()
    x = net.conv(net.input("x", 1, 3, 4), "a", 5)
    mean = net.node("reduce", [net.slice(x, 0, 2)], (1, 1, 4), axes=[1], keepdim=True)
    groups = net.groups(net.conv(net.add(x, mean), "b", 2))
    assert table(groups) == {
        "a.weight[0:2]": (2, ("a.weight",)),
        "a.weight[2:5]": (3, ("a.weight",)),
    }


def test_balanced_halves_are_one_group():
    net = Net()
    first, second = net.split(net.conv(net.input("x", 1, 3, 4), "a", 6), 3, 3)
    joined = net.concat(second, first)
    assert table(net.groups(net.conv(joined, "b", 2))) == {"a.weight": (6, ("a.weight",))}


def test_the_graph_can_be_reached():
    groups = chain(4, 5)
    assert groups.graph is groups.channels.graph

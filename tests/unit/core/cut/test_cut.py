"""From ratios and scores to indices and numbers."""

from __future__ import annotations

import numpy as np

from prunus.core.cut.cut import Achieved, cut_of, make_cut
from prunus.core.graph.groups import Groups
from prunus.core.graph.ir import Dim
from prunus.testing.networks import Net, chain


def scores_like(groups: Groups, **by_name: list[float]) -> dict[int, np.ndarray]:
    return {
        k: np.array(by_name.get(group.name.split(".")[0], range(group.size)), float)
        for k, group in enumerate(groups.groups)
    }


def test_the_smallest_scores_go():
    groups = chain(4, 5)
    cut = make_cut(groups, [0.5], scores_like(groups, a=[3, 1, 4, 2]))
    assert cut.by_name() == {"a.weight": {0: (1, 3)}, "b.weight": {1: (1, 3)}}
    assert cut.achieved == (Achieved("a.weight", 4, 0.5, 2),)
    assert cut.achieved[0].ratio == 0.5


def test_of_equal_scores_the_first_go():
    groups = chain(4, 5)
    cut = make_cut(groups, [0.5], scores_like(groups, a=[1, 1, 1, 1]))
    assert cut.by_name()["a.weight"] == {0: (0, 1)}


def test_what_was_asked_and_not_achieved_is_shown():
    groups = chain(3, 5, 2)
    cut = make_cut(groups, [0.1, 0.4], scores_like(groups))
    assert [(one.group, one.asked, one.removed) for one in cut.achieved] == [
        ("a.weight", 0.1, 0), ("b.weight", 0.4, 2)
    ]  # fmt: skip
    assert list(cut.parts) == ["b.weight"]


def test_a_group_that_is_left_alone_needs_no_scores():
    groups = chain(4, 5, 2)
    cut = make_cut(groups, [0.0, 0.5], {1: np.arange(5.0)})
    assert cut.by_name() == {"b.weight": {0: (0, 1)}, "c.weight": {1: (0, 1)}}
    assert [one.group for one in cut.achieved] == ["b.weight"]


def test_a_shuffle_keeps_its_places():
    net = Net()
    x = net.conv(net.input("x", 1, 3, 4), "a", 6)
    groups = net.groups(net.conv(net.shuffle(x, 2), "b", 2))
    cut = make_cut(groups, [0.34], scores_like(groups, a=[2, 0, 1]))
    assert cut.by_name() == {"a.weight": {0: (1, 4)}, "b.weight": {1: (2, 3)}}
    assert sorted((one.attr, one.position, one.old, one.new) for one in cut.resizes) == [
        ("shape", 1, 6, 4), ("shape", 2, 3, 2)
    ]  # fmt: skip


def test_the_number_of_groups_follows_a_depthwise_convolution():
    net = Net()
    x = net.conv(net.conv(net.input("x", 1, 3, 4), "a", 4), "depthwise", 8, groups=4)
    groups = net.groups(net.conv(x, "b", 2))
    cut = make_cut(groups, [0.5], scores_like(groups))
    assert cut.by_name() == {
        "a.weight": {0: (0, 1)},
        "depthwise.weight": {0: (0, 1, 2, 3)},
        "b.weight": {1: (0, 1, 2, 3)},
    }  # fmt: skip
    (resize,) = cut.resizes
    assert (resize.node.op, resize.attr, resize.old, resize.new) == ("conv", "groups", 4, 2)


def test_the_bounds_of_a_slice_count_what_is_left():
    net = Net()
    x = net.conv(net.input("x", 1, 3, 4), "a", 7)
    groups = net.groups(net.conv(net.slice(x, 2, 5), "b", 2))
    gone = np.zeros(groups.channels.count, bool)
    gone[groups.channels.sets[Dim("a.weight", 0)][[0, 3, 6]]] = True
    cut = cut_of(groups.channels, gone)
    assert cut.by_name() == {"a.weight": {0: (0, 3, 6)}, "b.weight": {1: (1,)}}
    assert [(one.attr, one.old, one.new) for one in cut.resizes] == [
        ("start", 2, 1),
        ("stop", 5, 3),
    ]


def test_balanced_halves_lose_by_their_own_scores():
    net = Net()
    first, second = net.split(net.conv(net.input("x", 1, 3, 4), "a", 8), 4, 4)
    groups = net.groups(net.conv(net.concat(second, first), "b", 2))
    cut = make_cut(groups, [0.5], {0: np.array([0, 1, 2, 3, 7, 6, 5, 4.0])})
    assert cut.by_name()["a.weight"] == {0: (0, 1, 6, 7)}
    assert [(one.attr, one.new) for one in cut.resizes] == [("sizes", 2), ("sizes", 2)]


def test_a_norm_over_what_goes_is_named():
    net = Net()
    x = net.norm(net.conv(net.input("x", 1, 3, 4), "a", 4), "n", groups=2)
    groups = net.groups(net.conv(net.conv(x, "b", 5), "c", 2))
    assert [node.op for node in make_cut(groups, [0.5, 0], scores_like(groups)).mixes] == [
        "group_norm"
    ]
    assert make_cut(groups, [0, 0.5], scores_like(groups)).mixes == ()


def test_parts_of_a_cut_add_up_to_it():
    groups = chain(4, 5, 2)
    cut = make_cut(groups, [0.5, 0.5], scores_like(groups))
    assert list(cut.parts) == ["a.weight", "b.weight"]
    assert (cut.gone == (cut.parts["a.weight"] | cut.parts["b.weight"])).all()


def test_a_cut_of_nothing_is_empty():
    groups = chain(4, 5)
    cut = make_cut(groups, [0.0], {})
    assert (cut.by_name(), cut.resizes, cut.achieved, dict(cut.parts)) == ({}, (), (), {})

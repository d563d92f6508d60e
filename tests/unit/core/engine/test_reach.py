"""What a cut leaves as it was, and what it does not."""

import numpy as np

from prunus.core.engine.reach import changed
from prunus.testing.networks import Net


def gone_of(channels, name, count=1):
    gone = np.zeros(channels.count, bool)
    dim = next(dim for dim in channels.sets if (dim.tensor, dim.axis) == (name, 0))
    gone[channels.sets[dim][:count]] = True
    return gone


def built():
    net = Net()
    x = net.input("x", 1, 3, 4)
    y = net.norm(net.conv(x, "a", 6), "n")
    z = net.conv(y, "b", 8)
    side = net.conv(x, "c", 8)
    return net, net.close(net.conv(net.add(z, side), "d", 2))


def test_before_the_first_sum_what_stays_is_what_it_was():
    _, channels = built()
    found = changed(channels, gone_of(channels, "a.weight"))
    # `a` and its norm lose channels and keep their values; `b` adds up over them.
    assert found == {"conv2.out", "elementwise4.out", "conv5.out"}


def test_a_branch_beside_is_not_reached():
    _, channels = built()
    found = changed(channels, gone_of(channels, "b.weight"))
    assert found == {"conv5.out"}


def test_a_cut_of_nothing_changes_nothing():
    _, channels = built()
    assert changed(channels, np.zeros(channels.count, bool)) == frozenset()


def test_a_norm_over_channels_mixes_them():
    net = Net()
    x = net.input("x", 1, 3, 4)
    y = net.norm(net.conv(x, "a", 6), "n", groups=2)
    channels = net.close(net.conv(y, "b", 2))
    found = changed(channels, gone_of(channels, "a.weight", 1))
    assert "group_norm1.out" in found
    assert "conv0.out" not in found

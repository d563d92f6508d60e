"""What a user asks for: names, patterns, and every error that this can end in."""

from __future__ import annotations

import re

import numpy as np
import pytest

from prunus.core.cut.ratios import ratios_of
from prunus.core.errors import NothingToCutError, RatioError, UnknownNameError
from prunus.core.graph.groups import Groups
from prunus.testing.networks import Net, chain


def residual() -> Groups:
    """stem and layer.b go together; layer.a by itself; head stays."""
    net = Net()
    stem = net.conv(net.input("x", 1, 3, 4), "stem", 4)
    inner = net.conv(net.conv(stem, "layer.a", 6), "layer.b", 4)
    return net.groups(net.conv(net.add(stem, inner), "head", 2))


def parted() -> Groups:
    net = Net()
    first, second = net.split(net.conv(net.input("x", 1, 3, 4), "a", 6), 2, 4)
    y = net.concat(net.conv(first, "b", 3), net.conv(second, "c", 3))
    return net.groups(net.conv(y, "head", 2))


def test_one_number_is_for_all_groups():
    assert ratios_of(residual(), 0.5) == [0.5, 0.5]
    assert ratios_of(residual(), 0) == [0.0, 0.0]


def test_a_weight_stands_for_its_group():
    assert ratios_of(residual(), {"layer.b.weight": 0.5}) == [0.5, 0.0]
    assert ratios_of(residual(), {"stem.weight": 0.5, "layer.a.weight": 0.25}) == [0.5, 0.25]


def test_nothing_asked_is_nothing():
    assert ratios_of(residual(), {}) == [0.0, 0.0]


def test_a_weight_of_several_groups_stands_for_all_of_them():
    groups = parted()
    assert [one.name for one in groups.groups][:2] == ["a.weight[0:2]", "a.weight[2:6]"]
    assert ratios_of(groups, {"a.weight": 0.5}) == [0.5, 0.5, 0, 0]
    assert ratios_of(groups, {"a.weight[2:6]": 0.5}) == [0, 0.5, 0, 0]


def test_patterns():
    assert ratios_of(residual(), {"*": 0.5}) == [0.5, 0.5]
    assert ratios_of(residual(), {"layer.a*": 0.5}) == [0.0, 0.5]


def test_an_exact_name_goes_before_a_pattern():
    expected = [0.25, 0.5]
    assert ratios_of(residual(), {"stem.weight": 0.25, "*": 0.5}) == expected
    assert ratios_of(residual(), {"*": 0.5, "stem.weight": 0.25}) == expected


def test_numbers_of_numpy_are_numbers():
    assert ratios_of(residual(), np.float32(0.5)) == [0.5, 0.5]
    assert ratios_of(residual(), {"stem.weight": np.float64(0.25)}) == [0.25, 0.0]


@pytest.mark.parametrize(
    "ratio", [1, 1.0, -0.1, 2, float("nan"), float("inf"), True, False, "0.5", None, 0.5 + 0j]
)
def test_what_is_no_share_is_refused(ratio):
    shown = re.escape(f"the ratio of 'stem.weight' is {ratio!r}, and must lie in [0, 1)")
    with pytest.raises(RatioError, match=shown + r"\n  fix: give the share of channels to remove"):
        ratios_of(residual(), {"stem.weight": ratio})
    with pytest.raises(RatioError, match=r"the ratio of 'all groups' is"):
        ratios_of(residual(), ratio)


def test_two_ratios_for_channels_that_live_and_die_together():
    message = (
        r"'stem.weight' asks 0\.5 and 'layer\.b\.weight' asks 0\.25 of the same channels: "
        r"group 'stem\.weight' \(stem\.weight, layer\.b\.weight\) lives and dies together\n"
        r"  fix: give that group one ratio, under one of its names"
    )
    with pytest.raises(RatioError, match=message):
        ratios_of(residual(), {"stem.weight": 0.5, "layer.b.weight": 0.25})
    assert ratios_of(residual(), {"stem.weight": 0.5, "layer.b.weight": 0.5}) == [0.5, 0.0]


def test_two_patterns_that_disagree():
    with pytest.raises(RatioError, match=r"'s\*' asks 0\.5 and '\*b\*' asks 0\.25 of the same"):
        ratios_of(residual(), {"s*": 0.5, "*b*": 0.25})


def test_a_weight_and_its_part_that_disagree():
    with pytest.raises(RatioError, match=r"'a.weight' asks 0\.5 and 'a\.weight\[0:2\]' asks 0\.25"):
        ratios_of(parted(), {"a.weight": 0.5, "a.weight[0:2]": 0.25})


def test_a_weight_that_stays_says_why():
    message = (
        r"'head\.weight' cannot be cut: it is an output of the network\n"
        r"  fix: leave 'head\.weight' out; prunus\.trace\(\.\.\.\)\.frozen lists what stays"
    )
    with pytest.raises(NothingToCutError, match=message):
        ratios_of(residual(), {"head.weight": 0.5})


def test_a_pattern_that_only_matches_what_stays_says_why():
    message = r"'head\.weight' cannot be cut: it is an output .*\n  fix: leave 'head\*' out"
    with pytest.raises(NothingToCutError, match=message):
        ratios_of(residual(), {"head*": 0.5})


def test_a_model_in_which_everything_stays_says_why():
    message = (
        r"nothing in this model can be cut: 'a\.weight' stays, it is an output of the network\n"
        r"  fix: print prunus\.trace\(\.\.\.\)\.frozen for all reasons; .* rules="
    )
    for asked in (0.5, {"no such name": 0.5}):
        with pytest.raises(NothingToCutError, match=message):
            ratios_of(chain(4), asked)


def test_a_model_without_layers_says_so():
    net = Net()
    with pytest.raises(
        NothingToCutError, match="it has no convolution or other layer with filters"
    ):
        ratios_of(net.groups(net.add(net.input("x", 1, 3, 4))), 0.5)


def test_a_ratio_is_checked_before_the_model():
    with pytest.raises(RatioError, match=r"the ratio of 'all groups' is 1\.5"):
        ratios_of(chain(4), 1.5)


def test_an_unknown_name_tells_the_nearest():
    message = (
        r"no weight that can be cut is named 'layer\.c\.weight'\n"
        r"  fix: the nearest are 'layer\.[ab]\.weight', 'layer\.[ab]\.weight', 'stem\.weight'$"
    )
    with pytest.raises(UnknownNameError, match=message):
        ratios_of(residual(), {"layer.c.weight": 0.5})


def test_the_name_of_a_module_tells_the_weight():
    with pytest.raises(
        UnknownNameError, match=r"named 'layer\.a'\n  fix: write 'layer\.a\.weight'"
    ):
        ratios_of(residual(), {"layer.a": 0.5})


def test_an_ambiguous_name_tells_the_choices():
    message = (
        r"named 'weight'\n  fix: it could be any of 3 weights \('stem\.weight', .*\): "
        r"write one in full, or all with the pattern '\*weight\*'"
    )
    with pytest.raises(UnknownNameError, match=message):
        ratios_of(residual(), {"weight": 0.5})


def test_a_bias_or_a_scale_tells_the_group_that_it_goes_with():
    net = Net()
    x = net.norm(net.conv(net.input("x", 1, 3, 4), "a", 4, bias=True), "n")
    groups = net.groups(net.conv(x, "head", 2))
    for name in ("a.bias", "n.weight"):
        message = f"'{name}' has no filters of its own.*\n  fix: .* goes with: 'a.weight'$"
        with pytest.raises(UnknownNameError, match=message):
            ratios_of(groups, {name: 0.5})


def test_a_name_that_is_no_text_is_refused():
    with pytest.raises(RatioError, match="1 is no name of a weight, group or pattern"):
        ratios_of(residual(), {1: 0.5})

"""Scores of a group: over all its weights, each brought to mean 1."""

from __future__ import annotations

import numpy as np
import pytest

from prunus.core.errors import CriterionError
from prunus.core.graph.groups import Groups
from prunus.core.scores.criteria import fpgm, l1, l2
from prunus.core.scores.group import Weights, scores_of
from prunus.testing.networks import Net, chain


def weights_of(groups: Groups, *, gradients: bool = False, **given: np.ndarray) -> Weights:
    rng = np.random.default_rng(0)
    values, slopes = {}, {}
    for name, tensor in groups.graph.tensors.items():
        if tensor.is_param:
            values[name] = given.get(name.split(".")[0], rng.standard_normal(tensor.shape))
            slopes[name] = rng.standard_normal(tensor.shape)
    return Weights(values.__getitem__, slopes.__getitem__ if gradients else lambda name: None)


def residual() -> Groups:
    """One group of `stem` and `b`, each under a norm, and the group of `a`."""
    net = Net()
    stem = net.norm(net.conv(net.input("x", 1, 3, 4), "stem", 4), "n1")
    inner = net.norm(net.conv(net.conv(stem, "a", 6), "b", 4), "n2")
    return net.groups(net.conv(net.add(stem, inner), "head", 2))


def mean_one(scores: np.ndarray) -> np.ndarray:
    return scores / scores.mean()


@pytest.mark.parametrize(("name", "function"), [("l1", l1), ("l2", l2), ("fpgm", fpgm)])
def test_a_group_is_scored_by_the_mean_over_its_weights(name, function):
    groups = residual()
    weights = weights_of(groups)
    group = groups.groups[0]
    members = [function(weights.value("stem.weight")), function(weights.value("b.weight"))]
    expected = np.mean([mean_one(one) for one in members], axis=0)
    assert np.allclose(scores_of(group, name, weights), expected)


def test_no_weight_outweighs_another_by_its_scale():
    groups = residual()
    weights = weights_of(groups)
    bigger = Weights(
        lambda name: weights.value(name) * (1000 if name == "b.weight" else 1), weights.gradient
    )
    group = groups.groups[0]
    assert np.allclose(scores_of(group, "l1", weights), scores_of(group, "l1", bigger))


def test_filters_that_go_together_are_added_up():
    # A shuffle ties channel k with channel k + 3.
    net = Net()
    x = net.conv(net.input("x", 1, 3, 4), "a", 6)
    groups = net.groups(net.conv(net.shuffle(x, 2), "b", 2))
    weights = weights_of(groups)
    own = l1(weights.value("a.weight"))
    assert np.allclose(scores_of(groups.groups[0], "l1", weights), mean_one(own[:3] + own[3:]))


def test_parts_of_a_weight_are_scored_by_their_own_filters():
    net = Net()
    first, second = net.split(net.conv(net.input("x", 1, 3, 4), "a", 6), 2, 4)
    y = net.concat(net.conv(first, "b", 3), net.conv(second, "c", 3))
    groups = net.groups(net.conv(y, "head", 2))
    weights = weights_of(groups)
    own = l2(weights.value("a.weight"))
    assert np.allclose(scores_of(groups.groups[0], "l2", weights), mean_one(own[:2]))
    assert np.allclose(scores_of(groups.groups[1], "l2", weights), mean_one(own[2:]))


def test_filters_along_another_axis_are_rows_too():
    net = Net()
    x = net.conv(net.input("x", 1, 3, 4), "a", 4)
    weight = net.param("up.weight", 4, 5, 1)
    up = net.node("conv_transpose", [x], (1, 5, 4), {"weight": weight}, groups=1)
    groups = net.groups(net.conv(up, "b", 2))
    weights = weights_of(groups)
    expected = mean_one(np.abs(weights.value("up.weight")).sum(axis=(0, 2)))
    assert np.allclose(scores_of(groups.groups[1], "l1", weights), expected)


def test_weights_of_zeros_have_no_scale_to_be_brought_to():
    groups = chain(4, 2)
    weights = weights_of(groups, a=np.zeros((4, 3, 1)))
    assert scores_of(groups.groups[0], "l1", weights).tolist() == [0, 0, 0, 0]


def test_the_scales_of_norms():
    groups = residual()
    weights = weights_of(groups, n1=np.array([1.0, -2, 3, 4]), n2=np.array([4.0, 4, 4, 0]))
    expected = (np.array([1, 2, 3, 4]) / 2.5 + np.array([4, 4, 4, 0]) / 3) / 2
    assert np.allclose(scores_of(groups.groups[0], "bn_scale", weights), expected)


def test_the_scales_of_norms_need_norms():
    groups = chain(4, 2)
    message = (
        r"criterion 'bn_scale' needs a normalisation on group 'a\.weight', which has none\n"
        r"  fix: use criterion='l1', or give ratios only to groups that are normalised"
    )
    with pytest.raises(CriterionError, match=message):
        scores_of(groups.groups[0], "bn_scale", weights_of(groups))


def test_taylor_multiplies_weights_with_gradients():
    groups = residual()
    weights = weights_of(groups, gradients=True)
    members = []
    for name in ("stem.weight", "b.weight"):
        product = weights.value(name) * weights.gradient(name)
        members.append(mean_one(np.abs(product.reshape(4, -1).sum(axis=1))))
    expected = np.mean(members, axis=0)
    assert np.allclose(scores_of(groups.groups[0], "taylor", weights), expected)


def test_taylor_needs_gradients():
    groups = chain(4, 2)
    message = (
        r"criterion 'taylor' needs the gradient of 'a\.weight', which has none\n"
        r"  fix: run loss\.backward\(\) on the model before cutting, with requires_grad=True"
    )
    with pytest.raises(CriterionError, match=message):
        scores_of(groups.groups[0], "taylor", weights_of(groups))


def test_random_is_the_same_for_the_same_seed():
    groups = chain(64, 64, 2)
    weights = weights_of(groups)
    first = scores_of(groups.groups[0], "random", weights, seed=1)
    assert (first == scores_of(groups.groups[0], "random", weights, seed=1)).all()
    assert (first != scores_of(groups.groups[0], "random", weights, seed=2)).any()
    assert (first != scores_of(groups.groups[1], "random", weights, seed=1)).any()
    assert len(set(first.tolist())) == 64


def test_a_function_is_a_criterion():
    groups = residual()
    weights = weights_of(groups)
    seen = []

    def largest(filters):
        seen.append(filters.shape)
        return np.abs(filters).max(axis=(1, 2))

    members = [np.abs(weights.value(k)).max(axis=(1, 2)) for k in ("stem.weight", "b.weight")]
    expected = np.mean([mean_one(one) for one in members], axis=0)
    assert np.allclose(scores_of(groups.groups[0], largest, weights), expected)
    assert seen == [(4, 3, 1), (4, 6, 1)]


def test_a_function_cannot_change_the_model():
    groups = chain(4, 2)

    def careless(filters):
        filters -= filters.mean()
        return filters.sum(axis=(1, 2))

    with pytest.raises(ValueError, match="read-only"):
        scores_of(groups.groups[0], careless, weights_of(groups))


@pytest.mark.parametrize(
    ("returned", "shown"),
    [
        (np.zeros(3), r"shape \(3,\)"),
        (np.zeros((4, 1)), r"shape \(4, 1\)"),
        (None, r"shape \(\)"),
        ("one", "a str"),
    ],
)
def test_a_function_must_return_a_score_a_filter(returned, shown):
    groups = chain(4, 2)
    message = (
        rf"the criterion returned {shown} for the 4 filters of 'a\.weight'\n"
        r"  fix: return an array of one score a filter"
    )
    with pytest.raises(CriterionError, match=message):
        scores_of(groups.groups[0], lambda filters: returned, weights_of(groups))


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_scores_that_are_no_numbers_are_refused(wrong):
    groups = chain(4, 2)
    weight = np.ones((4, 3, 1))
    weight[2, 0] = wrong
    message = rf"the score of filter 2 of 'a\.weight' is {wrong}, so there is no telling .*\n  fix:"
    with pytest.raises(CriterionError, match=message):
        scores_of(groups.groups[0], "l1", weights_of(groups, a=weight))


def test_an_unknown_criterion_is_refused():
    groups = chain(4, 2)
    with pytest.raises(CriterionError, match="there is no criterion 'magic'"):
        scores_of(groups.groups[0], "magic", weights_of(groups))

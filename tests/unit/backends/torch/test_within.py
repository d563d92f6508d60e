"""Cutting a part of a model that as a whole cannot be traced."""

import pytest
import torch
from torch import nn

import prunus
from prunus.core.errors import NothingToCutError, TraceError, UnknownNameError

from .nets import Branching, Chain, Fixed, Within, fingerprint, image, learn


def test_the_whole_cannot_be_traced_and_the_line_is_named():
    with pytest.raises(
        TraceError, match=r"cannot be traced: .*\(at .*nets\.py:\d+, in forward\)"
    ) as told:
        prunus.trace(Branching(Chain()), image())
    assert 'prune(..., within="backbone")' in told.value.fix


@pytest.mark.parametrize("inplace", [False, True])
def test_the_part_is_cut_and_the_whole_comes_back(inplace):
    model, x = Branching(Chain()), image()
    before = fingerprint(model)
    pruned = prunus.prune(model, x, 0.5, within="backbone", inplace=inplace)
    assert type(pruned.model) is Branching
    assert (pruned.model is model) is inplace
    assert inplace or fingerprint(model) == before
    assert set(pruned.cut) >= {"backbone.a.weight", "backbone.b.weight"}
    assert "head.weight" not in pruned.cut
    assert pruned.error < 1e-9
    assert pruned.model.backbone.a.weight.shape == (4, 3, 3, 3)
    losses = learn(pruned.model, x)
    assert losses[-1] < losses[0]


def test_names_begin_with_the_part():
    model = Branching(Chain())
    traced = prunus.trace(model, image(), within="backbone")
    assert [group.name for group in traced.groups] == ["backbone.a.weight", "backbone.b.weight"]
    pruned = prunus.prune(model, image(), {"backbone.a.weight": 0.5}, within="backbone")
    assert pruned.model.backbone.b.weight.shape == (12, 4, 3, 3)


def test_a_nested_part_that_is_called_with_keywords():
    model = Within(Chain())
    pruned = prunus.prune(model, image(), 0.5, within="outer.inner")
    assert pruned.model.outer.inner.a.weight.shape == (4, 3, 3, 3)
    pruned.model(image()).sum().backward()


@pytest.mark.parametrize("inplace", [False, True])
def test_a_part_that_comes_back_traced_is_put_into_its_place(inplace):
    model = Within(Fixed())
    pruned = prunus.prune(model, image(2, 4), 0.5, within="outer.inner", inplace=inplace)
    assert pruned.how == "traced"
    assert type(pruned.model) is Within
    assert pruned.model.outer.inner.conv.weight.shape == (4, 3, 3, 3)
    assert pruned.model(image(5, 4)).shape == (5, 10)
    assert model.outer.inner.conv.weight.shape == (8, 3, 3, 3)
    losses = learn(pruned.model, image(4, 4), steps=8)
    assert losses[-1] < losses[0]


class AcrossTheBorder(Branching):
    def __init__(self, backbone):
        super().__init__(backbone)
        self.outside = nn.Conv2d(3, 8, 3, padding=1)
        self.outside.weight = backbone[0].weight

    def forward(self, x):
        return super().forward(x) + self.outside(x).mean()


def backbone(last):
    return nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 6, 1), *last)


def test_weights_tied_across_the_border_stay_whole_for_a_reason():
    last = (nn.Conv2d(6, 5, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    model = AcrossTheBorder(backbone(last))
    pruned = prunus.prune(model, image(), 0.5, within="backbone")
    reasons = {one.name: one.because for one in pruned.frozen}
    assert reasons["backbone.0.weight"] == "it is tied to 'outside.weight', outside of 'backbone'"
    assert pruned.model.outside.weight is pruned.model.backbone[0].weight
    assert pruned.model.backbone[2].weight.shape == (3, 8, 1, 1)
    with pytest.raises(
        NothingToCutError, match=r"tied to 'outside\.weight', outside of 'backbone'"
    ):
        prunus.prune(model, image(), {"backbone.0.weight": 0.5}, within="backbone")


def test_ties_across_the_border_of_a_traced_part_stay():
    class Reshapes(nn.Module):
        def forward(self, x):
            return x.reshape(-1, 6 * 16)

    model = AcrossTheBorder(backbone((Reshapes(), nn.Linear(96, 5))))
    pruned = prunus.prune(model, image(2, 4), 0.5, within="backbone")
    assert pruned.how == "traced"
    inner = dict(pruned.model.backbone.named_parameters())
    assert pruned.model.outside.weight is inner["0.weight"]


def test_an_unknown_part_is_told_with_the_nearest():
    with pytest.raises(UnknownNameError, match="no sub-module 'backbon'") as told:
        prunus.trace(Branching(Chain()), image(), within="backbon")
    assert "'backbone'" in told.value.fix
    with pytest.raises(UnknownNameError, match="no sub-module 5"):
        prunus.trace(Branching(Chain()), image(), within=5)


def test_a_part_that_never_runs_is_told():
    model = Branching(Chain())
    model.spare = nn.Conv2d(3, 3, 1)
    with pytest.raises(TraceError, match="on this example never calls 'spare'"):
        prunus.trace(model, image(), within="spare")


def test_an_example_that_does_not_fit_the_whole_is_told():
    with pytest.raises(TraceError, match="the model does not run on this example: RuntimeError"):
        prunus.trace(Branching(Chain()), torch.randn(2, 4, 8, 8), within="backbone")


def test_a_part_that_runs_though_the_whole_then_fails_is_enough():
    class Fails(Branching):
        def forward(self, x):
            self.backbone(x)
            raise RuntimeError("needs targets")

    pruned = prunus.prune(Fails(Chain()), image(), 0.5, within="backbone")
    assert pruned.error < 1e-9

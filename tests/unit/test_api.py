"""The verbs refuse what they cannot do, and say what to do instead."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import prunus
from prunus.core.errors import CriterionError, NothingToCutError, PrunusError, RatioError


class Plain(nn.Sequential):
    def __init__(self, width: int = 6) -> None:
        super().__init__(nn.Conv2d(3, width, 1), nn.Conv2d(width, 2, 1))


def picture() -> torch.Tensor:
    return torch.randn(2, 3, 4, 4)


@pytest.mark.parametrize("thing", ["resnet18", {}, torch.zeros(3)])
def test_what_is_no_model_is_refused(thing):
    with pytest.raises(PrunusError, match=r"cannot work on a \w+[.\w]*\n  fix: pass a torch\.nn"):
        prunus.trace(thing, picture())


def test_an_exported_program_is_no_model():
    program = torch.export.export(Plain(), (picture(),))
    with pytest.raises(PrunusError, match=r"cannot work on a torch\.export.*ExportedProgram"):
        prunus.trace(program, picture())


def test_a_class_in_place_of_a_model_is_told():
    message = r"the class Plain\n  fix: pass a model that was made of it, such as Plain\(\)"
    with pytest.raises(PrunusError, match=message):
        prunus.trace(Plain, picture())


@pytest.mark.parametrize("align", [0, 2.0, True, "8"])
def test_an_align_that_is_no_step_is_refused(align):
    with pytest.raises(RatioError, match=r"align is .*, and must be a whole number from 1"):
        prunus.prune(Plain(), picture(), 0.5, align=align)


@pytest.mark.parametrize("seed", [-1, 0.5, True, "a"])
def test_a_seed_that_is_no_seed_is_refused(seed):
    with pytest.raises(CriterionError, match=r"seed is .*, and must be a whole number from 0"):
        prunus.prune(Plain(), picture(), 0.5, criterion="random", seed=seed)


def test_rules_that_are_no_table_are_refused():
    with pytest.raises(PrunusError, match="rules is a list, and must be a table") as told:
        prunus.prune(Plain(), picture(), 0.5, rules=[])
    assert "**prunus.default_rules()" in told.value.fix


def test_save_takes_what_prune_returned():
    with pytest.raises(PrunusError, match="save takes what prune returned, and got a Plain"):
        prunus.save(Plain(), "small.safetensors")


def refused(*args, **kwargs) -> PrunusError:
    with pytest.raises(NothingToCutError, match="no channel goes: ") as told:
        prunus.prune(*args, **kwargs)
    return told.value


def test_a_ratio_that_takes_no_channel_says_what_a_ratio_takes():
    error = refused(Plain(), picture(), 0.01)
    assert error.problem == "no channel goes: 0.weight (6 channels at ratio 0.01)"
    assert error.fix.endswith("a group of n channels loses min(n - 1, round(n * ratio))")


def test_an_align_that_leaves_everything_is_named():
    assert "a smaller align than 64" in refused(Plain(), picture(), 0.5, align=64).fix


def test_a_group_of_one_channel_keeps_it_at_any_ratio():
    error = refused(Plain(1), picture(), 0.9)
    assert error.problem == "no channel goes: 0.weight (1 channel at ratio 0.9)"
    assert "one always stays" in error.fix


def test_runs_that_cannot_lose_the_same_number_are_named():
    layers = [nn.Conv2d(3, 12, 1), nn.GroupNorm(4, 12), nn.ChannelShuffle(3), nn.Conv2d(12, 2, 1)]
    error = refused(nn.Sequential(*layers), picture(), 0.5)
    assert "runs that must lose the same number each" in error.fix


def test_every_group_can_be_asked_for_by_its_name():
    class Both(nn.Module):
        """The rows of `w` go with `a`, and its columns by themselves."""

        def __init__(self) -> None:
            super().__init__()
            self.a, self.w = nn.Conv2d(3, 6, 1), nn.Parameter(torch.randn(8, 6))

        def forward(self, x):
            t = self.a(x).permute(0, 2, 3, 1)
            t = nn.functional.linear(nn.functional.linear(t, self.w).relu(), self.w.t())
            return t.mean(3)

    groups = prunus.trace(Both(), picture()).groups
    assert [group.name for group in groups] == ["a.weight", "w[0:8]"]
    ratios = {"a.weight": 0.5, "w[0:8]": 0.25}
    pruned = prunus.prune(Both(), picture(), ratios)
    assert {one.group: one.ratio for one in pruned.achieved} == ratios

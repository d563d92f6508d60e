"""The verbs refuse what they cannot do, and say what to do instead."""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import prunus
from prunus.core.errors import (
    CriterionError,
    EvaluationError,
    NothingToCutError,
    PrunusError,
    RatioError,
    StudyConflictError,
    StudyMismatchError,
    UnknownNameError,
)
from prunus.core.study import database

from .analyses import DATA, IMAGE, RATIOS, analyze, interrupted, squares, table
from .backends.torch.nets import Chain
from .naive import Counted, batches, naive, top


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    torch.set_num_threads(1)
    torch.manual_seed(0)
    monkeypatch.setattr(database, "SYNCHRONOUS", "OFF")


@pytest.fixture
def model():
    return Chain()


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


# An analysis.


def test_an_evaluation_that_is_none_is_refused(model, tmp_path):
    with pytest.raises(EvaluationError, match="a list evaluates no model") as told:
        analyze(model, DATA, tmp_path / "a")
    assert "prunus.Evaluation(batches, metric)" in told.value.fix


@pytest.mark.parametrize(
    "option", [{"adaptive": 0.1}, {"budget": 0.1}, {"estimate": True}, {"precision": "bfloat16"}]
)
def test_what_needs_the_loop_over_the_data_is_refused_without(model, tmp_path, option):
    with pytest.raises(EvaluationError, match="need to own the loop over the data") as told:
        analyze(model, lambda net: 1.0, tmp_path / "a", **option)
    assert "prunus.Evaluation(batches, metric)" in told.value.fix
    assert not (tmp_path / "a").exists()


def test_a_direction_that_is_said_twice_is_refused(model, tmp_path):
    with pytest.raises(EvaluationError, match="is said of a function of your own") as told:
        analyze(model, prunus.Evaluation(DATA, squares), tmp_path / "a", higher_is_better=False)
    assert "Evaluation(..., higher_is_better=False)" in told.value.fix


@pytest.mark.parametrize("ratios", [(), (0.0, 0.5), (0.5, 1.0), (math.nan,), ("half",), (None,), 2])
def test_ratios_that_are_none_are_refused(model, tmp_path, ratios):
    with pytest.raises(RatioError, match=r"the ratios to try are .*numbers between 0 and 1\n  fix"):
        analyze(model, prunus.Evaluation(DATA), tmp_path / "a", ratios=ratios)


def test_names_that_are_none_are_refused(model, tmp_path):
    with pytest.raises(UnknownNameError, match=r"a\.weigth"):
        analyze(model, prunus.Evaluation(DATA), tmp_path / "a", params=["a.weigth"])


def test_a_model_without_groups_says_why(tmp_path):
    flat = nn.Sequential(nn.Flatten(), nn.Linear(192, 5))
    with pytest.raises(NothingToCutError, match=r"1\.weight"):
        analyze(flat, prunus.Evaluation(DATA), tmp_path / "a")


def test_an_align_or_a_seed_that_is_none_is_refused(model, tmp_path):
    with pytest.raises(RatioError, match="align is 0, and must be a whole number from 1"):
        analyze(model, prunus.Evaluation(DATA), tmp_path / "a", align=0)
    with pytest.raises(CriterionError, match="seed is -1, and must be a whole number from 0"):
        analyze(model, prunus.Evaluation(DATA), tmp_path / "a", seed=-1)


@pytest.mark.parametrize("shard", [(0, 2), (3, 2), (1, 0)])
def test_a_part_of_the_work_that_is_none_is_refused(model, tmp_path, shard):
    with pytest.raises(RatioError, match=rf"part {shard[0]} of {shard[1]} is no part of the work"):
        analyze(model, prunus.Evaluation(DATA), tmp_path / "a", shard=shard)


def loader(**options):
    whole = [torch.cat(column) for column in zip(*DATA, strict=True)]
    return DataLoader(TensorDataset(*whole), batch_size=5, **options)


@pytest.mark.parametrize("option", [{}, {"adaptive": 0.1}], ids=["exact", "adaptive"])
def test_a_shuffled_loader_is_refused_before_anything_is_written(model, tmp_path, option):
    with pytest.raises(EvaluationError, match="begins with another batch each time") as told:
        analyze(model, prunus.Evaluation(loader(shuffle=True)), tmp_path / "a", **option)
    assert "shuffle=False" in told.value.fix
    assert not (tmp_path / "a").exists()


def test_a_loader_in_order_is_read(model, tmp_path):
    study = analyze(model, prunus.Evaluation(loader()), tmp_path / "a")
    assert (study.baseline, table(study)) == naive(model, IMAGE, DATA, top(1), study)


def test_random_augmentation_is_refused(model, tmp_path):
    def augmented():
        for x, y in DATA:
            yield x + torch.randn(()), y

    with pytest.raises(EvaluationError, match="begins with another batch each time"):
        analyze(model, prunus.Evaluation(augmented), tmp_path / "a")


def test_a_function_that_gives_one_iterator_twice_is_refused(model, tmp_path):
    once = iter(DATA[:1])
    with pytest.raises(EvaluationError, match="the data has no batch") as told:
        analyze(model, prunus.Evaluation(lambda: once), tmp_path / "a")
    assert "gone through again" in told.value.fix


def test_no_batch_and_no_sample_are_refused(model, tmp_path):
    with pytest.raises(EvaluationError, match="the data has no batch"):
        analyze(model, prunus.Evaluation([]), tmp_path / "a")
    with pytest.raises(EvaluationError, match="the data has no sample\n  fix: give batches with"):
        analyze(model, prunus.Evaluation(batches(0)), tmp_path / "b")


def test_a_study_of_something_else_is_refused(model, tmp_path):
    path = tmp_path / "a"
    work = prunus.Evaluation(DATA, squares)
    before = table(analyze(model, work, path))
    other = Chain()
    with torch.no_grad():
        other.load_state_dict(model.state_dict())
        other.head.bias[0] += 1
    foreign = {
        "the model": (other, work, {}),
        "the data": (model, dataclasses.replace(work, batches=batches(7, 7, 3, seed=9)), {}),
        "the metric": (model, dataclasses.replace(work, metric="top1"), {}),
        "the direction": (model, dataclasses.replace(work, higher_is_better=False), {}),
        "the criterion": (model, work, {"criterion": "l2"}),
        "the option 'align'": (model, work, {"align": 2}),
    }
    for what, (net, other_work, options) in foreign.items():
        with pytest.raises(StudyMismatchError, match=f"is another study; what differs is {what}:"):
            analyze(net, other_work, path, **options)
    assert table(prunus.Study.open(path)) == before


def test_a_later_batch_that_changed_is_found(model, tmp_path):
    path = tmp_path / "a"
    work = prunus.Evaluation(DATA, squares)
    analyze(model, work, path)
    changed = [*DATA[:2], (DATA[2][0] + 1, DATA[2][1])]
    with pytest.raises(StudyConflictError, match="batch 2 of order 'in order' held other data"):
        analyze(model, prunus.Evaluation(changed, squares), path, ratios=(*RATIOS, 0.9))


def test_a_batch_that_was_measured_and_has_changed_since_is_found(model, tmp_path):
    interrupted(model, Counted(squares, 11), tmp_path / "a")
    changed = [DATA[0], (DATA[1][0] + 1, DATA[1][1]), DATA[2]]
    with pytest.raises(StudyConflictError, match="batch 1 of order 'in order' held other data"):
        analyze(model, prunus.Evaluation(changed, Counted(squares)), tmp_path / "a")

"""`prunus.analyze`: a study holds what was asked, of what was given, and loses nothing."""

import collections
import dataclasses
import json
import math
from pathlib import Path

import numpy as np
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
from prunus.core.graph.facts import Couple
from prunus.core.graph.ir import Dim
from prunus.core.study import database
from prunus.core.study.store import Store

from .backends.torch.nets import Chain, fingerprint, image
from .naive import Counted, batches, naive, top

RATIOS = (0.3, 0.6)
DATA = batches(7, 7, 3)
IMAGE = image()
CELLS = 4


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    torch.set_num_threads(1)
    torch.manual_seed(0)
    monkeypatch.setattr(database, "SYNCHRONOUS", "OFF")


@pytest.fixture
def model():
    return Chain()


def squares(output, batch):
    return (output - nn.functional.one_hot(batch[1], 5)).square().mean(1)


def analyze(model, work, path, **options):
    options = {"ratios": RATIOS, "verify": False, **options}
    return prunus.analyze(model, IMAGE, work, study=path, **options)


def table(study):
    return {cell.key: cell.metric for cell in study.cells}


def interrupted(model, metric, path, data=DATA, error=KeyboardInterrupt, **options):
    with pytest.raises(error):
        analyze(model, prunus.Evaluation(data, metric), path, **options)


# What is measured.


def test_the_table_is_the_naive_loops(model, tmp_path):
    study = analyze(model, prunus.Evaluation(DATA), tmp_path / "a.study", verify=True)
    whole, cells = naive(model, IMAGE, DATA, top(1), study)
    assert study.baseline == whole
    assert table(study) == cells
    assert len(cells) == CELLS
    assert study.complete
    assert {cell.kind for cell in study.cells} == {"exact"}
    assert {cell.samples for cell in study.cells} == {17}
    assert study.header.note == ""


def test_every_weight_of_a_group_has_its_losses(model, tmp_path):
    study = analyze(model, prunus.Evaluation(DATA, squares, higher_is_better=False), tmp_path / "a")
    found = study.sensitivities()
    assert set(found) == {"a.weight", "b.weight"}
    for cell in study.cells:
        assert study.loss(cell) == (cell.metric - study.baseline) / study.baseline


@pytest.mark.parametrize("k", [1, 5])
def test_a_loss_and_a_named_metric(model, tmp_path, k):
    data = batches(5, 4, classes=8)
    model.head = nn.Linear(12, 8)
    study = analyze(model, prunus.Evaluation(data, f"top{k}"), tmp_path / "a")
    assert (study.baseline, table(study)) == naive(model, IMAGE, data, top(k), study)


def test_a_loss_is_better_when_lower(model, tmp_path):
    work = prunus.Evaluation(DATA, squares, higher_is_better=False)
    study = analyze(model, work, tmp_path / "a")
    whole, cells = naive(model, IMAGE, DATA, squares, study)
    assert study.baseline == pytest.approx(whole, rel=1e-6)
    assert table(study) == pytest.approx(cells, rel=1e-6)
    assert not study.higher_is_better


def test_a_criterion_and_an_align_choose_the_channels(model, tmp_path):
    study = analyze(model, prunus.Evaluation(DATA), tmp_path / "a", criterion="l2", align=4)
    assert study.asked == {"a.weight": {0.3: 0, 0.6: 4}, "b.weight": {0.3: 4, 0.6: 8}}
    assert study.cell("a.weight", 0).kind == "nothing"
    expected = naive(model, IMAGE, DATA, top(1), study, criterion="l2", align=4)[1]
    assert {key: value for key, value in table(study).items() if value is not None} == expected
    assert study.header.identity.options == {"align": 4}
    assert study.header.identity.criterion == "l2"


def test_random_channels_are_recorded_with_their_seed(model, tmp_path):
    work = prunus.Evaluation(DATA, squares)
    study = analyze(model, work, tmp_path / "a", criterion="random", seed=3)
    expected = naive(model, IMAGE, DATA, squares, study, criterion="random", seed=3)[1]
    assert table(study) == pytest.approx(expected, rel=1e-6)
    assert study.header.identity.options == {"align": 1, "seed": 3}


def test_one_ratio_and_one_name_will_do(model, tmp_path):
    study = analyze(model, prunus.Evaluation(DATA), tmp_path / "a", ratios=0.5, params="a.weight")
    assert study.asked == {"a.weight": {0.5: 4}}


def test_recalibrated_models_are_the_naive_loops(model, tmp_path):
    from prunus.backends.torch.recalibrate import recalibrate

    learned = [one for one, _ in batches(6, 6, seed=5)]
    work = prunus.Evaluation(DATA, squares)
    study = analyze(model, work, tmp_path / "a", recalibrate=learned)
    plain = analyze(model, work, tmp_path / "b")
    whole, cells = naive(
        model, IMAGE, DATA, squares, study, change=lambda net: recalibrate(net, learned)
    )
    assert study.baseline == pytest.approx(whole, rel=1e-6)
    assert table(study) == pytest.approx(cells, rel=1e-6)
    assert table(study) != pytest.approx(table(plain), rel=1e-3)
    assert study.header.identity.options["recalibrate"] == "2 batches"
    with pytest.raises(StudyMismatchError, match=r"option 'recalibrate'.*\(not set\) in the study"):
        analyze(model, work, tmp_path / "b", recalibrate=learned)


@pytest.mark.parametrize("given", [[], iter(DATA)], ids=["none", "iterator"])
def test_batches_to_recalibrate_on_that_are_none_are_refused(model, tmp_path, given):
    with pytest.raises(EvaluationError, match="no batch that can be read for each cut model anew"):
        analyze(model, prunus.Evaluation(DATA), tmp_path / "a", recalibrate=given)


def test_a_narrower_precision_is_recorded(model, tmp_path):
    work = prunus.Evaluation(DATA, squares)
    plain = analyze(model, work, tmp_path / "a")
    study = analyze(model, work, tmp_path / "b", precision="bfloat16")
    assert study.header.identity.options == {"align": 1, "precision": "bfloat16"}
    assert table(study) == pytest.approx(table(plain), rel=0.1)
    assert table(study) != pytest.approx(table(plain), rel=1e-6)
    with pytest.raises(StudyMismatchError, match=r"option 'precision': bfloat16 in the study"):
        analyze(model, work, tmp_path / "b")


def test_a_precision_that_does_not_exist_is_refused(model, tmp_path):
    with pytest.raises(PrunusError, match=r"no precision 'int8'\n  fix: .*bfloat16, float16"):
        analyze(model, prunus.Evaluation(DATA), tmp_path / "a", precision="int8")


def test_precision_and_recalibration_exclude_each_other(model, tmp_path):
    message = "run in their own precision, and not in bfloat16\n  fix: leave out precision="
    with pytest.raises(PrunusError, match=message):
        analyze(
            model,
            prunus.Evaluation(DATA),
            tmp_path / "a",
            precision="bfloat16",
            recalibrate=[DATA[0][0]],
        )


# What the user is told.


def test_a_first_look_is_kept_apart_and_correlated(model, tmp_path):
    def loss(output, batch):
        return nn.functional.cross_entropy(output, batch[1])

    model.train()
    model.a.weight.requires_grad_(False)
    model.b.weight.grad = torch.ones_like(model.b.weight)
    before = fingerprint(model)
    work = prunus.Evaluation(DATA, squares, higher_is_better=False, loss=loss)
    study = analyze(model, work, tmp_path / "a", estimate=True)
    assert fingerprint(model) == before
    assert set(study.estimates) == {"taylor"}
    assert set(study.estimates["taylor"]) == set(table(study))
    assert -1 <= study.rank_correlation("taylor") <= 1
    assert table(study) == table(analyze(model, work, tmp_path / "b"))


def test_a_first_look_is_taken_once(model, tmp_path):
    counts = []

    def loss(output, batch):
        counts.append(1)
        return nn.functional.cross_entropy(output, batch[1])

    work = prunus.Evaluation(DATA, squares, loss=loss)
    for ratios in (RATIOS, RATIOS, (*RATIOS, 0.9)):
        analyze(model, work, tmp_path / "a", estimate=True, ratios=ratios)
        counts.append(0)
    assert counts == [1, 1, 0, 0, 1, 1, 0]


def test_the_group_that_is_predicted_to_lose_most_goes_first(model, tmp_path):
    seen = []

    def stop(net):
        seen.append((net.a.out_channels, net.b.out_channels))
        return 0.5

    analyze(model, stop, tmp_path / "a")
    assert seen == [(8, 12), (6, 12), (3, 12), (8, 8), (8, 5)]


def test_progress_is_told(model, tmp_path):
    ticks = []
    analyze(model, prunus.Evaluation(DATA), tmp_path / "a", progress=ticks.append)
    last = ticks[-1]
    assert (last.stage, last.done, last.total, last.unit) == ("measuring", 3, 3, "batches")
    assert {name for name, _ in last.worst} == {"a.weight", "b.weight"}


class Unlike(nn.Module):
    """What export sees is not what runs: no program of it can be right."""

    def __init__(self):
        super().__init__()
        self.inner = Chain()

    def forward(self, x):
        y = self.inner(x)
        return y if torch.compiler.is_compiling() else y + 1


def test_a_model_whose_program_is_wrong_is_run_whole_and_the_study_says_so(tmp_path):
    model = Unlike()
    study = analyze(model, prunus.Evaluation(DATA, squares), tmp_path / "a")
    assert table(study) == naive(model, IMAGE, DATA, squares, study)[1]
    message = "whole models ran, which is slower, for the program cannot be used: it is off by "
    assert study.header.note.startswith(message)
    assert f"note: {message}" in study.table()
    again = analyze(model, prunus.Evaluation(DATA, squares), tmp_path / "a", ratios=(0.4,))
    assert again.header.note.count("whole models ran") == 1
    assert prunus.Study.open(tmp_path / "a").header.note == again.header.note


class Keywords(Chain):
    """Takes its input by ** alone, where export knows no free batch size."""

    def forward(self, **given):
        return super().forward(given["x"])


def test_a_model_whose_program_cannot_be_made_is_run_whole(tmp_path):
    model = Keywords()
    data = [({"x": x}, y) for x, y in DATA]
    work = prunus.Evaluation(data, squares)
    study = prunus.analyze(
        model, {"x": IMAGE}, work, study=tmp_path / "a", ratios=RATIOS, verify=False
    )
    expected = naive(model, {"x": IMAGE}, data, squares, study)
    assert (study.baseline, table(study)) == expected
    assert "which is slower, for the program cannot be used: TraceError" in study.header.note


# What is refused.


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


# Metrics that give no number, and cuts that fail.


def test_a_baseline_of_zero_is_said(model, tmp_path):
    data = [(x, torch.zeros_like(y)) for x, y in DATA]
    with torch.no_grad():
        model.head.bias[0] -= 1e3
    study = analyze(model, prunus.Evaluation(data), tmp_path / "a")
    assert study.baseline == 0
    assert "the baseline is 0" in study.caveat
    assert all(study.absolute_loss(cell) == 0 for cell in study.cells)


def test_a_metric_that_is_no_number_is_kept_as_such(model, tmp_path):
    def broken(output, batch):
        return torch.full((len(output),), math.nan)

    study = analyze(model, prunus.Evaluation(DATA, broken), tmp_path / "a")
    assert math.isnan(study.baseline)
    assert "the baseline is nan" in study.caveat
    assert all(math.isnan(cell.metric) and cell.kind == "exact" for cell in study.cells)
    assert all(math.isnan(metric) for metric in table(prunus.Study.open(tmp_path / "a")).values())


class Brittle(Chain):
    """Does not run with fewer than four channels of `a`, and is no program that would."""

    def forward(self, **given):
        y = self.norm(self.a(given["x"])).relu()
        if y.shape[1] < 4:
            raise ValueError("four channels are needed")
        return self.head(self.drop(self.b(y).relu().mean((2, 3))))


@pytest.mark.parametrize("verify", [False, True])
@pytest.mark.parametrize("opaque", [False, True])
def test_a_cut_model_that_fails_is_a_result_with_its_reason(tmp_path, opaque, verify):
    model, data = Brittle(), [({"x": x}, y) for x, y in DATA]

    def evaluate(net):
        with torch.no_grad():
            return float(net(**data[0][0]).sum())

    def run(ratios):
        work = evaluate if opaque else prunus.Evaluation(data, squares)
        example = {"x": IMAGE}
        path = tmp_path / "a"
        return prunus.analyze(model, example, work, study=path, ratios=ratios, verify=verify)

    study = run(RATIOS)
    kinds = {cell.key: cell.kind for cell in study.cells}
    assert kinds["a.weight", 5] == "failed"
    assert kinds["b.weight", 4] == kinds["b.weight", 7] == "exact"
    note = study.cell("a.weight", 5).note
    # The cut model does not run as it is, and no trace of it can be made either.
    assert "'x' reaches it through **" in note
    assert f"! group 'a.weight' with 5 channels removed: {note}" in study.table()
    assert study.cell("a.weight", 2).kind == ("failed" if verify else "exact")
    assert run((0.3,)).cell("a.weight", 2).kind == "exact"


def reversed_norms(node, view):
    """A rule of the user's that is wrong: the last channel goes with the first weight."""
    (x,), (y,) = node.inputs, node.outputs
    for axis in range(4):
        yield Couple(Dim(x, axis), Dim(y, axis))
    for tensor in node.params.values():
        yield Couple(Dim(tensor, 0), Dim(y, 1), None, np.arange(view.shape(tensor)[0])[::-1])


def test_a_group_that_is_cut_wrongly_fails_and_the_others_are_measured(model, tmp_path):
    model.norm.running_var.copy_(torch.rand(8) + 0.1)
    rules = {**prunus.default_rules(), "batch_norm": reversed_norms}
    metric = Counted(squares)
    work = prunus.Evaluation(DATA, metric)
    study = analyze(model, work, tmp_path / "a", rules=rules, verify=True)
    kinds = {cell.key: cell.kind for cell in study.cells}
    assert kinds == {
        ("a.weight", 2): "failed",
        ("a.weight", 5): "failed",
        ("b.weight", 4): "exact",
        ("b.weight", 7): "exact",
    }
    assert "the cut model stops computing what" in study.cell("a.weight", 2).note
    assert len(metric.calls) == 3 * 3
    expected = naive(model, IMAGE, DATA, squares, study)[1]
    assert study.cell("b.weight", 4).metric == pytest.approx(expected["b.weight", 4], rel=1e-6)


def test_shards_are_the_whole_when_they_are_merged(model, tmp_path):
    work = prunus.Evaluation(DATA, squares)
    whole = analyze(model, work, tmp_path / "whole")
    parts = []
    for k in (1, 2, 3):
        part = analyze(model, work, tmp_path / f"{k}", shard=(k, 3))
        assert part.asked == whole.asked
        parts.append({cell.group for cell in part.cells})
    assert parts == [{"a.weight"}, {"b.weight"}, set()]
    merged = prunus.merge([tmp_path / "1", tmp_path / "2", tmp_path / "3"], tmp_path / "all")
    assert (merged.baseline, table(merged)) == (whole.baseline, table(whole))
    assert merged.complete


# Nothing is lost, nothing is measured twice.


@pytest.mark.parametrize("stop", [3, 9])
def test_what_was_read_before_an_interruption_is_not_read_again(model, tmp_path, stop):
    path = tmp_path / "a"
    expected = analyze(model, prunus.Evaluation(DATA, Counted(squares)), tmp_path / "b")
    first, second = Counted(squares, stop), Counted(squares)
    interrupted(model, first, path)
    study = analyze(model, prunus.Evaluation(DATA, second), path)
    assert table(study) == table(expected)
    assert study.baseline == expected.baseline
    finished = stop // (CELLS + 1)  # batches that were written
    assert len(second.calls) == (3 - finished) * (CELLS + 1)
    third = Counted(squares)
    assert table(analyze(model, prunus.Evaluation(DATA, third), path)) == table(study)
    assert not third.calls


def test_new_ratios_and_params_are_added_to_a_finished_study(model, tmp_path):
    metric = Counted(squares)
    work = prunus.Evaluation(DATA, metric)
    analyze(model, work, tmp_path / "a", params=["a.weight"], ratios=(0.3,))
    assert len(metric.calls) == 3 * 2
    analyze(model, work, tmp_path / "a", params=["a.weight"])
    assert len(metric.calls) == 3 * 2 + 3 * 2  # the new cell, and what the program runs anyway
    study = analyze(model, work, tmp_path / "a")
    assert len(metric.calls) == 3 * 2 + 3 * 2 + 3 * 3
    assert study.complete
    assert table(study) == table(analyze(model, work, tmp_path / "b"))


def test_an_adaptive_analysis_goes_on_where_it_was(model, tmp_path):
    data = batches(*[90] * 4)
    options = {"adaptive": 0.2}
    expected_calls, first, second = Counted(top(1)), Counted(top(1), 9), Counted(top(1))

    def work(metric):
        return prunus.Evaluation(data, metric, bounds=(0, 1))

    expected = analyze(model, work(expected_calls), tmp_path / "b", **options)
    with pytest.raises(KeyboardInterrupt):
        analyze(model, work(first), tmp_path / "a", **options)
    study = analyze(model, work(second), tmp_path / "a", **options)
    assert table(study) == table(expected)
    assert [(cell.low, cell.high, cell.samples) for cell in study.cells] == [
        (cell.low, cell.high, cell.samples) for cell in expected.cells
    ]
    # 4 batches for the baseline; of the next, one reading of the whole and of 4 cells.
    assert len(second.calls) == len(expected_calls.calls) - 9
    third = Counted(top(1))
    assert table(analyze(model, work(third), tmp_path / "a", **options)) == table(study)
    assert not third.calls


def test_an_adaptive_study_is_gone_on_with_more_closely_and_then_exactly(model, tmp_path):
    work = prunus.Evaluation(batches(*[100] * 5), "top1")
    wide = analyze(model, work, tmp_path / "a", adaptive=0.9)
    narrow = analyze(model, work, tmp_path / "a", adaptive=0.3)
    exact = analyze(model, work, tmp_path / "a")
    assert {cell.kind for cell in wide.cells} == {"adaptive"}
    for one, other in zip(wide.cells, narrow.cells, strict=True):
        assert other.samples > one.samples
        assert other.high - other.low < one.high - one.low
    assert {cell.kind for cell in exact.cells} == {"exact"}
    assert table(exact) == table(analyze(model, work, tmp_path / "b"))


def test_exact_after_adaptive_takes_the_same_baseline_for_a_loss(model, tmp_path):
    data = batches(*[33] * 7)
    work = prunus.Evaluation(data, squares, higher_is_better=False, bounds=(0, 50))
    analyze(model, work, tmp_path / "a", adaptive=0.5)
    exact = analyze(model, work, tmp_path / "a")
    plain = analyze(model, work, tmp_path / "b")
    assert exact.baseline == pytest.approx(plain.baseline, rel=1e-6)
    assert table(exact) == pytest.approx(table(plain), rel=1e-6)


@pytest.mark.parametrize("stop", [0, 3])
def test_an_opaque_evaluation_goes_on_after_an_error_of_its_own(model, tmp_path, stop):
    calls = collections.Counter()
    broken = [stop]

    def evaluate(net):
        assert not net.training
        if broken and sum(calls.values()) == broken[0]:
            broken.clear()
            raise OSError("the disk is gone")
        calls[net.a.out_channels, net.b.out_channels] += 1
        with torch.no_grad():
            return float((net(DATA[0][0]).argmax(1) == DATA[0][1]).float().mean())

    model.train()
    before = fingerprint(model)
    with pytest.raises(OSError, match="the disk is gone"):
        analyze(model, evaluate, tmp_path / "a")
    assert fingerprint(model) == before
    study = analyze(model, evaluate, tmp_path / "a")
    assert fingerprint(model) == before
    assert calls == {(8, 12): 1, (6, 12): 1, (3, 12): 1, (8, 8): 1, (8, 5): 1}
    whole, cells = naive(model, IMAGE, DATA[:1], top(1), study)
    assert study.baseline == pytest.approx(whole)
    assert table(study) == pytest.approx(cells)


@pytest.mark.parametrize("value", [None, "good", torch.zeros(2), 10**400])
def test_an_opaque_evaluation_that_gives_no_number_is_refused(model, tmp_path, value):
    with pytest.raises(EvaluationError, match=r"evaluate returned .*which is no number") as told:
        analyze(model, lambda net: value, tmp_path / "a")
    assert "float(accuracy)" in told.value.fix


def test_the_users_model_is_as_it_was_also_when_the_metric_raises(model, tmp_path):
    model.train()
    model.norm.eval()
    model.a.weight.requires_grad_(False)
    before = fingerprint(model)
    interrupted(model, Counted(squares, 7, ValueError("no")), tmp_path / "a", error=ValueError)
    assert fingerprint(model) == before
    analyze(model, prunus.Evaluation(DATA, Counted(squares)), tmp_path / "a", verify=True)
    assert fingerprint(model) == before


def test_what_is_in_the_file_is_what_is_returned(model, tmp_path):
    study = analyze(model, prunus.Evaluation(DATA, name="digits"), tmp_path / "a")
    assert json.loads(prunus.Study.open(tmp_path / "a").to_json()) == json.loads(study.to_json())
    with Store.open(tmp_path / "a", readonly=True) as store:
        assert store.header.versions["torch"] == torch.__version__
    assert study.path == Path(tmp_path / "a")

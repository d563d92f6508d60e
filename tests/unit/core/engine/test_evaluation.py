"""What an evaluation may be made of, and how a batch is read."""

import pytest

from prunus.core.engine.evaluation import (
    Evaluation,
    Opaque,
    batches_of,
    inputs_of,
    name_of,
    target_of,
)
from prunus.core.errors import EvaluationError


class Metric:
    def update(self, output, target): ...
    def compute(self): ...
    def reset(self): ...


def scores(output, batch):
    return output


@pytest.mark.parametrize(
    ("given", "problem", "fix"),
    [
        ({"metric": "top3"}, "there is no metric 'top3'", "use one of 'top1', 'top5'"),
        ({"metric": 5}, "a int is no metric", 'give "top1"'),
        ({"batches": 5}, "a int is not made of batches", "give a loader"),
        ({"batches": iter([])}, "the batches are an iterator", "generator function itself"),
        ({"bounds": (1, 1)}, r"no score lies within bounds=\(1, 1\)", r"\(smallest, largest\)"),
    ],
)
def test_what_cannot_be_used_is_refused(given, problem, fix):
    with pytest.raises(EvaluationError, match=rf"^{problem}.*\n  fix: .*{fix}"):
        Evaluation(**{"batches": [], **given})


def test_a_function_evaluates_and_a_thing_does_not():
    assert Opaque(len).metric_name == "builtins.len"
    with pytest.raises(EvaluationError, match="a list evaluates no model\n  fix: pass prunus"):
        Opaque([])


@pytest.mark.parametrize(
    ("metric", "name"),
    [
        ("top1", "top1"),
        (scores, f"{__name__}.scores"),
        (Metric(), "Metric"),
        (Metric, f"{__name__}.Metric"),
    ],
)
def test_a_metric_has_a_name(metric, name):
    assert Evaluation([], metric).metric_name == name


def test_a_class_of_metrics_is_no_metric_with_a_state():
    assert Evaluation([], Metric()).is_object
    assert not Evaluation([], Metric).is_object
    assert Evaluation([], Metric(), key="map").metric_name == "Metric[map]"


def test_a_callable_object_is_named_by_its_class():
    class Scorer:
        def __call__(self, output, batch): ...

    assert name_of(Scorer()).endswith("Scorer")


def test_batches_come_from_lists_and_functions():
    def generated():
        yield 1
        yield 2

    assert list(batches_of(Evaluation([1, 2]))) == [1, 2]
    source = Evaluation(generated)
    assert list(batches_of(source)) == list(batches_of(source)) == [1, 2]


def test_inputs_are_the_first_of_a_batch():
    assert inputs_of([1, 2]) == 1
    assert inputs_of({"x": 1}) == {"x": 1}
    with pytest.raises(EvaluationError, match="a batch is empty\n  fix: leave empty batches out"):
        inputs_of([])


def test_targets_are_where_they_are_looked_for():
    plain = Evaluation([])
    assert target_of(plain, (1, 2)) == 2
    assert target_of(plain, {"x": 1, "labels": 3}) == 3
    assert target_of(Evaluation([], target=lambda batch: batch["z"]), {"z": 4}) == 4
    for batch in ((1,), {"x": 1}, 5):
        with pytest.raises(
            EvaluationError, match="no target is found in a batch that is a"
        ) as told:
            target_of(plain, batch)
        assert "target=lambda batch" in told.value.fix

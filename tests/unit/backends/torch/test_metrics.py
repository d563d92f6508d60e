"""Scores of outputs: one a sample, or a state; and what cannot be one is refused."""

import math

import numpy as np
import pytest
import torch

from prunus.backends.torch.metrics import mean_loss, metric_of, value_of
from prunus.core.engine.evaluation import Evaluation
from prunus.core.errors import EvaluationError

LOGITS = torch.tensor([[0.1, 0.9, 0.0], [0.9, 0.5, 0.1], [0.2, 0.3, 0.5]])
TARGET = torch.tensor([1, 1, 0])


def scores(metric, output, target, **options):
    return metric_of(Evaluation([], metric, **options)).scores(output, (None, target))


def test_top1_and_top5():
    assert scores("top1", LOGITS, TARGET).tolist() == [1, 0, 0]
    assert scores("top5", LOGITS, TARGET).tolist() == [1, 1, 1]
    many = torch.arange(8.0).repeat(2, 1)
    assert scores("top5", many, torch.tensor([2, 3])).tolist() == [0, 1]


def test_further_axes_are_averaged_by_sample():
    output = torch.zeros(2, 3, 2, 2)
    output[:, 1] = 1
    target = torch.tensor([[[1, 1], [1, 0]], [[0, 0], [0, 2]]])
    assert scores("top1", output, target).tolist() == [0.75, 0]
    assert scores("top5", output, target).tolist() == [1, 1]


def test_a_batch_without_samples_has_no_scores():
    assert scores("top1", LOGITS[:0], TARGET[:0]).shape == (0,)
    assert scores("top1", torch.zeros(0, 3, 2, 2), torch.zeros(0, 2, 2).long()).shape == (0,)


@pytest.mark.parametrize(
    ("output", "target", "problem", "fix"),
    [
        (
            torch.zeros(3),
            TARGET,
            r"needs an output of \(samples, classes\), .* gives \(3,\)",
            "out",
        ),
        ({"out": LOGITS}, TARGET, "and the model gives a dict", "forward=lambda"),
        (LOGITS, TARGET.float(), "a batch has a tensor of float32 and shape", "whole numbers"),
        (LOGITS, [1, 1, 0], "and a batch has a list", "whole numbers"),
        (LOGITS, TARGET[:2], r"goes with targets of \(3,\), and a batch has \(2,\)", "reshape"),
        (LOGITS, TARGET + 2, "a target lies outside of the 3 classes", "from 0"),
        (LOGITS, TARGET - 2, "a target lies outside of the 3 classes", "from 0"),
    ],
)
def test_what_has_no_classes_is_refused(output, target, problem, fix):
    with pytest.raises(EvaluationError, match=rf"metric 'top1'.*{problem}") as told:
        scores("top1", output, target)
    assert fix in told.value.fix


def unsure(output, target, tolerance, k=1):
    metric = metric_of(Evaluation([], f"top{k}"))
    return metric.unsure(torch.tensor(output), (None, torch.tensor(target)), tolerance)


def test_it_is_known_where_rounding_could_decide():
    assert unsure([[1.0, 1.0 + 1e-6, 0.0]], [0], 1e-5)
    assert unsure([[1.0, 1.0 + 1e-6, 0.0]], [1], 1e-5)
    assert not unsure([[1.0, 1.0 + 1e-6, 0.0]], [2], 1e-5)  # wrong, whichever of them is first
    assert not unsure([[1.0, 0.9, 0.0]], [0], 1e-5)
    assert unsure([[1.0, math.nan, 0.0]], [0], 1e-5)
    assert not unsure([[1.0]], [0], 1e-5)
    six = [6.0, 5.0, 4.0, 3.0, 2.0, 2.0 + 1e-7]
    assert unsure([six], [4], 1e-5, k=5)
    assert not unsure([six], [0], 1e-5, k=5)


def test_a_function_gives_one_score_a_sample():
    for given in (torch.ones(3, dtype=torch.bfloat16), [1, 1, 1], np.ones(3), [True] * 3):
        assert scores(lambda output, batch, given=given: given, LOGITS, TARGET).tolist() == [1] * 3
    tensor = torch.ones(3, requires_grad=True)
    assert scores(lambda output, batch: tensor, LOGITS, TARGET).dtype == np.float64


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (torch.tensor(0.5), "a float|a ndarray"),
        (0.5, "a float"),
        (torch.ones(2, 2), r"an array of shape \(2, 2\)"),
        (None, "a NoneType"),
        ("good", "a str"),
    ],
)
def test_a_function_that_does_not_is_refused(given, told):
    with pytest.raises(EvaluationError, match=rf"returned ({told}) for a batch\n  fix: return one"):
        scores(lambda output, batch: given, LOGITS, TARGET)


class Sum:
    def __init__(self):
        self.total = 5.0

    def reset(self):
        self.total = 0.0

    def update(self, output, target):
        self.total += float(output.sum() + target.sum())

    def compute(self):
        return {"sum": torch.tensor(self.total), "parts": [1, 2]}


def test_a_metric_with_a_state_is_copied():
    given = Sum()
    metric = metric_of(Evaluation([], given, key="sum"))
    one, other = metric.fresh(), metric.fresh()
    metric.update(one, LOGITS, (None, TARGET))
    assert metric.value(one) == pytest.approx(5.5)
    assert metric.value(other) == 0.0
    assert given.total == 5.0


def test_of_several_values_one_must_be_named():
    with pytest.raises(EvaluationError, match=r"which of them counts\n  fix: .*'a', 'b'"):
        value_of({"a": 1, "b": 2}, None, "m")
    with pytest.raises(EvaluationError, match=r"there is no 'c'\n  fix: .*'a', 'b'"):
        value_of({"a": 1, "b": 2}, "c", "m")
    assert value_of({"a": 1, "b": 2}, "b", "m") == 2.0
    for several in (torch.ones(2), [1, 2]):
        with pytest.raises(EvaluationError, match=r"'m' computes a .*, which is no number"):
            value_of(several, None, "m")


def test_the_loss_of_a_first_look():
    output = LOGITS.clone().requires_grad_()
    batch = (None, TARGET)
    expected = torch.nn.functional.cross_entropy(output, TARGET)
    assert torch.equal(mean_loss(Evaluation([], "top1"), output, batch), expected)
    own = Evaluation([], len, loss=lambda out, one: (out.sum(1) - one[1]).square())
    assert mean_loss(own, output, batch).ndim == 0
    with pytest.raises(
        EvaluationError, match=r"metric 'builtins\.len' has none .*\n  fix: .*loss="
    ):
        mean_loss(Evaluation([], len), output, batch)
    for dead in (torch.ones(3), 5.0):
        with pytest.raises(
            EvaluationError, match="through which no gradient flows\n  fix: compute"
        ):
            mean_loss(Evaluation([], len, loss=lambda out, one, dead=dead: dead), output, batch)

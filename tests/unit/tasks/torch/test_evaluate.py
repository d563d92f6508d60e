"""How good a model is."""

import copy

import pytest
import torch

from prunus.core.engine.evaluation import Evaluation
from prunus.core.errors import EvaluationError
from prunus.tasks import digits as whole_task
from prunus.tasks.torch.evaluate import evaluate

from .small import digits, small


@pytest.fixture(scope="module")
def data():
    return digits()


def test_the_share_that_is_right_and_nothing_changes(data):
    model = small().train()
    before = copy.deepcopy(model.state_dict())
    random = torch.random.get_rng_state()
    found = evaluate(model, Evaluation(data.test))
    assert model.training
    assert all(torch.equal(before[key], value) for key, value in model.state_dict().items())
    assert torch.equal(random, torch.random.get_rng_state())
    assert found == pytest.approx(whole_task.accuracy(model, whole_task.load()))
    assert found <= evaluate(model, Evaluation(data.test, "top5"))


class Count:
    def reset(self):
        self.seen = 0

    def update(self, output, target):
        self.seen += len(target)

    def compute(self):
        return {"seen": self.seen}


def test_functions_and_objects(data):
    mean = evaluate(small(), Evaluation(data.test, lambda output, batch: batch[1]))
    assert mean == pytest.approx(float(torch.cat([one for _, one in data.test]).float().mean()))
    assert evaluate(small(), Evaluation(data.test, Count(), key="seen")) == 360


def test_progress(data):
    seen = []
    evaluate(small(), Evaluation(data.test), progress=lambda *args: seen.append(args))
    assert seen == [(1, 3), (2, 3), (3, 3)]
    evaluate(small(), Evaluation(lambda: iter(data.test)), progress=lambda *args: seen.append(args))
    assert seen[-1] == (3, None)


def test_no_batches():
    with pytest.raises(EvaluationError, match="no batch to evaluate on"):
        evaluate(small(), Evaluation([]))


class Fails(Count):
    def update(self, output, target):
        raise KeyError("x")


@pytest.mark.parametrize("metric", [lambda output, batch: batch[5], Fails()])
def test_a_metric_that_fails(data, metric):
    with pytest.raises(EvaluationError, match=r"(?s)metric '.*' fails: (Index|Key)Error.*output"):
        evaluate(small(), Evaluation(data.test, metric))

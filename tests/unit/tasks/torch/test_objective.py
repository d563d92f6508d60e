"""The loss of a batch."""

from collections import namedtuple

import pytest
import torch
from torch import nn
from torch.nn import functional

from prunus.core.errors import TrainingError
from prunus.tasks.torch.objective import Objective

from .small import settings

LABELS = torch.tensor([0, 2])
IMAGES = torch.rand(2, 3)
SCORES = torch.tensor([[1.0, 2.0, 0.5], [0.0, -1.0, 4.0]])


def loss(output=SCORES, teacher=None, **given):
    return float(Objective(settings(**given), teacher).loss(output, IMAGES, LABELS))


def test_labels():
    assert loss() == pytest.approx(float(functional.cross_entropy(SCORES, LABELS)))
    smoothed = functional.cross_entropy(SCORES, LABELS, label_smoothing=0.2)
    assert loss(label_smoothing=0.2) == pytest.approx(float(smoothed))


class Teacher(nn.Module):
    def __init__(self, scores):
        super().__init__()
        self.scores = scores

    def forward(self, x):
        return self.scores


def test_a_teacher_by_hand():
    taught = torch.tensor([[0.0, 1.0, 1.0], [3.0, 1.0, 0.0]])
    p, q = (taught / 2).softmax(1), (SCORES / 2).softmax(1)
    distance = 4 * float((p * (p / q).log()).sum(1).mean())
    plain = float(functional.cross_entropy(SCORES, LABELS))
    for weight in (0.25, 1.0):
        given = {"distillation": {"weight": weight, "temperature": 2.0}}
        found = loss(teacher=Teacher(taught), **given)
        assert found == pytest.approx((1 - weight) * plain + weight * distance, rel=1e-5)
    same = {"distillation": {"weight": 1.0}}
    assert loss(teacher=Teacher(SCORES), **same) == pytest.approx(0, abs=1e-6)


def test_a_teacher_of_other_classes():
    with pytest.raises(TrainingError, match=r"teacher tells 2 classes apart, the model 3"):
        loss(teacher=Teacher(torch.ones(2, 2)), distillation={})


def test_models_that_give_more_while_they_are_trained():
    output = namedtuple("Output", ["logits", "aux"])(SCORES, None)
    assert loss(output) == loss()


@pytest.mark.parametrize(
    ("output", "told"),
    [
        (torch.ones(2, 3, 4), r"a tensor of shape \(2, 3, 4\)"),
        (torch.ones(5, 3), r"a tensor of shape \(5, 3\)"),
        ({"out": SCORES}, "a dict"),
    ],
)
def test_what_is_no_classifier(output, told):
    with pytest.raises(TrainingError, match=rf"(?s)for 2 images the model gives {told}.*own loop"):
        loss(output)

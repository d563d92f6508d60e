"""Really cut models, when asked for."""

import torch
from torch import nn

from prunus.backends.torch.builder import Builder, evaluation_mode
from prunus.core.study.cells import Key

A, B = Key("a", 1), Key("a", 2)


class Norm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.BatchNorm1d(width)


def builder(recalibrate=None):
    made = []

    def apply(width):
        made.append(width)
        return Norm(width)

    return Builder({A: 3, B: 2}, apply, recalibrate), made


def test_the_last_one_is_kept_and_only_that():
    build, made = builder()
    first = build(A)
    assert build(A) is first
    assert build(B) is not first
    assert build(A) is not first
    assert made == [3, 2, 3]


def test_what_is_built_is_in_evaluation_mode():
    build, _ = builder()
    assert not any(module.training for module in build(A).modules())


def test_statistics_are_computed_once_a_cell():
    calls = []

    def recalibrate(model):
        calls.append(len(model.norm.running_mean))
        model.norm.running_mean.fill_(len(calls))

    build, _ = builder(recalibrate)
    for key, mean in ((A, 1.0), (B, 2.0), (A, 1.0), (B, 2.0)):
        assert build(key).norm.running_mean.unique().tolist() == [mean]
    assert calls == [3, 2]


def test_an_eval_of_the_users_own_is_not_called():
    class Fuses(nn.Sequential):
        def eval(self):
            raise AssertionError("its branches would be fused for good")

    model = Fuses(nn.Dropout())
    assert not evaluation_mode(model)[0].training
    assert torch.equal(model(torch.ones(3)), torch.ones(3))

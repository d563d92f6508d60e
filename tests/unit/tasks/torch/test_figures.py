"""Models side by side, in numbers."""

import pytest
import torch
from torch import nn

import prunus
from prunus.core.engine.evaluation import Evaluation
from prunus.core.results import Cost
from prunus.tasks.torch.evaluate import evaluate
from prunus.tasks.torch.figures import figures
from prunus.tasks.torch.weights import save_weights

from .small import digits, small


@pytest.fixture(scope="module")
def pruned():
    return prunus.prune(small(), torch.rand(1, 1, 8, 8), 0.5)


def test_before_and_after_a_cut(pruned, tmp_path):
    model, evaluation = small(), Evaluation(digits().test)
    told = []
    before, after = figures(
        [model, pruned.model],
        torch.rand(1, 1, 8, 8),
        evaluation=evaluation,
        runs=2,
        threads=1,
        progress=lambda *args: told.append(args),
    )
    save_weights(pruned.model, tmp_path / "small.safetensors")
    assert after.file_bytes == (tmp_path / "small.safetensors").stat().st_size < before.file_bytes
    assert (before.numel, after.numel) == (pruned.before.numel, pruned.after.numel)
    assert (before.macs, after.macs) == (pruned.before.macs, pruned.after.macs)
    assert after.metric == evaluate(pruned.model, evaluation)
    assert list(after.latency) == ["torch", "onnxruntime"]
    assert after.missing == {}
    assert told == [(k, 6) for k in range(1, 7)]


def test_costs_that_are_known_and_nothing_to_judge_by(pruned):
    (found,) = figures(
        [pruned.model], torch.rand(1, 1, 8, 8), costs=[Cost(7, 8)], runtimes=(), runs=1
    )
    assert (found.macs, found.metric, found.latency) == (7, None, {})
    assert found.numel == pruned.after.numel


def test_what_cannot_be_measured_is_told():
    class Chooses(nn.Module):
        def __init__(self):
            super().__init__()
            self.line = nn.Linear(3, 2)

        def forward(self, x):
            return self.line(x) if x.sum().item() > 0 else -x

    (found,) = figures([Chooses()], torch.rand(1, 3), runs=1)
    assert (found.macs, found.numel) == (None, 8)
    assert sorted(found.missing) == ["macs", "onnxruntime"]
    assert "cannot be traced" in found.missing["macs"]

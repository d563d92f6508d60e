"""The backbone of a detector: the rest of it runs as it is, whoever evaluates."""

from __future__ import annotations

import pytest
import torch

import prunus
from prunus.core.study import database

from .detector import built

OPTIONS = {"within": "backbone", "ratios": (0.25, 0.5)}


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    torch.set_num_threads(1)
    torch.manual_seed(0)
    monkeypatch.setattr(database, "SYNCHRONOUS", "OFF")


def batches():
    generator = torch.Generator().manual_seed(1)
    for size in (2, 1):
        images = [torch.rand(3, 32, 32, generator=generator) for _ in range(size)]
        yield images, [{"boxes": torch.tensor([[4.0, 4.0, 20.0, 20.0]])} for _ in images]


def found(model, batch):
    """The whole detector, non-maximum suppression and all."""
    return model(batch[0])


def scores(output, batch):
    """One number an image: its mean score, and how far the first box is from the target."""
    return torch.stack(
        [
            one["scores"].mean() - (one["boxes"][:1] - target["boxes"]).abs().mean() / 100
            for one, target in zip(output, batch[1], strict=True)
        ]
    )


class Mean:
    """A metric with a state, as of detection: what `update` is given is lists."""

    def __init__(self):
        self.reset()

    def reset(self):
        self.values = []

    def update(self, output, target):
        self.values += scores(output, (None, target)).tolist()

    def compute(self):
        return sum(self.values) / len(self.values)


@torch.no_grad()
def naive(model, example, study):
    def measured(net):
        return float(torch.cat([scores(found(net, one), one) for one in batches()]).mean())

    cells = {}
    for group, counts in study.asked.items():
        for ratio, removed in counts.items():
            small = prunus.prune(model, example, {group: ratio}, within="backbone").model
            cells[group, removed] = measured(small.eval())
    return measured(model), cells


def table(study):
    return {cell.key: cell.metric for cell in study.cells}


def test_an_evaluation_whose_forward_calls_the_whole_detector(tmp_path):
    model = built()
    example = ([torch.rand(3, 32, 32), torch.rand(3, 32, 32)],)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    work = prunus.Evaluation(batches, scores, forward=found)
    study = prunus.analyze(model, example, work, study=tmp_path / "a", **OPTIONS)
    whole, cells = naive(model, example, study)
    assert study.baseline == pytest.approx(whole, rel=1e-5)
    assert table(study) == pytest.approx(cells, rel=1e-5)
    assert {cell.samples for cell in study.cells} == {3}
    assert study.header.identity.options["within"] == "backbone"
    assert [group.name for group in study.groups] == ["backbone.0.weight", "backbone.3.weight"]
    assert study.header.note == ""
    assert all(torch.equal(before[name], one) for name, one in model.state_dict().items())


def test_a_metric_with_a_state_counts_images(tmp_path):
    model = built()
    example = ([torch.rand(3, 32, 32)],)
    work = prunus.Evaluation(batches, Mean(), forward=found)
    study = prunus.analyze(model, example, work, study=tmp_path / "a", **OPTIONS)
    whole, cells = naive(model, example, study)
    assert study.baseline == pytest.approx(whole, rel=1e-5)
    assert table(study) == pytest.approx(cells, rel=1e-5)
    assert {cell.samples for cell in study.cells} == {3}


def test_an_opaque_evaluation_of_the_whole_detector(tmp_path):
    model = built()
    example = ([torch.rand(3, 32, 32)],)

    @torch.no_grad()
    def evaluate(net):
        return torch.cat([scores(found(net, one), one) for one in batches()]).mean()

    study = prunus.analyze(model, example, evaluate, study=tmp_path / "a", **OPTIONS)
    whole, cells = naive(model, example, study)
    assert study.baseline == pytest.approx(whole, rel=1e-6)
    assert table(study) == pytest.approx(cells, rel=1e-6)

"""Metrics of torchmetrics, which keep a state, give what they give in the naive loop."""

from __future__ import annotations

import importlib

import pytest
import torch

import prunus
from prunus.core.errors import EvaluationError, StudyConflictError
from prunus.core.study import database

from .detector import declare
from .test_exact_mode import CLASSES, Residual, Segments, classes, images, trained_a_little


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    torch.set_num_threads(1)
    torch.manual_seed(0)
    monkeypatch.setattr(database, "SYNCHRONOUS", "OFF")


@pytest.fixture(scope="module")
def metrics():
    declare()  # torchmetrics imports torchvision where that is installed
    return importlib.import_module("torchmetrics.classification")


@torch.no_grad()
def naive(model, data, metric, study, example):
    def measured(net):
        metric.reset()
        for inputs, target in data:
            metric.update(net.eval()(inputs), target)
        return float(metric.compute())

    cells = {}
    for group, counts in study.asked.items():
        for ratio, removed in counts.items():
            small = prunus.prune(model, example, {group: ratio}, verify=False).model
            cells[group, removed] = measured(small)
    return measured(model), cells


def analyzed(model, data, metric, path, **options):
    work = prunus.Evaluation(data, metric)
    options = {"ratios": (0.3, 0.6), "verify": False, **options}
    return prunus.analyze(model, images(2), work, study=path, **options)


def test_macro_accuracy(metrics, tmp_path):
    model = trained_a_little(Residual(), images(4))
    data = [(images(size), classes(size)) for size in (9, 9, 4)]
    metric = metrics.MulticlassAccuracy(CLASSES, average="macro")
    metric.update(torch.randn(4, CLASSES), classes(4))
    before = float(metric.compute())
    study = analyzed(model, data, metric, tmp_path / "a")
    assert float(metric.compute()) == before
    whole, cells = naive(model, data, metric, study, images(2))
    assert study.baseline == pytest.approx(whole, rel=1e-6)
    assert {cell.key: cell.metric for cell in study.cells} == pytest.approx(cells, rel=1e-6)
    assert study.header.identity.metric == "MulticlassAccuracy"
    assert {cell.samples for cell in study.cells} == {22}
    more = analyzed(model, data, metric, tmp_path / "a", ratios=(0.3, 0.6, 0.9))
    assert len(more.cells) == len(study.cells) + len(study.groups)


def test_mean_intersection_over_union(metrics, tmp_path):
    model = trained_a_little(Segments(), images(4))
    data = [(images(size), torch.randint(0, CLASSES, (size, 8, 8))) for size in (5, 3)]
    metric = metrics.MulticlassJaccardIndex(CLASSES)
    study = analyzed(model, data, metric, tmp_path / "a")
    whole, cells = naive(model, data, metric, study, images(2))
    assert study.baseline == pytest.approx(whole, rel=1e-6)
    assert {cell.key: cell.metric for cell in study.cells} == pytest.approx(cells, rel=1e-6)


def test_several_values_need_a_name(metrics, tmp_path):
    from torchmetrics import MetricCollection

    model = Residual()
    data = [(images(5), classes(5))]
    several = MetricCollection(
        {"micro": metrics.MulticlassAccuracy(CLASSES, average="micro"),
         "macro": metrics.MulticlassAccuracy(CLASSES)}
    )  # fmt: skip
    message = "computes several values, and which of them counts\n  fix: .*'macro', 'micro'"
    with pytest.raises(EvaluationError, match=message):
        analyzed(model, data, several, tmp_path / "a")
    work = prunus.Evaluation(data, several, key="micro")
    study = prunus.analyze(model, images(2), work, study=tmp_path / "b", ratios=(0.5,))
    assert study.header.identity.metric == "MetricCollection[micro]"


def test_a_value_a_class_is_no_number(metrics, tmp_path):
    metric = metrics.MulticlassAccuracy(CLASSES, average=None)
    with pytest.raises(EvaluationError, match=r"computes a tensor .*which is no number") as told:
        analyzed(Residual(), [(images(5), classes(5))], metric, tmp_path / "a")
    assert "average='macro'" in told.value.fix


def test_a_metric_with_a_state_has_no_interval(metrics, tmp_path):
    metric = metrics.MulticlassAccuracy(CLASSES)
    with pytest.raises(EvaluationError, match="must be one score a sample"):
        analyzed(Residual(), [(images(5), classes(5))], metric, tmp_path / "a", adaptive=0.1)


def test_other_data_under_the_same_study_are_found(metrics, tmp_path):
    model = Residual()
    data = [(images(9), classes(9)), (images(9), classes(9))]
    metric = metrics.MulticlassAccuracy(CLASSES)
    analyzed(model, data, metric, tmp_path / "a")
    with torch.no_grad():
        changed = [data[0], (data[1][0], model.eval()(data[1][0]).argmax(1))]
    with pytest.raises(StudyConflictError, match="the baseline of"):
        analyzed(model, changed, metric, tmp_path / "a", ratios=(0.9,))

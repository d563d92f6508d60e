"""Metrics by name."""

import sys

import pytest

from prunus.core.errors import EvaluationError, UnknownNameError
from prunus.tasks.metrics import evaluation_of, load_metric
from prunus.tasks.settings import MetricSettings


@pytest.fixture
def module(tmp_path, monkeypatch):
    (tmp_path / "own_metrics.py").write_text(
        "def error(output, batch):\n"
        "    return [0.5] * len(batch[0])\n"
        "class Counter:\n"
        "    def update(self, output, target): self.count = 1\n"
        "    def compute(self): return self.count\n"
        "    def reset(self): self.count = 0\n"
        "class Needs:\n"
        "    def __init__(self, classes): pass\n"
        "ready = Counter()\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    yield "own_metrics"
    sys.modules.pop("own_metrics", None)


def test_named_metrics_stay_names():
    assert [load_metric(MetricSettings(name=one)) for one in ("top1", "top5")] == ["top1", "top5"]


def test_functions_objects_and_classes(module):
    assert load_metric(MetricSettings(name=f"{module}:error")).__name__ == "error"
    for name in ("Counter", "ready"):
        assert type(load_metric(MetricSettings(name=f"{module}:{name}"))).__name__ == "Counter"


def test_an_evaluation_has_what_the_settings_say(module):
    settings = MetricSettings(name=f"{module}:error", higher_is_better=False, key="all")
    found = evaluation_of([1, 2], settings, "digits")
    assert (found.higher_is_better, found.key, found.name) == (False, "all", "digits")
    assert found.batches == [1, 2]


def test_wrong_names_are_told(module):
    with pytest.raises(
        EvaluationError, match=r"(?s)no metric 'top2'.*use 'top[15]', 'top[15]', or MOD"
    ):
        load_metric(MetricSettings(name="top2"))
    with pytest.raises(UnknownNameError, match=r"(?s)has no 'eror'.*'error'"):
        load_metric(MetricSettings(name=f"{module}:eror"))


def test_a_class_that_needs_arguments_is_told(module):
    with pytest.raises(
        EvaluationError, match=r"(?s)without arguments: TypeError.*name that object"
    ):
        load_metric(MetricSettings(name=f"{module}:Needs"))

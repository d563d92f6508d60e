"""Latencies of real models; how long is not tested, but what runs and what is told."""

import sys

import pytest
import torch
from torch import nn

from prunus.core.errors import UnknownNameError
from prunus.tasks.latency import Latency
from prunus.tasks.torch.latency import latencies, threads_set

from .small import small


def test_each_model_in_each_runtime():
    models = [small().train(), small(seed=1)]
    found = latencies(models, torch.rand(5, 1, 8, 8), runs=3, threads=1)
    assert [list(one) for one in found] == [["torch", "onnxruntime"]] * 2
    for one in found:
        for runtime, told in one.items():
            assert (told.runtime, told.device, told.threads) == (runtime, "cpu", 1)
            assert told.runs == 3
            assert 0 < told.low <= told.median <= told.high
    assert models[0].training


class Listens(nn.Module):
    def __init__(self):
        super().__init__()
        self.shapes = set()
        self.threads = set()
        self.line = nn.Linear(3, 2)

    def forward(self, x, table):
        heard.append((tuple(x.shape), tuple(table.shape), torch.get_num_threads(), self.training))
        return self.line(x) * table[0, 0]


heard: list[object] = []


def test_it_is_one_image_in_evaluation_with_so_many_threads():
    heard.clear()
    example = {"x": torch.rand(5, 3), "table": torch.rand(7, 4)}
    latencies([Listens().train()], example, runtimes=["torch"], runs=2, threads=2)
    assert set(heard) == {((1, 3), (7, 4), 2, False)}
    assert torch.get_num_threads() == 1


def test_what_cannot_be_exported_has_a_reason():
    class Chooses(nn.Module):
        def forward(self, x):
            return x if x.sum().item() > 0 else -x

    (found,) = latencies([Chooses()], torch.rand(1, 3), runs=1)
    assert isinstance(found["torch"], Latency)
    assert found["onnxruntime"].startswith("the model cannot be exported: ")


def test_a_model_that_does_not_run_has_a_reason():
    (found,) = latencies([small()], torch.rand(1, 3, 8, 8), runs=1)
    assert found["torch"].startswith("the model does not run on one image: RuntimeError: ")
    assert found["onnxruntime"].startswith("the model cannot be exported: ")


def test_a_missing_runtime_has_the_line_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    (found,) = latencies([small()], torch.rand(1, 1, 8, 8), runtimes=["onnxruntime"])
    assert "'onnxruntime'" in found["onnxruntime"]
    assert "pip install 'prunus[onnx]'" in found["onnxruntime"]


def test_an_unknown_runtime():
    with pytest.raises(UnknownNameError, match=r"no runtime 'onnx'\n  fix: use 'onnxruntime'"):
        latencies([small()], torch.rand(1, 1, 8, 8), runtimes=["onnx"])


def test_threads_come_back():
    before = torch.get_num_threads()
    with threads_set(before + 1):
        assert torch.get_num_threads() == before + 1
    assert torch.get_num_threads() == before

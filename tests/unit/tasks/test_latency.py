"""Calls in turns, and what is told of them."""

import sys
import time

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from prunus.core.errors import MissingExtraError
from prunus.tasks.latency import in_turns, onnx_call, summary


@pytest.fixture
def clock(monkeypatch):
    """A clock that a call moves by what it says."""
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    return now


def test_calls_take_turns_and_the_first_are_not_counted(clock):
    order = []

    def call(name, seconds):
        def run():
            order.append(name)
            clock[0] += seconds

        return run

    found = in_turns({"a": call("a", 1.0), "b": call("b", 2.0)}, runs=3, seconds=99)
    assert found == {"a": [1.0] * 3, "b": [2.0] * 3}
    assert order == ["a", "b"] * (5 + 3)


@pytest.mark.parametrize(("seconds", "rounds"), [(0, 5), (7.5, 8), (99, 20)])
def test_slow_calls_are_measured_fewer_times(clock, seconds, rounds):
    def call():
        clock[0] += 1.0

    assert len(in_turns({1: call}, runs=20, seconds=seconds)[1]) == rounds


def test_nothing_to_measure():
    assert in_turns({}) == {}


def test_median_and_the_half_around_it():
    found = summary([9.0, 1.0, 2.0, 3.0, 4.0], "torch", "cpu", 2)
    assert (found.low, found.median, found.high) == (2, 3, 4)
    assert (found.runtime, found.device, found.threads, found.runs) == ("torch", "cpu", 2, 5)


def test_a_call_of_an_onnx_file(tmp_path):
    kind = TensorProto.FLOAT
    node = helper.make_node("Sub", ["x", "y"], ["z"])
    values = [helper.make_tensor_value_info(name, kind, [2]) for name in "xyz"]
    graph = helper.make_graph([node], "sub", values[:2], values[2:])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    onnx.save(made, tmp_path / "a.onnx")
    call = onnx_call(tmp_path / "a.onnx", [np.float32([3, 5]), np.float32([1, 1])], threads=1)
    assert call()[0].tolist() == [2, 4]


def test_onnx_runtime_is_asked_for(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(MissingExtraError, match=r"(?s)'onnxruntime'.*pip install 'prunus\[onnx\]'"):
        onnx_call(tmp_path / "a.onnx", [], 1)

"""Devices, optimisers and precision."""

import pytest
import torch
from torch import nn

from prunus.core.errors import TrainingError
from prunus.tasks.torch.optimizers import Precision, build_optimizer, device_of

from .small import settings, small

CPU = torch.device("cpu")


def test_devices(monkeypatch):
    assert device_of("cpu") == CPU
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert device_of("auto") == CPU
    with pytest.raises(TrainingError, match=r"(?s)no device 'cuda:1' here.*train\.device to auto"):
        device_of("cuda:1")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert device_of("auto") == torch.device("cuda")
    assert device_of("cuda:1") == torch.device("cuda:1")


@pytest.mark.parametrize("kind", ["sgd", "adamw"])
def test_vectors_are_not_pulled_to_zero(kind):
    model = small()
    found = build_optimizer(model, settings(optimizer=kind, weight_decay=0.3))
    pulled = {id(p): group["weight_decay"] for group in found.param_groups for p in group["params"]}
    expected = {"conv.weight": 0.3, "head.weight": 0.3}
    for name, one in model.named_parameters():
        if name != "scale":
            assert pulled.pop(id(one)) == expected.get(name, 0.0), name
    assert not pulled


def test_a_model_with_only_vectors_or_nothing_to_train():
    assert len(build_optimizer(nn.BatchNorm1d(3), settings()).param_groups) == 1
    with pytest.raises(TrainingError, match=r"(?s)no weight .* can be trained.*requires_grad_"):
        build_optimizer(nn.ReLU(), settings())


@pytest.mark.parametrize("dtype", [None, torch.bfloat16, torch.float16])
def test_steps_in_each_precision(dtype):
    model = nn.Linear(4, 1)
    precision = Precision(dtype is not None, CPU, dtype)
    assert precision.dtype is dtype
    assert precision.scaler.is_enabled() == (dtype is torch.float16)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    before = model.weight.detach().clone()
    for _ in range(3 if dtype is torch.float16 else 1):  # the first scales are too large
        with precision.autocast():
            output = model(torch.ones(2, 4))
            assert output.dtype is (dtype or torch.float32)
        precision.step(output.float().sum(), optimizer, model.parameters(), None)
    torch.testing.assert_close(model.weight, before - 0.2)


@pytest.mark.parametrize("dtype", [None, torch.float16])
def test_long_gradients_are_shortened(dtype):
    model = nn.Linear(4, 1, bias=False)
    precision = Precision(dtype is not None, CPU, dtype)
    optimizer = torch.optim.SGD(model.parameters(), 1.0)
    before = model.weight.detach().clone()
    precision.step(100 * model(torch.ones(1, 4)).sum(), optimizer, model.parameters(), 0.5)
    moved = (model.weight - before).norm()
    assert float(moved.detach()) == pytest.approx(0.5, rel=1e-4)


def test_half_precision_by_itself_is_for_gpus():
    assert Precision("auto", CPU).dtype is None
    assert Precision(False, CPU).dtype is None
    assert Precision(True, CPU).dtype is torch.bfloat16


@pytest.mark.parametrize(("modern", "dtype"), [(True, torch.bfloat16), (False, torch.float16)])
def test_a_gpu_computes_in_what_it_has(monkeypatch, modern, dtype):
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: modern)
    monkeypatch.setattr(torch.amp, "GradScaler", lambda device, enabled: (device, enabled))
    found = Precision("auto", torch.device("cuda"))
    assert found.dtype is dtype
    assert found.scaler == ("cuda", dtype is torch.float16)

"""Checkpoints: nothing in them is executed, and what is damaged is refused."""

import json
import random

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from prunus.core.errors import LoadError, TrainingError
from prunus.tasks.torch.checkpoint import (
    Checkpoint,
    Epoch,
    State,
    load_optimizer,
    optimizer_tensors,
    random_tensors,
    set_random,
    shapes_of,
)
from prunus.tasks.torch.training import CHECKPOINT, train

from .small import digits, settings, small

CPU = torch.device("cpu")


def test_what_is_written_is_what_is_read(tmp_path):
    path = tmp_path / "a"
    shared = torch.rand(3)
    tensors = {
        "model": {"x/y": shared, "z": shared},
        "average": {},
        "best": {"b": torch.ones(2).half()},
    }
    state = State(seed=1, step=3, best=1 / 3, history=[])
    state.history.append(Epoch(epoch=1, loss=0.1, metric=0.2, rate=1e-9, seconds=3.0))
    Checkpoint(tensors, state, {"train": {"a": [1, 2.5]}}).save(path)
    found = Checkpoint.load(path)
    assert found.state == state
    assert found.about == {"train": {"a": [1, 2.5]}}
    assert sorted(found.tensors) == ["best", "model"]
    assert torch.equal(found.tensors["model"]["x/y"], shared)
    assert torch.equal(found.tensors["model"]["z"], shared)
    assert found.tensors["best"]["b"].dtype == torch.float16


def test_random_numbers_go_on(tmp_path):
    def drawn():
        return random.random(), np.random.rand(), float(torch.rand(1)), random.gauss(0, 1)

    random.gauss(0, 1), np.random.randn()  # each keeps a second number for later
    state = State(seed=0)
    tensors = random_tensors(state, CPU)
    state = State.model_validate_json(state.model_dump_json())
    expected = drawn(), np.random.randn()
    random.seed(1), np.random.seed(1), torch.manual_seed(1)
    set_random(tmp_path, state, tensors, CPU)
    assert (drawn(), np.random.randn()) == expected


@pytest.mark.parametrize("kind", [torch.optim.AdamW, torch.optim.SGD])
def test_optimisers_remember(tmp_path, kind):
    def step(model, optimizer):
        optimizer.zero_grad()
        model(torch.ones(4, 1, 8, 8)).square().mean().backward()
        optimizer.step()

    models = [small().eval() for _ in range(2)]
    given = {"momentum": 0.9} if kind is torch.optim.SGD else {}
    optimizers = [kind(model.parameters(), 0.1, **given) for model in models]
    for _ in range(3):
        step(models[0], optimizers[0])
    models[1].load_state_dict(models[0].state_dict())
    written = {key: one.clone() for key, one in optimizer_tensors(optimizers[0]).items()}
    load_optimizer(tmp_path, optimizers[1], written)
    for model, optimizer in zip(models, optimizers, strict=True):
        step(model, optimizer)
    assert torch.equal(models[0].conv.weight, models[1].conv.weight)


def rewritten(path, change):
    """Write the checkpoint again with other tensors or another header."""
    with safe_open(path, framework="pt") as file:
        header = file.metadata()
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    change(tensors, header)
    save_file(tensors, path, header)


def other_state(**values):
    def change(_, header):
        header["state"] = json.dumps({**json.loads(header["state"]), **values})

    return change


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished")
    data = digits(batch_size=700)
    train(small(), data, settings(epochs=1, ema_decay=0.9), folder=folder)
    return data, (folder / CHECKPOINT).read_bytes()


@pytest.mark.parametrize(
    "change",
    [
        lambda tensors, header: header.pop("prunus_checkpoint"),
        lambda tensors, header: header.update(prunus_checkpoint="7"),
        lambda tensors, header: header.pop("state"),
        lambda tensors, header: header.update(state="{"),
        lambda tensors, header: header.update(about="[]"),
        other_state(step="many"),
        other_state(more=1),
        other_state(python=[1]),
        other_state(numpy=["MT19937", [1], 0, 0, 0.0]),
        lambda tensors, header: tensors.pop("random/cpu"),
        lambda tensors, header: tensors.update({"random/cpu": torch.zeros(3)}),
        lambda tensors, header: tensors.pop("model/conv.weight"),
        lambda tensors, header: tensors.update({"model/conv.weight": torch.zeros(5)}),
        lambda tensors, header: tensors.pop("average/conv.weight"),
        lambda tensors, header: tensors.update({"optimizer/x/y": torch.zeros(5)}),
    ],
)
def test_what_is_damaged_is_refused(finished, tmp_path, change):
    data, content = finished
    (tmp_path / CHECKPOINT).write_bytes(content)
    rewritten(tmp_path / CHECKPOINT, change)
    with pytest.raises(
        LoadError, match=r"(?s)is no checkpoint that this version can read.*remove it to start anew"
    ):
        train(small(), data, settings(epochs=1, ema_decay=0.9), folder=tmp_path)


@pytest.mark.parametrize("content", [b"", b"no tensors at all"])
def test_another_file_is_refused(finished, tmp_path, content):
    (tmp_path / CHECKPOINT).write_bytes(content)
    with pytest.raises(LoadError, match="is no checkpoint that this version can read"):
        train(small(), finished[0], settings(epochs=1, ema_decay=0.9), folder=tmp_path)


def test_the_first_difference_is_named(tmp_path):
    found = Checkpoint({}, State(seed=0), {"a": {"b": 1, "c": [1]}, "old": 2})
    found.check(tmp_path, {"old": 2, "a": {"b": 1, "c": [1]}})
    for about, told in (
        ({"a": {"b": 2, "c": [1]}, "old": 2}, "a.b was 1, and is 2 now"),
        ({"a": {"b": 1, "c": [1, 2]}, "old": 2}, r"a.c was \[1\], and is \[1, 2\] now"),
        ({"a": {"b": 1, "c": [1]}}, "old was 2, and is None now"),
    ):
        with pytest.raises(TrainingError, match=f"is of another training: {told}"):
            found.check(tmp_path, about)


def test_shapes():
    assert shapes_of(small())["head.weight"] == [10, 128]

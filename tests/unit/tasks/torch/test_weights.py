"""Weights from every kind of file; what does not fit is named, and changes nothing."""

import copy
import os
import pickle

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

import prunus
from prunus.core.errors import LoadError
from prunus.tasks.torch.weights import load_weights, save_weights, weights_size


def net(classes=3):
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(16, classes)
    )


def same(one, other):
    pairs = zip(one.state_dict().items(), other.state_dict().items(), strict=True)
    return all(a == b and torch.equal(x, y) for (a, x), (b, y) in pairs)


@pytest.fixture
def trained():
    model = net()
    model(torch.rand(8, 1, 4, 4))  # moves the statistics of the norm
    return model


def test_safetensors(trained, tmp_path):
    path = tmp_path / "w.safetensors"
    save_weights(trained, path)
    assert path.stat().st_size == weights_size(trained)
    model = net()
    assert load_weights(model, path) is model
    assert same(model, trained)


@pytest.mark.parametrize(
    "wrap",
    [
        lambda state: state,
        lambda state: {"state_dict": state, "epoch": 3},
        lambda state: {"model": {"module." + key: value for key, value in state.items()}},
        lambda state: {"module._orig_mod." + key: value for key, value in state.items()},
        lambda state: {"state_dict": {"model." + key: value for key, value in state.items()}},
        lambda state: {k: v for k, v in state.items() if "num_batches" not in k},
    ],
    ids=["plain", "nested", "data parallel", "compiled", "lightning", "old"],
)
@pytest.mark.parametrize("zipped", [True, False])
def test_files_of_torch_save(trained, tmp_path, wrap, zipped):
    path = tmp_path / "w.pth"
    trained[1].num_batches_tracked.zero_()
    torch.save(wrap(trained.state_dict()), path, _use_new_zipfile_serialization=zipped)
    assert same(load_weights(net(), path), trained)


def test_a_model_whose_own_names_begin_like_a_wrapper(tmp_path):
    holder = nn.ModuleDict({"model": net()})
    torch.save(holder.state_dict(), tmp_path / "w.pth")
    again = nn.ModuleDict({"model": net()})
    assert same(load_weights(again, tmp_path / "w.pth"), holder)


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.other = nn.Linear(4, 4), nn.Linear(4, 4)
        self.other.weight = self.one.weight


def test_tied_weights_are_written_once(tmp_path):
    model = Tied()
    save_weights(model, tmp_path / "w.safetensors")
    assert sorted(load_file(tmp_path / "w.safetensors")) == ["one.bias", "one.weight", "other.bias"]
    again = load_weights(Tied(), tmp_path / "w.safetensors")
    assert same(again, model)
    assert again.one.weight is again.other.weight


def test_a_cut_model_comes_back_cut(tmp_path):
    model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Conv2d(8, 2, 1))
    fresh = copy.deepcopy(model)
    pruned = prunus.prune(model, torch.rand(1, 1, 5, 5), 0.5)
    prunus.save(pruned, tmp_path / "small.safetensors")
    assert same(load_weights(fresh, tmp_path / "small.safetensors"), pruned.model)


class Hostile:
    def __reduce__(self):
        return os.system, ("touch i-was-here",)


@pytest.mark.parametrize("zipped", [True, False])
def test_a_hostile_file_is_refused_and_runs_nothing(trained, tmp_path, monkeypatch, zipped):
    monkeypatch.chdir(tmp_path)
    state = {**trained.state_dict(), "extra": Hostile()}
    torch.save(state, tmp_path / "w.pth", _use_new_zipfile_serialization=zipped)
    model = net()
    before = copy.deepcopy(model)
    with pytest.raises(
        LoadError, match=r"(?s)holds more than tensors.*system.*fix: where you trust the file"
    ):
        load_weights(model, tmp_path / "w.pth")
    assert same(model, before)
    assert not (tmp_path / "i-was-here").exists()


def test_a_bare_pickle_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "w.pkl").write_bytes(pickle.dumps({"a": Hostile()}))
    with pytest.raises(LoadError, match=r"w\.pkl' (holds more than|cannot be read)"):
        load_weights(net(), tmp_path / "w.pkl")
    assert not (tmp_path / "i-was-here").exists()


@pytest.mark.parametrize("content", [b"", b"hello world, no tensors", b"PK\x03\x04 half a zip"])
def test_a_damaged_file_is_told(tmp_path, content):
    (tmp_path / "w").write_bytes(content)
    with pytest.raises(LoadError, match=r"(?s)'.*w' cannot be read as weights: .*copied whole"):
        load_weights(net(), tmp_path / "w")


def test_no_file_is_told(tmp_path):
    with pytest.raises(LoadError, match=r"(?s)there is no file of weights '.*none\.pth'"):
        load_weights(net(), tmp_path / "none.pth")


@pytest.mark.parametrize("content", [{"epoch": 3}, [1, 2]])
def test_a_file_without_weights_is_told(tmp_path, content):
    torch.save(content, tmp_path / "w.pth")
    with pytest.raises(LoadError, match=r"(?s)holds no weights: it is a (dict with 'epoch'|list)"):
        load_weights(net(), tmp_path / "w.pth")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda state: state.pop("0.bias"), r"the file lacks '0\.bias'.*nearest.*'3\.bias'"),
        (
            lambda state: state.update(x=torch.ones(1), y=torch.ones(1)),
            "model lacks 'x' and 1 more",
        ),
        (
            lambda state: state.update({"3.weight": torch.ones(5, 16), "3.bias": torch.ones(5)}),
            r"'3\.weight' is \(5, 16\) in the file and \(3, 16\) in the model, and 1 more differ"
            ".*number of classes differs, give it: model.arguments",
        ),
    ],
)
def test_what_does_not_fit_is_named_and_changes_nothing(trained, tmp_path, change, told):
    state = trained.state_dict()
    change(state)
    torch.save(state, tmp_path / "w.pth")
    model = net()
    before = copy.deepcopy(model)
    with pytest.raises(LoadError, match=f"(?s)does not fit the model: .*{told}"):
        load_weights(model, tmp_path / "w.pth")
    assert same(model, before)


def test_a_folder_that_cannot_be_written_to_is_told(trained, tmp_path):
    with pytest.raises(LoadError, match=r"(?s)cannot write '.*fix: choose a folder"):
        save_weights(trained, tmp_path / "none" / "w.safetensors")


class Picky(nn.Linear):
    def _load_from_state_dict(self, *_):
        raise RuntimeError("not these")


def test_a_model_that_refuses_weights_is_told(tmp_path):
    save_weights(nn.Linear(2, 2), tmp_path / "w.safetensors")
    with pytest.raises(LoadError, match="cannot be read as weights: RuntimeError: not these"):
        load_weights(Picky(2, 2), tmp_path / "w.safetensors")

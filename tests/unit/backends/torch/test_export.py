"""Models as files: checked beside the model, and written only where they compute the same."""

import sys

import numpy as np
import onnxruntime
import pytest
import torch
from torch import nn

import prunus
from prunus.backends.torch import export
from prunus.backends.torch.export import export_archive, export_onnx
from prunus.core.errors import ExportError, LoadError, MissingExtraError

from .nets import Chain, Fixed, fingerprint, image

BOTH = pytest.mark.parametrize(
    ("write", "name"), [(export_onnx, "model.onnx"), (export_archive, "model.pt2")]
)


def left(folder):
    return sorted(path.name for path in folder.iterdir())


@BOTH
@pytest.mark.parametrize("cut", ["whole", "module", "traced"])
def test_what_is_exported_computes_the_same(tmp_path, write, name, cut):
    model = Fixed() if cut == "traced" else Chain()
    if cut != "whole":
        pruned = prunus.prune(model, image(1, 4), 0.5)
        assert pruned.how == cut
        model = pruned.model
    example = image(1, 4)
    before = fingerprint(model.train())
    done = write(model, example, tmp_path / name)
    assert before == fingerprint(model)
    assert done.path == tmp_path / name
    assert done.size == (tmp_path / name).stat().st_size > 0
    assert 0 <= done.error < 1e-5
    assert (done.any_batch, done.note) == (True, "")
    assert left(tmp_path) == [name]


def test_an_onnx_file_runs_by_itself(tmp_path):
    model = Chain().eval()
    export_onnx(model, image(2, 4), tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    x = image(5, 4)
    (found,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    np.testing.assert_allclose(found, model(x).detach().numpy(), rtol=1e-3, atol=1e-5)


class Two(nn.Module):
    """Several inputs by keyword, whole numbers among them, and several outputs."""

    def __init__(self):
        super().__init__()
        self.table, self.line = nn.Embedding(5, 3), nn.Linear(3, 2)

    def forward(self, words, *, shift, scale=2.0):
        y = self.line(self.table(words) + shift)
        return {"a": y, "b": (y * scale, words)}


@BOTH
@pytest.mark.parametrize(
    "order", [("words", "shift"), ("shift", "words"), ("scale", "shift", "words")]
)
def test_several_inputs_and_outputs(tmp_path, write, name, order):
    given = {"words": torch.tensor([[1, 4]]), "shift": torch.rand(1, 2, 3), "scale": 3.0}
    example = {key: given[key] for key in order}
    done = write(Two(), example, tmp_path / name)
    assert done.error < 1e-5
    assert done.any_batch


class OneSize(nn.Module):
    def __init__(self):
        super().__init__()
        self.line = nn.Linear(3, 2)

    def forward(self, x):
        return self.line(x.reshape(2, 3))


@BOTH
def test_a_batch_size_that_is_fixed_is_told(tmp_path, write, name):
    done = write(OneSize(), torch.rand(2, 3), tmp_path / name)
    assert not done.any_batch
    assert done.error < 1e-5
    assert done.note.startswith("the model does not run on a batch of 1: RuntimeError: shape")


class Chooses(nn.Module):
    def forward(self, x):
        return x if x.sum().item() > 0 else -x


@BOTH
def test_what_cannot_be_exported_is_told(tmp_path, write, name):
    with pytest.raises(ExportError, match=r"(?s)cannot be exported: .*independent of the values"):
        write(Chooses(), torch.rand(2, 3), tmp_path / name)
    with pytest.raises(ExportError, match="does not run on this example"):
        write(Chain(), torch.rand(2, 7), tmp_path / name)
    assert left(tmp_path) == []


@BOTH
def test_a_file_that_computes_something_else_is_not_written(tmp_path, monkeypatch, write, name):
    (tmp_path / name).write_text("old")
    fresh = export._fresh

    def wrong(program, batch, seed):
        model.head.bias.data += 1  # the model is another one by now
        return fresh(program, batch, seed)

    model = Chain()
    monkeypatch.setattr(export, "_fresh", wrong)
    # The archive shares no memory with the model, for it was read from the file.
    with pytest.raises(ExportError, match=r"(?s)computes something else .* 0\.001 is allowed"):
        write(model, image(1, 4), tmp_path / name)
    assert (tmp_path / name).read_text() == "old"
    assert left(tmp_path) == [name]


def test_an_operator_that_onnx_lacks(tmp_path):
    class Odd(nn.Module):
        def forward(self, x):
            return torch.special.i1e(x)

    with pytest.raises(ExportError, match=r"(?s)cannot be written as onnx: .*other format"):
        export_onnx(Odd(), torch.rand(2, 3), tmp_path / "model.onnx")
    assert export_archive(Odd(), torch.rand(2, 3), tmp_path / "model.pt2").error == 0


@pytest.mark.parametrize("lacking", ["onnx", "onnxscript", "onnxruntime"])
def test_what_is_not_installed_is_asked_for(tmp_path, monkeypatch, lacking):
    monkeypatch.setitem(sys.modules, lacking, None)
    with pytest.raises(
        MissingExtraError, match=rf"(?s)without '{lacking}'.*pip install 'prunus\[onnx\]'"
    ):
        export_onnx(Chain(), image(1, 4), tmp_path / "model.onnx")


@BOTH
def test_a_folder_that_is_not_there(tmp_path, write, name):
    with pytest.raises(LoadError, match=r"(?s)cannot write .*fix: choose a folder that exists"):
        write(Chain(), image(1, 4), tmp_path / "none" / name)


class Compares(nn.Module):
    def forward(self, x):
        return x.sum(1) if x.shape[0] == 2 else x.mean(1)


@BOTH
def test_a_batch_size_that_is_compared_is_fixed(tmp_path, write, name):
    done = write(Compares(), torch.rand(2, 3), tmp_path / name)
    assert not done.any_batch
    assert done.note == "a number in the model depends on the batch size of the example"


def test_an_exporter_that_gives_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(torch.onnx, "export", lambda *_, **__: None)
    with pytest.raises(ExportError, match=r"cannot be written as onnx: .* returned nothing"):
        export_onnx(Chain(), image(1, 4), tmp_path / "model.onnx")


def test_a_file_that_loses_an_output(tmp_path, monkeypatch):
    monkeypatch.setattr(export, "_archive_runner", lambda path: lambda given: [])
    with pytest.raises(ExportError, match=r"(?s)gives 0 outputs, and the model 1.*tensors only"):
        export_archive(Chain(), image(1, 4), tmp_path / "model.pt2")
    assert left(tmp_path) == []


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_numbers_that_are_none_in_one_place_only_are_a_difference(bad):
    whole, torn = torch.tensor([1.0, 2.0]), torch.tensor([1.0, bad])
    assert export._gap(torn, whole) == export._gap(whole, torn) == float("inf")
    assert export._gap(torn, torn) == 0
    assert export._gap(whole, whole[:1]) == float("inf")
    assert export._gap(whole + 1, whole) == 0.5
    assert export._gap(torch.tensor([0.25]), torch.tensor([0.0])) == 0.25

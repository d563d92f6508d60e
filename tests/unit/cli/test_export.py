"""`prunus export`: the weights of the last step, in the format that the ending says."""

from __future__ import annotations

import json

import pytest

from .conftest import error_of, good

DIGITS = ("prunus.tasks.digits:network", "--shape", "1,1,8,8")


@pytest.mark.parametrize(("name", "kind"), [("m.onnx", "onnx"), ("m.pt2", "torch.export")])
def test_formats(tmp_path, name, kind):
    found = json.loads(good("export", *DIGITS, "-o", tmp_path / name, "--json").stdout)
    assert (found["format"], found["path"]) == (kind, str(tmp_path / name))
    assert found["size"] == (tmp_path / name).stat().st_size
    assert found["error"] < 1e-3


def test_the_weights_of_the_last_step(flow, tmp_path):
    result = good("export", flow.config, "-o", tmp_path / "m.onnx", "--weights", _trained(flow))
    assert result.stdout.splitlines()[0] == f"weights: {_trained(flow)}"
    assert "run and compared with the model" in result.stdout
    alone = good("export", flow.config, "-o", f"folder={flow.folder}", "-o", tmp_path / "n.onnx")
    steps = ("finetuned", "pruned", "trained")
    made = [flow.folder / "runs" / f"{step}.safetensors" for step in steps]
    assert alone.stdout.splitlines()[0].startswith("weights: ")
    last = next(path for path in made if path.is_file())
    result = good("export", flow.config, "-o", tmp_path / "o.onnx")
    assert result.stdout.splitlines()[0] == f"weights: {last}"


def _trained(flow):
    return flow.folder / "runs" / "trained.safetensors"


def test_an_ending_that_says_nothing(tmp_path):
    said = error_of("export", *DIGITS, "-o", tmp_path / "m.bin")
    assert "the ending of" in said
    assert "fix: end it with .onnx, or with .pt2" in said

"""`prunus finetune`: training goes on from the original's weights."""

from __future__ import annotations

import json

import prunus
from prunus.core.plan.plan import Plan
from prunus.tasks import digits

from .conftest import error_of, good


def test_what_it_says_and_leaves(flow):
    result = good("finetune", flow.config)
    lines = result.stdout.splitlines()
    assert lines[0].startswith("cut ")
    assert any(line.startswith("trained on for 2 epochs, ") for line in lines)
    assert any(line.startswith("parameters") for line in lines)
    path = flow.folder / "runs" / "finetuned.safetensors"
    assert f"the small model: {path}" in lines
    assert lines[-1] == f"next: prunus export {flow.config} -o small.onnx"
    small = prunus.load(digits.network(), path)
    plan = Plan.load(flow.plan_file)
    assert sum(one.numel() for one in small.parameters()) == plan.after.numel


def test_it_goes_on_where_it_was_and_the_original_may_teach(flow, tmp_path):
    options = ("--quick", "--json", "-o", f"finetune.folder={tmp_path / 'f'}")
    taught = (*options, "-o", "finetune.distillation.weight=0.5", "-o", tmp_path / "t.safetensors")
    first = json.loads(good("finetune", flow.config, *taught).stdout)
    assert (first["resumed_from"], first["model"]) == (0, str(tmp_path / "t.safetensors"))
    again = json.loads(good("finetune", flow.config, *taught).stdout)
    assert again["resumed_from"] == 46
    assert again["metric"] == first["metric"]
    fresh = json.loads(good("finetune", flow.config, *taught, "--fresh").stdout)
    assert fresh["resumed_from"] == 0


def test_without_a_plan(flow, tmp_path):
    said = error_of("finetune", flow.config, "-o", f"analysis.study={tmp_path / 's'}")
    assert "there is no plan" in said

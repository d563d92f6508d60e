"""`prunus prune`: by plan or by ratio, with data or without."""

from __future__ import annotations

import json

import pytest

import prunus
from prunus.core.plan.plan import Plan
from prunus.tasks import digits

from .conftest import error_of, good, run

DIGITS = ("prunus.tasks.digits:network", "--shape", "1,1,8,8")


def test_by_the_plan_beside_the_study(flow):
    result = good("prune", flow.config)
    lines = result.stdout.splitlines()
    removed = sum(one.removed for one in Plan.load(flow.plan_file).groups)
    assert lines[0].startswith(f"cut {removed} of ")
    assert lines[1].startswith("checked against the original with those channels zeroed")
    assert lines[2] == "batch norms: 8 learned their statistics anew"
    table = {line.split("  ")[0]: line for line in lines[3:]}
    assert {"file size", "parameters", "MACs", "top1"} <= set(table)
    assert any(name.startswith("latency, ONNX Runtime") for name in table)
    pruned = flow.folder / "runs" / "pruned.safetensors"
    assert f"the cut model: {pruned}" in lines
    assert lines[-1] == f"next: prunus finetune {flow.config}"
    small = prunus.load(digits.network(), pruned)
    plan = Plan.load(flow.plan_file)
    assert sum(one.numel() for one in small.parameters()) == plan.after.numel


def test_what_scripts_get(flow, tmp_path):
    out = tmp_path / "small.safetensors"
    options = ("--plan", flow.plan_file, "-o", out, "-o", "prune.recalibrate=0", "--json")
    found = json.loads(good("prune", flow.config, *options).stdout)
    plan = Plan.load(flow.plan_file)
    assert found["after"] == plan.after.as_dict()
    assert found["recalibrated"] == []
    assert found["model"] == str(out)
    assert found["error"] < 1e-9
    assert found["figures"]["after"]["numel"] == plan.after.numel
    assert found["groups"]["blocks.2.conv1.weight"][0] == 64


def test_a_model_without_a_file(tmp_path):
    out = tmp_path / "half.safetensors"
    result = good("prune", *DIGITS, "--ratio", "0.5", "-o", out)
    assert "cut 128 of 256 channels in 5 groups" in result.stdout
    assert "top1" not in result.stdout
    assert "next: train it on: model = prunus.load(" in result.stdout
    assert prunus.load(digits.network(), out).stem[0].weight.shape[0] == 16


def test_a_plan_brings_its_alignment_and_its_criterion(tmp_path):
    Plan({"stem.0.weight": 0.5}, align=12, criterion="random").save(tmp_path / "p.json")
    options = ("--plan", tmp_path / "p.json", "-o", tmp_path / "s", "--quick", "--json")
    found = json.loads(good("prune", *DIGITS, *options).stdout)
    assert found["groups"] == {"stem.0.weight": [32, 20]}
    found = json.loads(good("prune", *DIGITS, *options, "--align", "1", "--criterion", "l2").stdout)
    assert found["groups"] == {"stem.0.weight": [32, 16]}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "nothing says what to cut"),
        (("--plan", "p.json", "--ratio", "0.5"), "--plan and --ratio both say what to cut"),
    ],
)
def test_usage(options, message):
    result = run("prune", *DIGITS, *options)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.replace("│", " ").split())


def test_what_cannot_be_cut(flow, tmp_path):
    assert "'none.json' cannot be read as a plan" in error_of(
        "prune", *DIGITS, "--plan", "none.json"
    )
    assert "the ratio of 'all groups' is 1.5" in error_of("prune", *DIGITS, "--ratio", "1.5")
    said = error_of("prune", flow.config, "-o", f"folder={tmp_path}")
    assert said.startswith("error: there is no plan: neither --plan, nor a file")
    assert "fix: make one with: prunus plan " in said
    assert "-o names two files" in error_of("prune", *DIGITS, "-o", "a.st", "-o", "b.st")
    assert "sets a key of a YAML file" in error_of("prune", *DIGITS, "-o", "train.epochs=1")
    Plan({"stem.0.weight": 0.5}, criterion="mine.f").save(tmp_path / "p.json")
    good("prune", *DIGITS, "--plan", tmp_path / "p.json", "-o", tmp_path / "s", "--quick")

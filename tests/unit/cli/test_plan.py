"""`prunus plan`: the tables, the file, and wishes that cannot be."""

from __future__ import annotations

import json

import pytest

from prunus.core.plan.loss_rule import ratios_by_loss
from prunus.core.plan.plan import Plan
from prunus.core.study.study import Study

from .conftest import error_of, good


def test_what_it_says_and_leaves(flow):
    lines = flow.plan.stdout.splitlines()
    assert lines[0].split() == "group channels asked removed share left loss alone".split()
    assert lines[1].startswith("stem.0.weight ")
    assert "Beside other rules at that cost, the losses of the groups one by one:" in lines
    assert any(line.startswith("this plan  ") for line in lines)
    assert lines[-1] == f"next: prunus prune {flow.config} --plan {flow.plan_file}"
    plan = Plan.load(flow.plan_file)
    assert plan.after.macs <= 0.4 * plan.before.macs
    assert (plan.align, plan.asked) == (4, {"macs": 0.4})
    assert all((one.size - one.removed) % 4 == 0 for one in plan.groups)


def test_by_loss_and_as_json(flow, tmp_path):
    path = tmp_path / "plan.json"
    result = good("plan", flow.study, "--loss", "0.05", "-o", path, "--json")
    found = json.loads(result.stdout)
    expected = ratios_by_loss(Study.open(flow.study).sensitivities(), 0.05)
    assert found["ratios"] == {name: expected[name] for name in found["ratios"]}
    assert found["plan"] == str(path)
    assert found["next"] == f"prunus prune CONFIG --plan {path}"
    assert found["compared"][0]["rule"] == "this plan"


def test_both_budgets(flow, tmp_path):
    good("plan", flow.study, "--macs", "0.6", "--params", "0.5", "-o", tmp_path / "p.json")
    plan = Plan.load(tmp_path / "p.json")
    assert plan.after.numel <= 0.5 * plan.before.numel


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "needs either loss=, or macs= or params=, and got nothing"),
        (["--loss", "0.1", "--macs", "0.5"], "and got loss, macs"),
        (["--macs", "0.001"], "the budget is out of reach"),
        (["--macs", "50"], "macs=50.0 is no budget"),
        (["--loss", "0.1", "--align", "0"], "align is 0"),
        (["--loss", "0.1", "-o", "/proc/none/plan.json"], "cannot write '/proc/none/plan.json'"),
    ],
)
def test_a_wish_that_cannot_be(flow, options, message):
    assert message in error_of("plan", flow.study, *options)


def test_a_study_that_is_not_there(tmp_path):
    said = error_of("plan", tmp_path / "none.study", "--loss", "0.1")
    assert "none.study" in said
    assert "fix:" in said

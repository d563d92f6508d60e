"""`prunus report`: the table and the picture, without the model."""

from __future__ import annotations

import json

from .conftest import error_of, good


def test_the_table(flow):
    lines = good("report", flow.study).stdout.splitlines()
    assert lines[0].startswith("top1, baseline 0.")
    assert lines[-1] == f"next: prunus plan {flow.study} --macs 0.5"


def test_a_plan_beside_it(flow):
    result = good("report", flow.config, "--plan", flow.plan_file)
    assert "\ngroup  " in result.stdout
    assert "this plan" in result.stdout
    assert f"next: prunus prune {flow.config} --plan {flow.plan_file}" in result.stdout


def test_the_picture(flow, tmp_path):
    png = tmp_path / "curves.png"
    found = json.loads(
        good("report", flow.study, "--plan", flow.plan_file, "--png", png, "--json").stdout
    )
    assert png.read_bytes()[:4] == b"\x89PNG"
    assert found["png"] == str(png)
    assert found["plan"]["asked"] == {"macs": 0.4}
    assert (found["groups"], found["cells"], found["missing"]) == (5, 15, 0)


def test_what_cannot_be_reported(flow, tmp_path):
    assert "cannot be written as '.doc'" in error_of(
        "report", flow.study, "--png", tmp_path / "a.doc"
    )
    assert "cannot be read as a plan" in error_of("report", flow.study, "--plan", "none.json")
    assert "fix:" in error_of("report", tmp_path / "none.study")

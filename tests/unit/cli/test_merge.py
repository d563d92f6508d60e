"""`prunus merge`: what cannot be put together. What can: test_analyze.py."""

from __future__ import annotations

import json

from .conftest import error_of, good, run


def test_one_study_alone_is_a_copy(flow, tmp_path):
    found = json.loads(good("merge", flow.study, "-o", tmp_path / "c.study", "--json").stdout)
    assert (found["cells"], found["missing"]) == (15, 0)


def test_what_is_missing_is_said(flow, tmp_path):
    part = tmp_path / "part.study"
    good("analyze", flow.config, "--study", part, "--shard", "1/2")
    result = good("merge", part, "-o", tmp_path / "all.study")
    assert "next: run prunus analyze with the shards that are missing, or" in result.stdout


def test_what_cannot_be_merged(tmp_path):
    (tmp_path / "no.study").write_text("no study")
    assert "no.study" in error_of("merge", tmp_path / "no.study", "-o", tmp_path / "all")
    assert run("merge", "-o", tmp_path / "all").exit_code == 2
    assert run("merge", "a").exit_code == 2

"""`prunus analyze`: the table, the parts of the work, and interruptions."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from prunus import api
from prunus.core.study.store import Store
from prunus.core.study.study import Study

from .conftest import error_of, good, run


def test_what_it_says_and_leaves(flow):
    lines = flow.analyze.stdout.splitlines()
    assert lines[0].startswith("top1, baseline 0.")
    assert lines[1].split() == ["group", "size", "0.25", "0.5", "0.75"]
    assert lines[-1] == f"next: prunus plan {flow.study} --macs 0.5"
    assert "measuring (batches): 6 of 6" in flow.analyze.stderr
    study = Study.open(flow.study)
    assert study.complete
    assert study.header.costs


def test_a_finished_analysis_is_not_done_again(flow):
    found = json.loads(good("analyze", flow.config, "--json").stdout)
    assert (found["missing"], found["groups"], found["cells"]) == (0, 5, 15)
    assert set(found["sensitivities"]["stem.0.weight"]) == {"0.25", "0.5", "0.75"}


def test_options_of_the_command_line(flow, tmp_path):
    study = tmp_path / "deeper" / "some.study"
    result = good(
        "analyze", flow.config, "--study", study, "--params", "stem.*,blocks.0.*", "--ratios", "0.5"
    )
    assert f"next: prunus plan {study}" in result.stdout
    assert len(Study.open(study).cells) == 2


def test_parts_of_the_work_are_merged(flow, tmp_path):
    parts = [tmp_path / "1.study", tmp_path / "2.study"]
    for k, part in enumerate(parts, 1):
        result = good("analyze", flow.config, "--study", part, "--shard", f"{k}/2")
        assert "next: prunus merge, when all shards are measured" in result.stdout
        assert 0 < len(Study.open(part).cells) < 15
    whole = tmp_path / "all.study"
    result = good("merge", *parts, "-o", whole)
    assert result.stdout.splitlines() == [
        f"{whole}: 5 groups, 15 measurements, 0 of those asked for are missing",
        "",
        f"next: prunus plan {whole} --macs 0.5",
    ]
    measured = Study.open(flow.study)
    assert Study.open(whole).sensitivities() == measured.sensitivities()


@pytest.mark.parametrize("shard", ["0/2", "3/2", "2", "a/b", "1/"])
def test_a_part_that_cannot_be(flow, shard):
    result = run("analyze", flow.config, "--shard", shard)
    assert result.exit_code == 2
    assert "is no part of the work" in result.stderr


def test_an_interruption_says_how_to_go_on(flow, tmp_path, monkeypatch):
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(api, "analyze", interrupted)
    said = error_of("analyze", flow.config, "--study", tmp_path / "s")
    assert said == (
        f"error: interrupted; what was measured is in {tmp_path / 's'}\n"
        "  fix: run the same command again: it goes on from there\n"
    )


def test_a_guess_from_gradients_is_told_apart(flow, tmp_path):
    result = good("analyze", flow.config, "--study", tmp_path / "s", "--estimate")
    assert "the guess from gradients ordered the losses with a correlation of" in result.stdout


def test_a_criterion_of_ones_own(flow, tmp_path, monkeypatch):
    (tmp_path / "mine_to_judge.py").write_text(
        "def last(filters):\n    return range(len(filters))\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    study = tmp_path / "s"
    own = "analysis.criterion=mine_to_judge:last"
    good("analyze", flow.config, "--study", study, "-o", own, "--ratios", "0.5")
    assert "last" in Study.open(study).header.identity.criterion


def test_a_study_without_a_table_of_costs_gets_one(flow, tmp_path):
    old = tmp_path / "old.study"
    good("merge", flow.study, "-o", old)
    with Store.open(old) as store:
        store.replace_header(replace(store.header, costs={}))
    assert "has no table of costs" in error_of("plan", old, "--macs", "0.5")
    good("analyze", flow.config, "--study", old)
    good("plan", old, "--macs", "0.5", "-o", tmp_path / "p.json")


def test_what_cannot_be_analysed(flow, tmp_path):
    assert "no weight that can be cut is named 'stm'" in error_of(
        "analyze", flow.config, "--params", "stm", "--study", tmp_path / "s"
    )
    assert "every ratio must lie above 0" in error_of("analyze", flow.config, "--ratios", "2")
    said = error_of("analyze", flow.config, "--weights", tmp_path / "none.safetensors")
    assert "there is no file of weights" in said
    # A study of other weights is refused, and left as it is.
    other = ["-o", "model.weights=null"]
    assert "is another study" in error_of("analyze", flow.config, *other)
    assert Study.open(flow.study).complete

"""The picture of a study: what it is drawn from, and what it needs."""

from __future__ import annotations

import sys

import pytest

from prunus.cli.picture import LOSSES, draw, model_curve
from prunus.core.errors import LoadError, MissingExtraError
from prunus.core.study.study import Study


def test_the_more_may_be_lost_the_more_goes(flow):
    found = model_curve(Study.open(flow.study))
    assert [loss for loss, _, _ in found] == list(LOSSES)
    for share in (1, 2):
        gone = [row[share] for row in found]
        assert gone == sorted(gone)
        assert 0 <= gone[0] < gone[-1] < 1


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_the_ending_says_the_format(flow, tmp_path, ending):
    path = tmp_path / f"a.{ending}"
    draw(Study.open(flow.study), path, absolute=True)
    assert path.stat().st_size > 1000
    assert [one.name for one in tmp_path.iterdir()] == [path.name]


def test_a_folder_that_is_not_there(flow, tmp_path):
    with pytest.raises(LoadError, match="cannot write"):
        draw(Study.open(flow.study), tmp_path / "none" / "a.png")


def test_what_it_needs_is_named(flow, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtraError, match=r"fix: pip install 'prunus\[report\]'"):
        draw(Study.open(flow.study), tmp_path / "a.png")

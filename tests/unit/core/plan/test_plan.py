"""A plan is a file that survives, and that refuses what it cannot mean."""

import json

import numpy as np
import pytest

from prunus.core.errors import LoadError, RatioError
from prunus.core.graph.costs import Cost
from prunus.core.plan.plan import Compared, Plan, Planned


def test_what_is_saved_is_what_is_loaded(tmp_path):
    plan = Plan({"conv1.weight": 0.5, "layer*": 0.25}, note="by hand")
    plan.save(tmp_path / "plan.json")
    assert Plan.load(tmp_path / "plan.json") == plan
    assert [path.name for path in tmp_path.iterdir()] == ["plan.json"]


@pytest.mark.parametrize("ratio", [1.0, -0.1, float("nan"), "half", True])
def test_a_ratio_that_no_cut_can_have_is_refused(ratio):
    with pytest.raises(RatioError, match=r"'conv' is .* must lie in \[0, 1\)"):
        Plan({"conv": ratio})


def test_what_is_no_table_of_ratios_is_refused():
    with pytest.raises(RatioError, match=r"a plan of \[0\.5\] is no table of ratios"):
        Plan([0.5])
    with pytest.raises(RatioError, match="1 is no name of a weight, group or pattern"):
        Plan({1: 0.5})


def test_numbers_of_numpy_are_written_as_numbers(tmp_path):
    Plan({"conv": np.float32(0.5)}).save(tmp_path / "plan.json")
    assert Plan.load(tmp_path / "plan.json").ratios == {"conv": 0.5}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "cannot be read as a plan"),
        ("[]", "it has no table 'ratios'"),
        ('{"ratios": 3}', "it has no table 'ratios'"),
        ('{"prunus_plan": 9, "ratios": {}}', "schema 9, and this version reads 1"),
    ],
)
def test_a_file_that_is_no_plan_is_named(tmp_path, text, message):
    (tmp_path / "plan.json").write_text(text)
    with pytest.raises(LoadError, match=message):
        Plan.load(tmp_path / "plan.json")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(LoadError, match=r"nowhere\.json"):
        Plan.load(tmp_path / "nowhere.json")


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(LoadError, match="cannot write"):
        Plan({"conv": 0.5}).save(tmp_path / "missing" / "plan.json")


def test_what_is_known_of_a_plan_is_saved_with_it(tmp_path):
    plan = Plan(
        {"conv1.weight": 0.5},
        align=8,
        criterion="fpgm",
        asked={"macs": 0.5},
        groups=(Planned("conv1.weight", 16, 0.5, 8, 0.01), Planned("other", 4, 0.0, 0, None)),
        before=Cost(1000, 100),
        after=Cost(500, 60),
        compared=(Compared("this plan", None, 500, 60, 0.01, 0.01),),
    )
    plan.save(tmp_path / "plan.json")
    assert Plan.load(tmp_path / "plan.json") == plan


def test_a_plan_by_hand_needs_ratios_only(tmp_path):
    (tmp_path / "plan.json").write_text('{"prunus_plan": 1, "ratios": {"conv": 0.5}}')
    assert Plan.load(tmp_path / "plan.json") == Plan({"conv": 0.5})
    Plan({"conv": 0.5}).save(tmp_path / "again.json")
    text = (tmp_path / "again.json").read_text()
    assert json.loads(text) == {"prunus_plan": 1, "note": "", "align": 1, "ratios": {"conv": 0.5}}


def test_a_loss_that_is_no_number_is_written_as_nothing(tmp_path):
    Plan({}, groups=(Planned("a", 4, 0.5, 2, float("nan")),)).save(tmp_path / "plan.json")
    assert Plan.load(tmp_path / "plan.json").groups[0].loss is None


def test_the_share_that_really_goes():
    assert Planned("a", 20, 0.5, 12, 0.1).ratio == 0.6


@pytest.mark.parametrize("align", [0, True, "8"])
def test_an_alignment_that_cannot_be(align):
    with pytest.raises(RatioError, match="must be a whole number from 1"):
        Plan({}, align=align)


def test_an_entry_that_cannot_be_read_is_named(tmp_path):
    (tmp_path / "p").write_text('{"prunus_plan": 1, "ratios": {}, "groups": [{"grp": 1}]}')
    with pytest.raises(LoadError, match=r"an entry that cannot be read: .*grp"):
        Plan.load(tmp_path / "p")

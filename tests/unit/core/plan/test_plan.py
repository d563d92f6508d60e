"""A plan is a file that survives, and that refuses what it cannot mean."""

import numpy as np
import pytest

from prunus.core.errors import LoadError, RatioError
from prunus.core.plan.plan import Plan


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

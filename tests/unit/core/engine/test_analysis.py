"""What is asked, what is known, and what is left to measure."""

import pytest

from prunus.core.engine.analysis import (
    begin,
    fail,
    header_of,
    joint,
    missing,
    most_harmful_first,
    shard_of,
)
from prunus.core.errors import RatioError
from prunus.core.study.cells import Cell, Key
from prunus.core.study.header import Identity
from prunus.core.study.store import Store

from .test_table import GROUPS, table

IDENTITY = Identity("0" * 64, "1" * 64, "top1", True, "l1")


@pytest.fixture
def store(tmp_path):
    header = header_of(GROUPS, IDENTITY, {"prunus": "1"})
    with Store.open_or_create(tmp_path / "a.study", header) as opened:
        yield opened


def test_a_header_says_what_a_plan_needs():
    header = header_of(GROUPS, IDENTITY, {"prunus": "1"})
    assert [(group.name, group.size) for group in header.groups] == [
        ("a.weight", 8),
        ("b.weight", 6),
    ]
    assert header.groups[0].params == ("a.weight",)
    assert [one.name for one in header.frozen] == ["c.weight"]
    assert header.macs == sum(group for group in [3 * 8 * 4, 8 * 6 * 4, 6 * 2 * 4])
    assert header.numel == 3 * 8 + 8 * 6 + 6 * 2
    assert header.costs
    assert header.versions == {"prunus": "1"}


def test_what_removes_nothing_is_known_at_once(store):
    found = table((0.01, 0.5))
    begin(store, found)
    assert store.asked() == found.asked
    assert {key for key, cell in store.cells().items() if cell.kind == "nothing"} == set(
        found.nothing
    )
    assert all("too small" in cell.note for cell in store.cells().values())


def test_only_what_was_measured_to_the_end_is_not_missing(store):
    found = table()
    begin(store, found)
    a2, a4, b2, b3 = found.cuts
    store.set_baseline(0.9, 100)
    store.add(
        [
            Cell(*a2, "exact", 0.8, 100),
            Cell(*a4, "adaptive", 0.7, 50, 0.6, 0.8),
            Cell(*b2, "failed", None, note="no memory"),
            Cell(*b3, "bounded", None, high=0.5),
        ]
    )
    assert missing(store, found, None) == [a4, b2, b3]
    assert missing(store, found, (2, 2)) == [b2, b3]


def test_parts_of_the_work_are_disjoint_and_whole():
    names = list("abcdefg")
    for of in (1, 2, 3, 9):
        parts = [shard_of(names, (k, of)) for k in range(1, of + 1)]
        assert sorted(name for part in parts for name in part) == names
    assert shard_of(names, None) == set(names)
    assert shard_of(names, (1, 3)) == {"a", "d", "g"}


@pytest.mark.parametrize("shard", [(0, 2), (3, 2), (1, 0)])
def test_a_part_that_is_none_is_refused(shard):
    with pytest.raises(
        RatioError, match=r"part \d of \d is no part of the work\n  fix: give parts"
    ):
        shard_of(["a"], shard)


def test_the_group_that_is_predicted_to_lose_most_goes_first():
    keys = [Key("a", 1), Key("a", 2), Key("b", 1), Key("b", 2), Key("c", 1)]
    guesses = {Key("a", 2): 0.1, Key("b", 1): 0.5, Key("b", 2): -1.0}
    ordered = [Key("b", 1), Key("b", 2), Key("a", 1), Key("a", 2), Key("c", 1)]
    assert most_harmful_first(keys, guesses) == ordered
    assert most_harmful_first(keys, {}) == keys


def test_one_cut_of_all_groups_together():
    found = table()
    cut = joint(found, list(found.cuts))
    assert cut.by_name()["a.weight"] == {0: (0, 1, 2, 3)}
    assert len(cut.by_name()["b.weight"][0]) == 3
    assert set(cut.parts) == {"a.weight", "b.weight"}
    alone = joint(found, [key for key in found.cuts if key.group == "b.weight"])
    assert set(alone.parts) == {"b.weight"}


def test_groups_that_are_wrong_are_failures_with_their_reason(store):
    found = table()
    begin(store, found)
    fail(store, list(found.cuts), {"b.weight": "a rule is wrong"})
    assert {(key.group, cell.kind, cell.note) for key, cell in store.cells().items()} == {
        ("b.weight", "failed", "a rule is wrong")
    }

"""A header survives as text, names what differs, and is believed nothing."""

from __future__ import annotations

import dataclasses
import json
import re

import pytest

from prunus.core.errors import StudyError
from prunus.core.study.header import GroupRow, Header

from .samples import GROUPS, HEADER, IDENTITY, header


def test_text_and_back():
    assert Header.from_json(HEADER.to_json()) == HEADER
    assert HEADER.group("a.weight") is GROUPS[1]
    assert HEADER.group("b.weight") is None


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (header(model="77" * 32), "the model: 5f0c5f0c5f0c... in the study, 777777777777... here"),
        (header(data="x"), "the data: 91aa91aa91aa... in the study, x here"),
        (header(metric="top5"), "the metric: top1 in the study, top5 here"),
        (
            header(higher_is_better=False),
            "the direction: higher is better in the study, lower is better here",
        ),
        (header(criterion="fpgm"), "the criterion: l1 in the study, fpgm here"),
        (
            header(options={"precision": "bf16", "recalibrate": 0}),
            "the option 'precision': float32 in the study, bf16 here",
        ),
        (
            header(options={"precision": "float32", "recalibrate": False}),
            "the option 'recalibrate': 0 in the study, False here",
        ),
        (
            header(options={"precision": "float32"}),
            "the option 'recalibrate': 0 in the study, (not set) here",
        ),
        (
            dataclasses.replace(HEADER, groups=GROUPS[:1]),
            "the groups: 4 in the study, 1 here",
        ),
        (
            dataclasses.replace(
                HEADER,
                groups=(GroupRow("stem.weight", tuple("wxyz"), 9, 1, 2), *GROUPS[1:]),
            ),
            "a group: 'stem.weight' of 8 channels (stem.weight; 100 MACs, 10 parameters) in the "
            "study, 'stem.weight' of 9 channels (w, x, y, ...; 1 MACs, 2 parameters) here",
        ),
    ],
)
def test_the_first_difference_is_named(other, message):
    assert HEADER.difference(other) == message


def test_fingerprints_are_shortened_as_far_as_they_differ():
    one, two = "a" * 15 + "b" * 49, "a" * 64
    assert header(model=one).difference(header(model=two), "x", "y") == (
        f"the model: {one[:24]}... x, {two[:24]}... y"
    )
    one, two = "a" * 63 + "b", "a" * 64
    assert header(model=one).difference(header(model=two), "x", "y") == (
        f"the model: {one} x, {two} y"
    )


def test_costs_versions_notes_and_the_order_of_options_may_differ():
    other = dataclasses.replace(HEADER, costs={}, versions={"torch": "9"}, note="")
    assert HEADER.difference(other) == ""
    turned = header(options={"recalibrate": 0, "precision": "float32"})
    assert turned.to_json() == HEADER.to_json()


@pytest.mark.parametrize("value", [[1], float("nan"), None.__class__, {"a": 1}])
def test_an_option_is_one_plain_value(value):
    with pytest.raises(StudyError, match="the option 'x' of a study is ") as caught:
        dataclasses.replace(IDENTITY, options={"x": value})
    assert "text, a number, a boolean or None" in caught.value.fix


@pytest.mark.parametrize("costs", [{"a": object()}, {"a": float("nan")}])
def test_costs_are_plain_json(costs):
    with pytest.raises(StudyError, match="must be plain JSON") as caught:
        dataclasses.replace(HEADER, costs=costs).to_json()
    assert "keep to dicts, lists, text" in caught.value.fix


def _changed(**changes):
    found = json.loads(HEADER.to_json())
    for path, value in changes.items():
        *outer, last = path.split("__")
        inner = found
        for name in outer:
            inner = inner[int(name) if name.isdigit() else name]
        inner[last] = value
    return json.dumps(found)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is no JSON"),
        ("[" * 100_000, "is no JSON"),
        ("[]", "has 'header' as list"),
        (_changed(identity=3), "has 'identity' of 'header' as 3, not dict"),
        (_changed(identity__model=None), "has 'model' of 'identity' as None, not str"),
        (_changed(macs=True), "has 'macs' of 'header' as True, not int"),
        (_changed(groups__0__size=0), "has a group of size 0"),
        (_changed(groups__0__params=[1]), "has params [1]"),
        (_changed(groups=["a"]), "has 'groups' as str"),
        (_changed(groups__1__name="stem.weight"), "names two groups alike"),
        (_changed(frozen=[{}]), "has 'name' of 'frozen' as None, not str"),
    ],
)
def test_another_text_is_refused(text, message):
    with pytest.raises(StudyError, match=re.escape(f"the header of the study {message}")) as caught:
        Header.from_json(text)
    assert "take a copy of the file from before" in caught.value.fix

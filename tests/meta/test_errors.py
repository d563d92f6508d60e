"""Errors carry a fix, travel between processes, and are drawn in one tree."""

import inspect
import pickle
import re

import pytest

from prunus.core import errors
from prunus.core.errors import PrunusError

CLASSES = sorted(
    (
        kind
        for _, kind in inspect.getmembers(errors, inspect.isclass)
        if issubclass(kind, PrunusError) and kind.__module__ == errors.__name__
    ),
    key=lambda kind: kind.__name__,
)


@pytest.mark.parametrize("kind", CLASSES)
def test_an_error_survives_pickle(kind):
    before = kind("the problem", fix="the fix")
    after = pickle.loads(pickle.dumps(before))
    assert type(after) is kind
    assert (after.problem, after.fix, str(after)) == ("the problem", "the fix", str(before))


@pytest.mark.parametrize("kind", CLASSES)
def test_an_error_shows_problem_and_fix(kind):
    with pytest.raises(kind, match=r"^the problem\n  fix: the fix$"):
        raise kind("the problem", fix="the fix")


@pytest.mark.parametrize("kind", CLASSES)
def test_no_error_without_a_fix(kind):
    with pytest.raises(TypeError, match="fix"):
        kind("the problem")


def test_the_tree_draws_every_class_once():
    tree = errors.__doc__.split("\n\n")[1]
    drawn = re.findall(r"^\W*(\w+)", tree, re.MULTILINE)
    assert sorted(drawn) == [kind.__name__ for kind in CLASSES]
    assert {kind.__name__ for kind in CLASSES} <= set(errors.__all__)


def test_nearest_shows_what_is_close_or_else_what_there_is():
    assert errors.nearest("conv1", ["conv2", "norm"]) == "'conv2'"
    assert errors.nearest("qqq", ["conv2", "norm"]) == "'conv2', 'norm'"


def test_nearest_shows_each_name_once():
    assert errors.nearest("conv1", ["conv2", "conv2", "conv3"]) == "'conv3', 'conv2'"

"""Errors: a problem, a fix, and a way through pickle."""

from __future__ import annotations

import inspect
import pickle

import pytest

from prunus.core import errors
from prunus.core.errors import PrunusError, nearest

EVERY = [
    one for _, one in inspect.getmembers(errors, inspect.isclass) if issubclass(one, PrunusError)
]


@pytest.mark.parametrize("kind", EVERY)
def test_the_problem_comes_first_and_then_the_fix(kind):
    error = kind("'a' is 3, and 'b' is 4", fix="make them equal")
    assert str(error) == "'a' is 3, and 'b' is 4\n  fix: make them equal"
    assert (error.problem, error.fix) == ("'a' is 3, and 'b' is 4", "make them equal")


@pytest.mark.parametrize("kind", EVERY)
def test_errors_survive_pickle(kind):
    copy = pickle.loads(pickle.dumps(kind("problem", fix="fix")))
    assert type(copy) is kind
    assert str(copy) == "problem\n  fix: fix"


def test_an_error_needs_a_fix():
    with pytest.raises(TypeError, match="fix"):
        PrunusError("problem")


@pytest.mark.parametrize("kind", EVERY)
def test_every_error_is_exported(kind):
    assert kind.__name__ in errors.__all__


def test_the_nearest_names_are_quoted_best_first():
    assert nearest("conv2", ["fc", "conv1", "conv22"], 1) == "'conv22'"
    assert nearest("conv2", ["fc", "conv1", "conv22"]) == "'conv22', 'conv1'"


def test_where_none_is_near_the_first_are_shown():
    assert nearest("zzz", ["a", "b", "c", "d"]) == "'a', 'b', 'c'"

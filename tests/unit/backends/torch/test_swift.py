"""A program is used only for what it computes as the really cut models do."""

import dataclasses

import pytest
import torch

from prunus.backends.torch.swift import Swift
from prunus.backends.torch.trace import Example

from .nets import Chain, image
from .programs import Made, apart


@pytest.fixture(scope="module")
def made():
    torch.manual_seed(0)
    return Made(Chain(), image())


def swift(made, make=None, **options):
    options = {"precision": None, "room": 1 << 20, "batches": 1, **options}
    return Swift(make or made.sweep, made.model, made.lab.build, **options)


def run(one, made, x, keys=None):
    found = {}
    with torch.no_grad():
        whole, rest = one.run(
            Example((x,), {}), made.keys if keys is None else keys, found.__setitem__
        )
    return whole, found, rest


def test_all_cuts_run_as_a_program(made):
    one, x = swift(made), image(6)
    whole, found, rest = run(one, made, x)
    assert rest == []
    assert one.notes == []
    assert apart(whole, made.model(x)) < 1e-5
    assert all(apart(found[key], made.lab.build(key)(x)) < 1e-5 for key in made.keys)
    assert 1e-6 <= one.rounding < 1e-4


def test_a_program_that_cannot_be_made_is_said_once(made):
    def fails():
        raise ValueError("no such operator\nand more")

    one = swift(made, fails)
    for _ in range(2):
        whole, found, rest = run(one, made, image())
        assert (whole, found, rest) == (None, {}, made.keys)
    assert one.notes == [
        "whole models ran, which is slower, for the program cannot be used: "
        "ValueError: no such operator"
    ]


def test_a_program_that_is_wrong_is_not_used(made):
    def wrong():
        sweep = made.sweep()
        sweep.program.weights["head.weight"] = sweep.program.weights["head.weight"] + 0.1
        return sweep

    one = swift(made, wrong)
    assert run(one, made, image())[2] == made.keys
    assert "it is off by" in one.notes[0]


def test_a_cut_that_is_wrong_is_left_to_whole_models(made):
    def wrong():
        sweep = made.sweep()
        variants = dict(sweep.variants)
        for key in made.keys:
            if key.group == "a.weight":
                kept = {name: {axis: index.flip(0) for axis, index in own.items()}
                        for name, own in variants[key].weights.items()}  # fmt: skip
                variants[key] = dataclasses.replace(variants[key], weights=kept)
        return type(sweep)(sweep.program, variants, 1 << 20)

    one, x = swift(made, wrong), image(4)
    _, found, rest = run(one, made, x)
    assert {key.group for key in rest} == {"a.weight"}
    assert {key.group for key in found} == {"b.weight"}
    assert one.notes[0].startswith("'a.weight' was measured with whole models: its program is off")


def test_calls_that_are_laid_out_otherwise_are_left_to_whole_models(made):
    one = swift(made)
    with torch.no_grad():
        whole, rest = one.run(Example((), {"x": image()}), made.keys, lambda key, result: None)
    assert (whole, rest) == (None, made.keys)
    assert "laid out in another way than the example" in one.notes[0]


def test_a_narrower_type_is_used_and_its_absence_said(made):
    one = swift(made, precision=torch.bfloat16)
    whole, found, rest = run(one, made, image(4))
    assert rest == []
    assert whole.dtype == torch.bfloat16
    assert {one.dtype for one in found.values()} == {torch.bfloat16}

    def fails():
        raise ValueError("no")

    other = swift(made, fails, precision=torch.bfloat16)
    run(other, made, image())
    assert "in the model's own precision" in other.notes[0]


def test_results_of_all_cuts_at_once_stay_within_the_room(made):
    one = swift(made, room=0)
    run(one, made, image(4))
    one._tuning = dataclasses.replace(one._tuning, size=2)
    values = {"x": image(4)}
    assert [len(some) for some in one._portions(values, made.keys)] == [1] * len(made.keys)
    one._room = 1 << 20
    assert one._portions(values, made.keys) == [list(made.keys)]

"""One cut of a program: only what depends on it runs again, on really smaller weights."""

import torch

from prunus.core.study.cells import Key

from .nets import Chain, Fixed, image
from .programs import Made, apart, values_of


def run(made, sweep, key, x):
    found = {}
    with torch.no_grad():
        sweep.run(values_of(sweep.program, x), [key], found.__setitem__)
        return found[key], made.lab.build(key)(x)


def test_what_comes_before_is_taken_from_the_originals_run():
    made = Made(Chain(), image())
    sweep = made.sweep()
    first, second = (sweep.variants[key] for key in (Key("a.weight", 5), Key("b.weight", 7)))
    assert len(second.steps) < len(first.steps) < len(sweep.program.steps)
    assert first.due < second.due
    assert not any("a.weight" in step.weights for step in first.steps)
    for key in made.keys:
        found, expected = run(made, sweep, key, image(3))
        assert apart(found, expected) < 1e-5


def test_weights_shrink_by_what_goes():
    made = Made(Chain(), image())
    sweep = made.sweep()
    key = Key("b.weight", 7)
    weights = sweep.weights.of(key)
    assert weights["head.weight"].shape == (5, 5)
    assert sweep.program.weights["head.weight"].shape == (5, 12)


def test_numbers_that_the_cut_changes_are_rewritten():
    made = Made(Fixed(), image(2, 4))
    sweep = made.sweep()
    for key in made.keys:
        found, expected = run(made, sweep, key, image(3, 4))
        assert apart(found, expected) < 1e-5


def test_what_nobody_reads_any_more_is_let_go():
    made = Made(Chain(), image())
    variant = made.sweep().variants[Key("a.weight", 5)]
    dropped = [name for names in variant.drops for name in names]
    made_or_read = {step.name for step in variant.steps} | set(variant.reads)
    assert len(dropped) == len(set(dropped))
    assert made_or_read - set(dropped) == {variant.steps[-1].name}

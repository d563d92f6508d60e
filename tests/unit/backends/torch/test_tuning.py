"""How a program runs quickest changes no more than rounding."""

import math

import pytest
import torch
from torch import nn

from prunus.backends.torch import tuning
from prunus.backends.torch.tuning import Tuning, apart, run, tune

from .nets import Chain, image
from .programs import Made, values_of


@torch.no_grad()
@pytest.mark.parametrize("last", [False, True])
def test_whatever_is_chosen_gives_the_same(last, monkeypatch):
    monkeypatch.setattr(tuning, "SLICES", (4, 2))
    made = Made(Chain(), image())
    sweep = made.sweep()
    x = image(9)
    wanted = Tuning(2, 1)

    def seconds_of(step, program, name, made, channels_last):
        return float(channels_last != last)

    monkeypatch.setattr(tuning, "_seconds_of", seconds_of)
    monkeypatch.setattr(tuning, "_seconds", lambda sweep, own, one: float(one != wanted))
    values = values_of(sweep.program, x)
    chosen = tune(sweep.program, values)
    assert chosen == wanted
    orders = {
        sweep.program.weights[name].is_contiguous(memory_format=torch.channels_last)
        for _, name in sweep.program.kernels()
    }
    assert orders == {last}
    found = {}
    whole = run(sweep, values, made.keys, found.__setitem__, chosen)
    assert apart(whole, made.model(x)) < 1e-5
    for key in made.keys:
        assert apart(found[key], made.lab.build(key)(x)) < 1e-5


@torch.no_grad()
def test_a_real_choice_is_made_by_the_clock():
    made = Made(Chain(), image())
    sweep, x = made.sweep(), image(40)
    values = values_of(sweep.program, x)
    chosen = tune(sweep.program, values)
    assert chosen.size is None or chosen.size < 40
    assert apart(run(sweep, values, [], lambda *_: None, chosen), made.model(x)) < 1e-5


class Mixes(nn.Module):
    """Each sample's result depends on the whole batch."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 4, 1), nn.Conv2d(4, 2, 1)

    def forward(self, x):
        y = self.a(x)
        return self.b(y - y.mean(0, keepdim=True))


@torch.no_grad()
def test_a_model_that_mixes_samples_is_not_parted(monkeypatch):
    monkeypatch.setattr(tuning, "SLICES", (4,))
    monkeypatch.setattr(tuning, "_seconds", lambda sweep, own, one: float(one.size is None))
    made = Made(Mixes(), image())
    program = made.sweep().program
    assert tune(program, values_of(program, image(9))).size is None


def test_results_are_compared():
    one = torch.tensor([1.0, 2.0, 4.0])
    assert apart(one, one) == 0.0
    assert apart(one + torch.tensor([0.0, 0.0, 0.4]), one) == pytest.approx(0.1)
    assert apart([one, {"a": one}], [one, {"a": one * 1.5}]) == pytest.approx(1 / 3)
    assert apart(one[:2], one) == math.inf
    assert apart([one, one], [one]) == math.inf
    assert apart(one * math.nan, one) == math.inf
    assert apart(one.long(), one.long()) == 0.0
    assert apart(one.long() + 1, one.long()) == math.inf
    assert apart(one * 0, one * 0) == 0.0
    assert apart(one[:0], one[:0]) == 0.0

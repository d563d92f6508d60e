"""The learning rate, by hand."""

import pytest

from prunus.tasks.schedule import rate_at
from prunus.tasks.settings import TrainSettings


def rates(steps=2, **given):
    settings = TrainSettings(learning_rate=1.0, **given)
    return [round(rate_at(settings, step, steps), 4) for step in range(settings.epochs * steps)]


def test_cosine_falls_to_nothing():
    found = rates(epochs=4, schedule="cosine")
    assert found[:1] + found[4:5] == [1.0, 0.5]
    assert found == sorted(found, reverse=True)
    assert 0 < found[-1] < 0.05


def test_steps():
    found = rates(epochs=4, schedule="step", step_epochs=(1, 3))
    assert found == [1, 1, 0.1, 0.1, 0.1, 0.1, 0.01, 0.01]
    assert rates(epochs=4, schedule="step", step_factor=0.5) == [1, 1, 1, 1, 0.5, 0.5, 0.25, 0.25]


def test_constant():
    assert set(rates(epochs=3, schedule="constant")) == {1.0}


@pytest.mark.parametrize("schedule", ["cosine", "step", "constant"])
def test_warm_up_rises_to_the_full_rate(schedule):
    found = rates(epochs=4, schedule=schedule, warmup_epochs=1.5)
    assert found[:4] == [0.25, 0.5, 0.75, 1.0]
    assert max(found) == 1.0


def test_a_part_of_an_epoch():
    assert rates(epochs=1, steps=4, schedule="constant", warmup_epochs=0.25) == [0.5, 1, 1, 1]

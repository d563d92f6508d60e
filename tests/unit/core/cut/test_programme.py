"""The small programme: its answer, and that it says nothing."""

from __future__ import annotations

import subprocess
import sys

from prunus.core.cut.programme import Programme

TALKATIVE = """
import numpy as np
from prunus.core.cut.programme import Programme
rng = np.random.default_rng(5)
for _ in range(20):
    programme = Programme()
    costs = {}
    for _ in range(60):
        prices = np.sort(rng.exponential(0.1, 9))
        own = [programme.variable(price=p, most=1, whole=True) for p in prices]
        programme.constrain(dict.fromkeys(own, 1.0), 1, 1)
        saved = np.sort(rng.random(9)) * rng.lognormal(0, 2)
        costs.update({v: -s for v, s in zip(own, saved)})
    programme.constrain(costs, -np.inf, 0.5 * sum(costs.values()) / 9)
    programme.solve()
print("the end", flush=True)
"""


def test_the_best_whole_numbers():
    programme = Programme()
    x = programme.variable(price=-2.0, most=3, whole=True)
    y = programme.variable(price=-3.0, most=3, whole=True)
    programme.constrain({x: 1.0, y: 2.0}, 0, 5.5)
    assert programme.solve().round().tolist() == [3, 1]


def test_what_cannot_be_has_no_answer():
    programme = Programme()
    programme.constrain({programme.variable(most=1): 1.0}, 2, 3)
    assert programme.solve() is None


def test_the_solver_prints_nothing():
    done = subprocess.run(
        [sys.executable, "-c", TALKATIVE], capture_output=True, text=True, check=True
    )
    assert done.stdout == "the end\n"

"""Random nets of small pieces: every cut is right, or names a reason why there is none."""

from __future__ import annotations

import os

import torch
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import prunus
from prunus.core.errors import NothingToCutError

from .judge import blinded, differ, ready, run
from .random_nets import RandomNet, recipes

EXACT = 1e-9

# `PRUNUS_EXAMPLES=2000 pytest tests/e2e/torch/test_random_graphs.py` looks further. A net
# that fails is small enough to be read as it is; making it smaller takes minutes.
MANY = os.environ.get("PRUNUS_EXAMPLES")


@settings(
    max_examples=int(MANY or 60),
    deadline=None,
    derandomize=MANY is None,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(recipe=recipes(), ratio=st.floats(0.1, 0.8), pick=st.integers(0, 99), seed=st.integers(0, 9))
def test_random_net(recipe: list[tuple], ratio: float, pick: int, seed: int) -> None:
    torch.set_num_threads(1)
    model = ready(RandomNet(recipe), seed)
    example = torch.rand(2, 3, 4, 4, dtype=torch.float64) - 0.5
    groups = prunus.trace(model, example).groups
    plans: list = [ratio]
    if groups:
        plans.append({groups[pick % len(groups)].name: ratio})
    for plan in plans:
        try:
            pruned = prunus.prune(model, example, plan)
        except NothingToCutError:
            continue  # that is the reason it names; what may be refused so has its own tests
        blind = blinded(model, pruned.cut)
        for batch in (2, 3):
            fresh = torch.randn(batch, 3, 4, 4, dtype=torch.float64)
            with torch.no_grad():
                assert differ(run(blind, fresh), run(pruned.model, fresh)) < EXACT

"""The cost table of a study against the graph, on real graphs, after joint cuts."""

from __future__ import annotations

import contextlib
import importlib
import json
import random

import numpy as np
import pytest
import torch

import prunus
from prunus.core.cut.cut import make_cut
from prunus.core.graph.costs import Cost, macs, numel
from prunus.core.plan.costs import CostTable, cost_table
from prunus.core.results import Trace

from .judge import ready, wide
from .pattern_nets import PATTERNS


def check(found: Trace, cuts: int) -> None:
    groups = found.analysis
    graph, channels = groups.graph, groups.channels
    table = CostTable.read(json.loads(json.dumps(cost_table(groups))))
    assert table.exact
    assert table.whole == Cost(found.macs, found.numel)
    choose = random.Random(0)
    for number in range(cuts):
        align = choose.choice([1, 2, 8])
        ratios = [choose.choice([0, 0.5, choose.random()]) for _ in groups.groups]
        scores = {
            k: np.random.default_rng(number).random(one.size) for k, one in enumerate(groups.groups)
        }
        cut = make_cut(groups, ratios, scores, align)
        counts = table.counts(dict(zip(table.names, ratios, strict=True)), align)
        removed = {one.group: one.removed for one in cut.achieved}
        assert table.rounding.by_group(counts) == [removed.get(name, 0) for name in table.names]
        assert table.cost(counts) == Cost(
            macs(graph, channels, cut.gone), numel(graph, channels, cut.gone)
        )


@pytest.mark.parametrize("name", PATTERNS)
def test_every_pattern(name: str) -> None:
    torch.set_num_threads(1)
    one = PATTERNS[name]
    model = ready(one.build())
    check(prunus.trace(model, wide(one.example(2))), 4)


@pytest.fixture(scope="module")
def models():
    # Beside another build of torch the binary operators of torchvision do not load, and
    # without these two it is not even imported. No classifier runs them.
    for operator in ("nms", "qnms"):
        with contextlib.suppress(RuntimeError):
            torch.library.define(
                f"torchvision::{operator}", "(Tensor a, Tensor b, float c) -> Tensor"
            )
    return importlib.import_module("torchvision.models")


@pytest.mark.parametrize(
    "name", ["resnet18", "mobilenet_v2", "densenet121", "shufflenet_v2_x0_5", "resnext50_32x4d"]
)
def test_a_real_network(models, name: str) -> None:
    torch.set_num_threads(1)
    model = getattr(models, name)(weights=None).eval()
    check(prunus.trace(model, torch.rand(1, 3, 64, 64)), 5)

"""The engine's program of every small net gives, for every cut, what the cut model gives."""

from __future__ import annotations

import pytest
import torch
from torch.utils._pytree import tree_leaves

from prunus.backends.torch.backend import TorchBackend
from prunus.core.engine.table import table_of
from prunus.core.errors import NothingToCutError
from prunus.core.graph.channels import close
from prunus.core.graph.groups import find_groups

from .judge import differ, ready, run, wide
from .pattern_nets import PATTERNS

EXACT = 1e-9
"""In double precision."""

WHOLE_MODELS = {
    "keyword_arguments": "knows no free batch size",
    "fake_quantisation": "cannot be traced",
}
"""Nets that cannot be a program for every batch size, and why: whole models run there."""


def _tensors(tree: object) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


@pytest.mark.parametrize("name", PATTERNS)
def test_the_program_gives_what_cut_models_give(name: str) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    one = PATTERNS[name]
    model = ready(one.build(), seed=3)
    backend = TorchBackend()
    traced = backend.trace(model, wide(one.example(2)))
    groups = find_groups(close(traced.graph, None, traced.pinned))
    try:
        table = table_of(groups, (0.3, 0.6), None, backend.weights(traced))
    except NothingToCutError:
        return
    with backend.laboratory(traced, table.cuts, rules=None, recalibrate=None) as lab:
        if name in WHOLE_MODELS:
            with pytest.raises(Exception, match=WHOLE_MODELS[name]):
                lab.sweep(1 << 20)
            return
        sweep = lab.sweep(1 << 20)
        for batch in (2, 3):
            example = wide(one.example(batch))
            call = backend.trace(model, example).example
            values = sweep.program.read(call.args, call.kwargs)
            assert values is not None
            found = {}
            with torch.no_grad():
                whole = sweep.run(values, list(table.cuts), found.__setitem__)
                assert differ(run(model, example), _tensors(whole)) < EXACT
                for key in table.cuts:
                    if isinstance(found[key], Exception):
                        raise found[key]
                    expected = run(lab.build(key), example)
                    assert differ(expected, _tensors(found[key])) < EXACT, key

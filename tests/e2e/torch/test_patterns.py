"""Small nets, one graph pattern each: cut and right, or left alone with a reason."""

from __future__ import annotations

import copy

import pytest
import torch

import prunus
from prunus.core.errors import NothingToCutError

from .judge import blinded, differ, look_only_at_what_stays, ready, run, sliced, wide
from .pattern_nets import PATTERNS, Net, Pattern

EXACT = 1e-9
"""In double precision; what is wrong is off by more than a thousandth."""


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)


def reference(one: Pattern, model: Net, cut) -> torch.nn.Module:
    """Return the blinded original, with operators that mix channels looking at what stays."""
    blind = look_only_at_what_stays(blinded(model, cut, one.divided), cut)
    if one.over in cut:
        lost = cut[one.over][0]
        size = dict(model.named_parameters())[one.over].shape[0]
        blind.only = torch.tensor([k for k in range(size) if k not in lost])
    return blind


def check_weights(model: Net, pruned: prunus.Pruned) -> None:
    """Every tensor of the cut model is the slice of the original that `cut` describes."""
    small = pruned.model.state_dict()
    whole = model.state_dict()
    assert set(small) == set(whole)
    names = {id(t): n for n, t in reversed([*model.named_parameters(), *model.named_buffers()])}
    named = dict(model.named_parameters(remove_duplicate=False))
    for name, value in whole.items():
        canonical = names.get(id(named.get(name)), name)  # a tied weight is cut under one name
        assert torch.equal(sliced(value, pruned.cut.get(canonical, {})), small[name]), name


def check_outputs(one: Pattern, model: Net, pruned: prunus.Pruned) -> float:
    """At two batch sizes the cut model computes what the blinded original does.

    Returns how much blinding changed, so that a test can tell that it is not blind itself.
    """
    blind = reference(one, model, pruned.cut)
    for batch in (2, 3):
        example = wide(one.example(batch))
        with torch.no_grad():
            expected, actual = run(blind, example), run(pruned.model, example)
            assert differ(expected, actual) < EXACT
            changed = differ(run(model, example), expected)
    return changed


@pytest.mark.parametrize("name", PATTERNS)
def test_all_groups_at_half(name: str) -> None:
    one = PATTERNS[name]
    model = ready(one.build())
    example = wide(one.example(2))
    before = copy.deepcopy(model.state_dict())
    traced = prunus.trace(model, example)
    if one.frozen:
        reasons = [frozen.because for frozen in traced.frozen if frozen.name == one.frozen]
        assert any(one.because in because for because in reasons), reasons
    if not one.cut and not traced.groups:
        with pytest.raises(NothingToCutError, match="nothing in this model can be cut"):
            prunus.prune(model, example, 0.5)
        return
    pruned = prunus.prune(model, example, 0.5)
    for place in one.cut:
        weight, _, axis = place.partition(":")
        assert int(axis or 0) in pruned.cut[weight]
    if one.frozen:
        whole = {frozen.name: frozen for frozen in traced.frozen if frozen.channels == frozen.of}
        assert one.frozen not in whole or 0 not in pruned.cut.get(one.frozen, {})
    assert pruned.how == one.how
    assert one.mixes in " ".join(pruned.mixes)
    assert bool(one.mixes) == bool(pruned.mixes)
    check_weights(model, pruned)
    assert check_outputs(one, model, pruned) > 1e-6
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())


@pytest.mark.parametrize("name", PATTERNS)
def test_each_group_alone(name: str) -> None:
    one = PATTERNS[name]
    model = ready(one.build(), seed=1)
    example = wide(one.example(2))
    groups = prunus.trace(model, example).groups
    if one.cut:
        assert any(group.size > 1 for group in groups)
    changed = [0.0]
    for group in groups:
        if group.size == 1:
            continue  # one channel always stays
        pruned = prunus.prune(model, example, {group.name: 0.5})
        check_weights(model, pruned)
        changed.append(check_outputs(one, model, pruned))
    assert max(changed) > 1e-6 or not one.cut


@pytest.mark.parametrize("name", [name for name, one in PATTERNS.items() if one.cut])
def test_what_comes_back_is_a_model(name: str) -> None:
    """It learns, it can be copied, and its state goes out and comes in."""
    one = PATTERNS[name]
    model = ready(one.build(), seed=2)
    example = wide(one.example(2))
    pruned = prunus.prune(model, example, 0.5).model
    again = copy.deepcopy(pruned)
    again.load_state_dict(pruned.state_dict())
    with torch.no_grad():
        first = run(pruned, example)
        assert differ(first, run(again, example)) == 0
    for each in (model, pruned):
        sum(leaf.square().sum() for leaf in run(each, example) if leaf.requires_grad).backward()
    learns = {key for key, value in model.named_parameters() if value.grad is not None}
    assert learns == {key for key, value in pruned.named_parameters() if value.grad is not None}
    torch.optim.SGD(pruned.parameters(), lr=1e-3).step()
    with torch.no_grad():
        assert differ(first, run(pruned, example)) > 0

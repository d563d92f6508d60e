"""The original and its cut models, ready to be measured; the user's model stays as it is."""

import pytest
import torch
from torch import nn

from prunus.backends.torch.laboratory import fingerprint
from prunus.backends.torch.recalibrate import recalibrate
from prunus.core.engine.evaluation import Evaluation
from prunus.core.errors import EvaluationError, PrunusError
from prunus.core.study.cells import Key

from .nets import Branching, Chain, image, output
from .nets import fingerprint as state_of
from .programs import Made

BATCH = (torch.randn(20, 3, 8, 8), torch.randint(0, 5, (20,)))


def made(model=None, **options):
    model = Chain() if model is None else model
    modes = {module: module.training for module in model.modules()}
    one = Made(model, image(), **options)
    for module, training in modes.items():
        module.training = training
    return one


def test_inside_it_the_users_model_is_evaluated_and_afterwards_as_it_was():
    one = made()
    one.model.drop.eval()
    before = state_of(one.model)
    with one.lab as lab:
        assert not any(module.training for module in one.model.modules())
        lab.original()
        lab.build(one.keys[0])
        torch.rand(3)
    assert state_of(one.model) == before
    with pytest.raises(KeyError, match="gone"), one.lab:
        raise KeyError("gone")
    assert state_of(one.model) == before


def test_the_original_is_a_copy():
    one = made()
    whole = one.lab.original()
    assert whole is not one.model
    assert not any(module.training for module in whole.modules())
    assert torch.equal(output(whole, BATCH[0]), output(one.model, BATCH[0]))
    with torch.no_grad():
        whole.a.weight.zero_()
    assert one.model.a.weight.abs().sum() > 0


def test_what_is_built_is_really_smaller():
    one = made()
    small = one.lab.build(Key("a.weight", 5))
    assert small.a.weight.shape == (3, 3, 3, 3)
    assert small.b.weight.shape == (12, 3, 3, 3)
    assert not any(module.training for module in small.modules())


def test_recalibrated_models_have_statistics_of_their_own():
    batches = [image(6), image(6)]
    one = made(recalibrate=batches)
    key = one.keys[0]
    plain = made(one.model).lab.build(key)
    recalibrate(plain, batches)
    assert torch.equal(one.lab.build(key).norm.running_mean, plain.norm.running_mean)
    assert torch.equal(one.model.norm.running_mean, torch.zeros(8))
    with pytest.raises(
        PrunusError, match="in their own precision, and not in bfloat16\n  fix: lea"
    ):
        one.lab.meter(Evaluation([BATCH]), precision="bfloat16", memory=0)


def test_a_precision_that_does_not_exist_is_refused():
    with pytest.raises(PrunusError, match=r"no precision 'int8'\n  fix: .*bfloat16, float16"):
        made().lab.meter(Evaluation([BATCH]), precision="int8", memory=0)


@pytest.mark.parametrize("within", [None, "backbone"])
def test_a_first_look_leaves_the_users_model_alone(within):
    one = made(Chain() if within is None else Branching(Chain()), within=within)
    model = one.model
    part = model if within is None else model.backbone
    part.a.weight.requires_grad_(False)
    part.b.weight.grad = torch.ones_like(part.b.weight)
    before = state_of(model)
    with one.lab as lab:
        batch = BATCH if within is None else (BATCH[0], BATCH[1] % 2)
        found = lab.estimate(Evaluation([batch]), seed=0)
    assert state_of(model) == before
    assert set(found) == set(one.keys)
    assert len(set(found.values())) == len(found)


def test_a_first_look_needs_a_loss():
    with pytest.raises(EvaluationError, match="follows the gradient of a loss"):
        made().lab.estimate(Evaluation([BATCH], lambda output, batch: output[:, 0]), seed=0)


def test_a_seed_of_a_first_look_is_an_order():
    one = made()
    first, again, other = (one.lab.estimate(Evaluation([BATCH]), seed=seed) for seed in (0, 0, 1))
    assert first == again
    assert first != other
    assert first == pytest.approx(other, rel=2, abs=1)


def test_a_fingerprint_is_of_names_shapes_types_and_contents():
    model = nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4))
    first = fingerprint(model)
    assert fingerprint(model.train()) == fingerprint(model.eval()) == first
    model[0].weight.requires_grad_(False)
    assert fingerprint(model) == first
    model[1].num_batches_tracked += 1
    second = fingerprint(model)
    assert second != first
    with torch.no_grad():
        model[0].weight[0, 0] += 1
    assert fingerprint(model) != second
    assert fingerprint(model.double()) != fingerprint(model.float())
    assert fingerprint(nn.Linear(2, 3).to("meta")) != fingerprint(nn.Linear(3, 2).to("meta"))
    assert fingerprint(nn.Linear(2, 3).bfloat16()) != fingerprint(nn.Linear(2, 3).bfloat16())

"""Batch norms learn anew; nothing else changes, and a failure changes nothing at all."""

import copy

import pytest
import torch
from torch import nn

import prunus
from prunus.backends.torch.recalibrate import recalibrate
from prunus.core.errors import EvaluationError, PrunusError

from .nets import Chain, Fixed, fingerprint, image


def batches(count=4, size=4):
    generator = torch.Generator().manual_seed(3)
    return [torch.randn(6, 3, size, size, generator=generator) * 2 + 1 for _ in range(count)]


def statistics(layer_input):
    """The mean over the batches of each batch's mean and unbiased variance."""
    flat = [one.transpose(0, 1).flatten(1) for one in layer_input]
    return (
        torch.stack([one.mean(1) for one in flat]).mean(0),
        torch.stack([one.var(1) for one in flat]).mean(0),
    )


def test_statistics_are_those_of_all_batches():
    model, given = Chain().train(), batches()
    expected = statistics([model.a(one).detach() for one in given])
    before = copy.deepcopy(model)
    assert recalibrate(model, given) == ("norm",)
    torch.testing.assert_close(model.norm.running_mean, expected[0])
    torch.testing.assert_close(model.norm.running_var, expected[1])
    assert model.norm.num_batches_tracked == 4
    for name, value in before.named_parameters():
        assert torch.equal(value, model.get_parameter(name))


def test_modes_momentum_hooks_and_random_state_stay():
    model = Chain().train()
    model.norm.eval()
    model.norm.momentum = 0.3
    model.b.training = False
    random = torch.random.get_rng_state()
    modes = {name: module.training for name, module in model.named_modules()}
    recalibrate(model, batches())
    assert {name: module.training for name, module in model.named_modules()} == modes
    assert model.norm.momentum == 0.3
    assert not model.norm._forward_pre_hooks
    assert torch.equal(random, torch.random.get_rng_state())


def test_dropout_sleeps_meanwhile():
    class Dropped(nn.Sequential):
        def __init__(self):
            super().__init__(nn.Dropout(0.9), nn.BatchNorm2d(3))

    model, given = Dropped().train(), batches()
    recalibrate(model, given)
    torch.testing.assert_close(model[1].running_mean, statistics(given)[0])


@pytest.mark.parametrize("traced_on", [1, 3])
def test_a_traced_module_learns_the_same_as_the_model_would(traced_on):
    model = Fixed()
    pruned = prunus.prune(model, image(traced_on, 4), 0.5)
    assert pruned.how == "traced"
    given = batches()
    expected = statistics([_conv(pruned, one) for one in given])
    before = fingerprint(pruned.model)
    found = recalibrate(pruned.model, given)
    assert len(found) == 1
    torch.testing.assert_close(pruned.model.norm.running_mean, expected[0])
    torch.testing.assert_close(pruned.model.norm.running_var, expected[1])
    changed = copy.deepcopy(pruned.model)
    recalibrate(changed, given)
    assert torch.equal(changed.norm.running_var, pruned.model.norm.running_var)
    assert before != fingerprint(pruned.model)


def _conv(pruned, x):
    conv = pruned.model.conv
    return nn.functional.conv2d(x, conv.weight, conv.bias, padding=1).detach()


def test_a_cut_gets_better_statistics():
    torch.manual_seed(1)
    model = Chain().eval()
    pruned = prunus.prune(model, image(2, 4), {"a.weight": 0.5})
    recalibrate(pruned.model, batches())
    expected = statistics([pruned.model.a(one).detach() for one in batches()])
    torch.testing.assert_close(pruned.model.norm.running_mean, expected[0])


class Unused(nn.Module):
    def __init__(self):
        super().__init__()
        self.used, self.twice = nn.BatchNorm2d(3), nn.BatchNorm2d(3)
        self.other = nn.BatchNorm2d(3)
        self.other.running_mean.fill_(7)
        self.plain = nn.BatchNorm2d(3, track_running_stats=False)

    def forward(self, x):
        return self.twice(self.twice(self.plain(self.used(x))) + 1)


def test_a_layer_that_never_runs_keeps_its_own():
    model = Unused()
    assert recalibrate(model, batches()) == ("used", "twice")
    assert model.other.running_mean.tolist() == [7, 7, 7]
    assert model.twice.num_batches_tracked == 8


def test_without_batch_norms_nothing_happens():
    def never():
        raise AssertionError("read")
        yield

    assert recalibrate(nn.Conv2d(3, 2, 1), never()) == ()


def test_batches_with_targets_keywords_and_calls_of_ones_own():
    class Named(Chain):
        def forward(self, pixels, scale=1.0):
            return super().forward(pixels * scale)

    given = batches()
    plain, paired, named, own = (copy.deepcopy(Named()) for _ in range(4))
    for other in (paired, named, own):
        other.load_state_dict(plain.state_dict())
    recalibrate(plain, given)
    recalibrate(paired, [(one, torch.zeros(6)) for one in given])
    recalibrate(named, [{"pixels": one, "scale": 1.0} for one in given])
    recalibrate(own, [[0, one] for one in given], forward=lambda model, b: model(b[1]))
    for other in (paired, named, own):
        assert torch.equal(other.norm.running_var, plain.norm.running_var)


@pytest.mark.parametrize("make", [Chain, Fixed])
@pytest.mark.parametrize(
    ("given", "told"),
    [
        ([], r"no batch to take statistics from"),
        ([image(4, 4), image(4, 4)[:, :2]], r"(?s)does not run on batch 2: RuntimeError.*forward="),
        ([image(4, 4), torch.full((4, 3, 4, 4), float("nan"))], "given values that are not finite"),
    ],
)
def test_a_failure_changes_nothing(make, given, told):
    model = prunus.prune(make(), image(2, 4), 0.5).model
    model.norm.running_mean.fill_(3)
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(EvaluationError, match=told):
        recalibrate(model, given)
    after = model.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_one_value_is_too_few():
    model = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.BatchNorm2d(3))
    with pytest.raises(
        EvaluationError, match=r"(?s)batch 1: ValueError.*more than one image, for batch"
    ):
        recalibrate(model, [image(1)])


def test_a_graph_that_is_fixed_to_evaluation_is_refused():
    exported = torch.export.export(Chain().eval(), (image(2, 4),)).module()
    with pytest.raises(
        PrunusError, match=r"(?s)'batch_norm' in the graph .* fixed to evaluation.*before it is exp"
    ):
        recalibrate(exported, batches())

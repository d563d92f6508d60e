"""The rest of a model runs as it is, and the traced part is played by somebody else."""

import pytest
import torch
from torch import nn

from prunus.backends.torch.backend import TorchBackend
from prunus.backends.torch.caller import Caller
from prunus.core.engine.evaluation import Evaluation

from .nets import Branching, Chain, Within, image, output

BATCH = (image(3), torch.tensor([0, 1, 2]))


def caller(model, within=None, **how):
    return Caller(TorchBackend().trace(model.eval(), image(), within), Evaluation([], **how))


def test_a_plain_call_is_not_run_to_be_heard():
    class Counts(Chain):
        calls = 0

        def forward(self, x):
            Counts.calls += 1
            return super().forward(x)

    one = caller(Counts())
    before = Counts.calls
    call = one.heard(BATCH)
    assert Counts.calls == before
    assert call.args[0] is BATCH[0]
    assert one.replay(BATCH, "played") == "played"


@pytest.mark.parametrize(
    ("inputs", "args", "kwargs"),
    [
        ([5, 6], (5, 6), {}),
        ({"x": 5, "labels": 6}, (), {"x": 5}),
        (5, (5,), {}),
    ],
)
def test_how_a_batch_is_a_call(inputs, args, kwargs):
    heard = caller(Chain()).heard((inputs, 7))
    assert (heard.args, heard.kwargs) == (args, kwargs)


def test_a_forward_of_the_users_is_heard_and_answered():
    model = Chain()
    one = caller(model, forward=lambda net, batch: net(batch[0] * 2) + 1)
    with torch.no_grad():
        call, whole = one.listen(BATCH)
    assert torch.equal(call.args[0], BATCH[0] * 2)
    assert torch.equal(whole, output(model, BATCH[0] * 2) + 1)
    assert torch.equal(one.replay(BATCH, torch.zeros(3, 5)), torch.ones(3, 5))


@pytest.mark.parametrize(
    ("model", "within"), [(Branching(Chain()), "backbone"), (Within(Chain()), "outer.inner")]
)
def test_a_part_is_heard_and_answered_and_the_users_model_stays(model, within):
    one = caller(model, within)
    modules = list(model.named_modules())
    with torch.no_grad():
        call, whole = one.listen(BATCH)
        assert torch.equal(whole, model(BATCH[0]))
        part = model.get_submodule(within)
        assert torch.equal(one.replay(BATCH, call.call(part)), whole)
        assert not torch.equal(one.replay(BATCH, call.call(part) + 9), whole)
    assert list(model.named_modules()) == modules


def test_what_was_heard_does_not_change_with_what_is_written_into():
    def forward(net, batch):
        x = batch[0].clone()
        found = net(x)
        x.zero_()
        return found

    one = caller(Chain(), forward=forward)
    with torch.no_grad():
        assert torch.equal(one.listen(BATCH)[0].args[0], BATCH[0])


@pytest.mark.parametrize(
    "forward",
    [
        lambda net, batch: net(batch[0]) + net(batch[0].flip(3)),
        lambda net, batch: net.head(torch.zeros(3, 12)),
        lambda net, batch: net(batch[0]) + net.a.weight.sum(),
        lambda net, batch: net(batch[0]) + sum(one.sum() for one in net.parameters()),
    ],
    ids=["twice", "never", "a weight", "all weights"],
)
def test_a_part_that_is_used_otherwise_is_not_played(forward):
    model = Chain()
    with torch.no_grad():
        call, whole = caller(model, forward=forward).listen(BATCH)
        assert call is None
        assert torch.equal(whole, forward(model, BATCH))


@pytest.mark.parametrize(
    "forward",
    [
        lambda net, batch: net(batch[0].to(next(net.parameters()).device)),
        lambda net, batch: net.eval()(batch[0]),
        lambda net, batch: net(batch[0]) if net.training is False else None,
    ],
    ids=["device", "eval", "training"],
)
def test_what_evaluation_code_often_does_is_no_other_use(forward):
    model = Chain()
    one = caller(model, forward=forward)
    with torch.no_grad():
        call, whole = one.listen(BATCH)
        assert call is not None
        assert torch.equal(whole, output(model, BATCH[0]))


def test_attributes_of_the_part_are_there():
    model = Chain()
    model.classes = ("a", "b")
    one = caller(model, forward=lambda net, batch: (net(batch[0]), net.classes))
    with torch.no_grad():
        call, (_, classes) = one.listen(BATCH)
    assert call is not None
    assert classes == ("a", "b")
    with pytest.raises(AttributeError, match="nothing"):
        _ = one.stand_in.nothing


def test_weights_outside_of_the_part_are_shared_not_copied():
    model = Branching(Chain())
    one = caller(model, "backbone")
    assert one.listener.head.weight is model.head.weight
    assert isinstance(model.backbone, Chain)
    assert isinstance(one.listener.head, nn.Linear)

"""The traced module: where `forward` holds a number that the cut changed."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import prunus
from prunus.core.errors import TraceError

from .nets import Fixed, image, learn, output


def pruned_fixed(batch=2):
    return prunus.prune(Fixed(), image(batch, 4), 0.5)


def test_the_result_says_so():
    pruned = pruned_fixed()
    assert pruned.how == "traced"
    assert pruned.error < 1e-9
    assert pruned.model.conv.weight.shape == (4, 3, 3, 3)
    assert list(pruned.model.state_dict()) == list(Fixed().state_dict())


@pytest.mark.parametrize("traced_on", [1, 2, 5])
def test_any_batch_size(traced_on):
    model = pruned_fixed(traced_on).model
    for batch in (1, 2, 7):
        assert model(image(batch, 4)).shape == (batch, 10)


class Masked(nn.Module):
    """Takes a mask that is the same for the whole batch."""

    def __init__(self):
        super().__init__()
        self.conv, self.head = nn.Conv2d(3, 8, 1), nn.Linear(128, 2)

    def forward(self, x, *, mask=None, flip=False, shift=0.0):
        y = self.conv(x) * mask + shift
        return self.head((-y if flip else y).reshape(-1, 128))


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("rank", [3, 4])
def test_what_is_the_same_for_the_whole_batch_stays_so(batch, rank):
    others = {"mask": torch.rand(1, 4, 4), "flip": True, "shift": torch.rand(1, 1, 4, 4)}
    others["mask"] = others["mask"].reshape([1] * (rank - 2) + [4, 4])
    pruned = prunus.prune(Masked(), {"x": image(batch, 4), **others}, 0.5)
    assert pruned.how == "traced"
    assert pruned.model(x=image(3, 4), **others).shape == (3, 2)


def test_an_argument_without_a_parameter_of_its_own_is_told():
    class Loose(Masked):
        def forward(self, x, **more):
            return super().forward(x, **more)

    with pytest.raises(TraceError, match=r"'mask' reaches it through \*\*"):
        prunus.prune(Loose(), {"x": image(2, 4), "mask": torch.rand(1, 4, 4)}, 0.5)


def test_dropout_and_batch_norm_follow_the_mode():
    model, x = pruned_fixed().model, image(4, 4)
    model.eval()
    assert torch.equal(model(x), model(x))
    seen = model.norm.running_mean.clone()
    model.train()
    assert not torch.equal(model(x), model(x))
    assert not torch.equal(seen, model.norm.running_mean)
    model.eval()
    seen = model.norm.running_mean.clone()
    model(x)
    assert torch.equal(seen, model.norm.running_mean)


def test_channelwise_dropout_drops_channels():
    model = pruned_fixed().model.train()
    dropped = model.drop.feature_dropout_layer(torch.ones(64, 4, 4, 4))
    per_channel = dropped.flatten(2)
    assert torch.equal(per_channel.amin(2), per_channel.amax(2))
    assert set(per_channel.amax(2).unique().tolist()) == {0.0, 2.0}


@pytest.mark.parametrize(
    "kind", [nn.Dropout1d, nn.Dropout3d, nn.AlphaDropout, nn.FeatureAlphaDropout]
)
def test_every_kind_of_dropout_follows_the_mode(kind):
    class Drops(nn.Module):
        def __init__(self):
            super().__init__()
            rank = {nn.Dropout1d: 1, nn.Dropout3d: 3}.get(kind, 2)
            self.rank = rank
            conv = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[rank - 1]
            self.conv, self.drop, self.head = conv(3, 8, 1), kind(0.5), nn.Linear(8 * 2**rank, 2)

        def forward(self, x):
            return self.head(self.drop(self.conv(x)).reshape(-1, 8 * 2**self.rank))

    model = Drops()
    x = torch.randn(4, 3, *[2] * model.rank)
    pruned = prunus.prune(model, x, 0.5)
    assert pruned.how == "traced"
    pruned.model.train()
    assert not torch.equal(pruned.model(x), pruned.model(x))
    pruned.model.eval()
    assert torch.equal(pruned.model(x), pruned.model(x))


def test_a_functional_dropout_follows_the_mode():
    class Functional(Fixed):
        def forward(self, x):
            y = F.dropout(self.conv(x), 0.5, self.training)
            return self.head(y.reshape(-1, 128))

    model, x = prunus.prune(Functional(), image(2, 4), 0.5).model, image(2, 4)
    assert not torch.equal(model.train()(x), model(x))
    assert torch.equal(model.eval()(x), model(x))


def test_it_learns_and_frozen_parameters_stay_frozen():
    model = Fixed()
    model.conv.bias.requires_grad_(False)
    pruned = prunus.prune(model, image(2, 4), 0.5).model
    assert not pruned.conv.bias.requires_grad
    x = image(4, 4)
    losses = learn(pruned, x, steps=8)
    assert losses[-1] < losses[0]


def test_tied_weights_and_buffers_that_are_not_stored_stay_so():
    class TiedFixed(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Conv2d(3, 8, 1), nn.Conv2d(3, 8, 1)
            self.b.weight = self.a.weight
            self.register_buffer("scale", torch.rand(8, 1, 1), persistent=False)
            self.head = nn.Linear(128, 2)
            self.unused = nn.Linear(2, 2)

        def forward(self, x):
            y = (self.a(x) + self.b(x)) * self.scale
            return self.head(y.reshape(-1, 128))

    model, x = TiedFixed(), image(2, 4)
    pruned = prunus.prune(model, x, 0.5)
    assert pruned.how == "traced"
    assert pruned.model.a.weight is pruned.model.b.weight
    assert pruned.model.scale.shape == (4, 1, 1)
    assert list(pruned.model.state_dict()) == list(model.state_dict())
    assert output(pruned.model, x).shape == (2, 2)


def test_a_tensor_that_forward_builds_is_part_of_the_traced_module(tmp_path):
    class Scaled(Fixed):
        def forward(self, x):
            return super().forward(x * torch.tensor([1.0, 2.0, 3.0])[:, None, None])

    model, x = Scaled().eval(), image(size=4)
    pruned = prunus.prune(model, x, 0.5)
    assert pruned.how == "traced"
    assert pruned.error < 1e-9
    prunus.save(pruned, tmp_path / "small.safetensors")
    again = prunus.load(Scaled().eval(), tmp_path / "small.safetensors")
    for each in (again, copy.deepcopy(pruned.model)):
        assert torch.equal(each(x), pruned.model(x))

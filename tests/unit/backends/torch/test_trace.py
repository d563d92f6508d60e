"""What cannot be traced is told, with the line or the mistake, and what to do."""

import types
import warnings

import pytest
import torch
from torch import nn

import prunus
from prunus.core.errors import NothingToCutError, PrunusError, TraceError

from .nets import Branching, Chain, image


@pytest.mark.parametrize(
    "example",
    [None, (), [image()], "image", torch.randn(2, 4, 8, 8), {"y": image()}, (image(), image()), 3],
    ids=["none", "empty", "list", "text", "channels", "keyword", "too many", "number"],
)
def test_an_example_that_does_not_fit_is_told(example):
    with pytest.raises(TraceError, match="the model does not run on this example: ") as told:
        prunus.trace(Chain(), example)
    assert "a tensor, a tuple of arguments, or a dict of keywords" in told.value.fix


def test_a_model_that_takes_a_list_is_given_one():
    class Lists(Chain):
        def forward(self, xs):
            return super().forward(xs[0])

    assert prunus.prune(Lists(), [image()], 0.5).error < 1e-9


@pytest.mark.parametrize("example", [(image(),), {"x": image()}])
def test_arguments_and_keywords(example):
    assert prunus.trace(Chain(), example).groups


def test_a_model_that_cannot_be_traced_is_told_with_the_line():
    with pytest.raises(
        TraceError, match=r"the model runs, but cannot be traced: .*nets\.py:\d+, in"
    ):
        prunus.trace(Branching(Chain()), image())


def test_a_script_module_is_told():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        script = torch.jit.trace(nn.Conv2d(3, 4, 1), image())
    with pytest.raises(TraceError, match="the model is a TorchScript module") as told:
        prunus.trace(script, image())
    assert told.value.fix == "pass the nn.Module that it was scripted or traced from"
    with pytest.raises(TraceError, match="'1' is a TorchScript module"):
        prunus.trace(nn.Sequential(nn.Conv2d(3, 3, 1), script), image())


def test_an_example_on_another_device_is_told():
    with torch.device("meta"):
        model = Chain()
    with pytest.raises(
        TraceError, match="the model is on 'meta' and the example is on 'cpu'"
    ) as told:
        prunus.trace(model, image())
    assert "example.to('meta')" in told.value.fix


def test_a_model_on_a_gpu_with_an_example_that_is_not():
    class Far(nn.Module):
        """Says that its weights are on a GPU, where there may be none."""

        def parameters(self, recurse=True):
            return iter([types.SimpleNamespace(device=torch.device("cuda", 0))])

    with pytest.raises(TraceError, match="the model is on 'cuda' and the example is on 'cpu'"):
        prunus.trace(Far(), image())


def test_a_model_without_values_can_be_traced_and_not_cut():
    with torch.device("meta"):
        model = Chain()
    assert len(prunus.trace(model, image().to("meta")).groups) == 2
    with pytest.raises(
        PrunusError, match=r"'a\.weight' is on the device 'meta', where tensors have"
    ):
        prunus.prune(model, image().to("meta"), 0.5)


def test_a_lazy_layer_is_told():
    model = nn.Sequential(nn.LazyConv2d(8, 3), nn.Conv2d(8, 2, 1))
    with pytest.raises(TraceError, match=r"'0\.weight' has no shape yet") as told:
        prunus.trace(model, image())
    assert "run the model once" in told.value.fix
    model(image())
    assert prunus.trace(model, image()).groups


def test_a_model_without_layers_has_nothing_to_cut():
    with pytest.raises(
        NothingToCutError, match="it has no convolution or other layer with filters"
    ):
        prunus.prune(nn.Sequential(nn.ReLU()), image(), 0.5)
    with pytest.raises(
        NothingToCutError, match=r"'0\.weight' stays, it is an output of the network"
    ):
        prunus.prune(nn.Sequential(nn.Conv2d(3, 4, 1)), image(), 0.5)


def test_one_tensor_given_twice_is_two_arguments():
    class Adds(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.head = nn.Conv2d(3, 8, 1), nn.Linear(128, 2)

        def forward(self, x, y):
            return self.head(self.a(x - 2 * y).reshape(-1, 128))

    x, y = image(2, 4), image(2, 4)
    model = prunus.prune(Adds(), (x, x), 0.5)
    assert model.how == "traced"
    assert not torch.allclose(model.model(x, y), model.model(y, x))


def test_tracing_prints_and_logs_nothing(capfd):
    prunus.trace(Chain(), image())
    with pytest.raises(TraceError, match="cannot be traced"):
        prunus.trace(Branching(Chain()), image())
    assert capfd.readouterr() == ("", "")


def test_an_unknown_function_is_named_as_it_is_written():
    class Mapped(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(3, 4, 1)

        def forward(self, x):
            return torch.vmap(lambda one: self.conv(one[None])[0])(x)

    assert prunus.trace(Mapped(), image()).unknown == ("_add_batch_dim", "_remove_batch_dim")

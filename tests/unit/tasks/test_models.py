"""Models by name, and examples made from shapes."""

import sys

import pytest
import torch
from torch import nn

from prunus.core.errors import MissingExtraError, PrunusError, UnknownNameError
from prunus.tasks.data import load_data
from prunus.tasks.models import build, build_model, example_of, shape_of
from prunus.tasks.settings import DataSettings, ModelSettings
from prunus.tasks.torch.weights import save_weights


def test_an_example_has_the_type_of_the_weights():
    (found,) = example_of(nn.Linear(3, 2).double(), [(4, 3)])
    assert (found.dtype, found.shape) == (torch.float64, (4, 3))


def test_a_model_without_weights_gets_single_precision():
    assert [one.dtype for one in example_of(nn.ReLU(), [(1,), (2, 2)])] == [torch.float32] * 2


def test_random_state_is_left_alone():
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    example_of(nn.ReLU(), [(5,)])
    assert torch.equal(torch.rand(1), expected)


# Models by name.


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A module `own_models`, as a user has one in the folder where prunus runs."""
    (tmp_path / "own_models.py").write_text(
        "from torch import nn\n"
        "def wide(width=4):\n"
        "    if width < 1:\n"
        "        raise ValueError('too narrow')\n"
        "    return nn.Linear(3, width)\n"
        "ready = wide()\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    yield "own_models"
    sys.modules.pop("own_models", None)


def test_arguments_reach_the_factory(module):
    assert build(f"{module}:wide").out_features == 4
    assert build(f"{module}:wide", {"width": 7}).out_features == 7


def test_a_ready_model_takes_no_arguments(module):
    assert build(f"{module}:ready").out_features == 4
    with pytest.raises(PrunusError, match=r"(?s)ready model, which takes no arguments \(width\)"):
        build(f"{module}:ready", {"width": 7})


def test_a_factory_that_fails_is_shown_with_its_arguments(module):
    with pytest.raises(
        PrunusError,
        match=r"(?s)fails when called with width=0: ValueError: too narrow.*"
        r"own_models\.wide\(width=0\).*model\.arguments",
    ):
        build(f"{module}:wide", {"width": 0})


@pytest.mark.usefixtures("torchvision_operators")
@pytest.mark.parametrize(
    ("spec", "arguments"),
    [
        ("timm:resnet10t", {"num_classes": 5}),
        ("torchvision:squeezenet1_1", {"num_classes": 5, "weights": None}),
    ],
)
def test_models_of_collections(spec, arguments):
    model = build(spec, arguments).eval()
    with torch.no_grad():
        assert model(torch.rand(1, 3, 64, 64)).shape == (1, 5)


@pytest.mark.usefixtures("torchvision_operators")
@pytest.mark.parametrize(
    ("spec", "near"), [("timm:resnet1", "resnet"), ("torchvision:mobilnet_v2", "'mobilenet_v2'")]
)
def test_a_wrong_name_shows_the_nearest(spec, near):
    package, _, name = spec.partition(":")
    with pytest.raises(UnknownNameError, match=f"(?s){package} has no model '{name}'.*{near}"):
        build(spec)


@pytest.mark.usefixtures("torchvision_operators")
def test_wrong_arguments_of_a_collection_point_to_its_documentation():
    with pytest.raises(
        PrunusError,
        match=r"(?s)'torchvision:squeezenet1_1' fails when called with clases=5: TypeError.*"
        "see in the documentation of torchvision",
    ):
        build("torchvision:squeezenet1_1", {"clases": 5})


def test_a_missing_collection_gives_the_line_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(MissingExtraError, match=r"(?s)needs 'timm'.*fix: pip install timm$"):
        build("timm:resnet18")


def test_weights_of_the_settings_are_loaded(module, tmp_path):
    trained = build(f"{module}:wide", {"width": 2})
    save_weights(trained, tmp_path / "w.safetensors")
    settings = ModelSettings(
        name=f"{module}:wide", arguments={"width": 2}, weights=tmp_path / "w.safetensors"
    )
    assert torch.equal(build_model(settings).weight, trained.weight)
    fresh = build_model(ModelSettings(name=f"{module}:wide"))
    assert fresh.out_features == 4


def test_the_shape_of_the_settings_or_of_the_data():
    data = load_data(DataSettings(kind="digits", channels=1))
    given, without = ModelSettings(name="a:b", shape=(2, 3, 4)), ModelSettings(name="a:b")
    assert shape_of(given, data) == shape_of(given) == (2, 3, 4)
    assert shape_of(without, data) == (1, 1, 8, 8)
    with pytest.raises(PrunusError, match=r"(?s)what the model is traced on.*give model\.shape"):
        shape_of(without)

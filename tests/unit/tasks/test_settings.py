"""Settings: every field described, unknown keys and impossible values refused."""

import pytest
from pydantic import BaseModel, ValidationError

from prunus.tasks import settings
from prunus.tasks.settings import DataSettings, MetricSettings, ModelSettings, TrainSettings

SECTIONS = [getattr(settings, name) for name in settings.__all__]


@pytest.mark.parametrize("section", SECTIONS)
def test_every_field_is_described(section):
    assert issubclass(section, BaseModel)
    assert section.__doc__
    for name, field in section.model_fields.items():
        assert field.description, name
        assert field.description.endswith((".", ")", "]")), name


@pytest.mark.parametrize("section", SECTIONS)
def test_an_unknown_key_is_refused(section):
    with pytest.raises(ValidationError, match="Extra inputs are not permitted"):
        section.model_validate({"nonsense": 1})


def test_defaults_are_enough():
    assert DataSettings(kind="digits").batch_size == 32
    assert TrainSettings().distillation is None
    assert MetricSettings().name == "top1"
    assert ModelSettings(name="timm:resnet18").weights is None


def test_what_yaml_reads_as_text_or_a_list():
    # PyYAML takes 1e-3 for text, for YAML wants a dot in it.
    read = TrainSettings.model_validate({"learning_rate": "1e-3", "step_epochs": [4, 6, 8]})
    assert (read.learning_rate, read.step_epochs) == (0.001, (4, 6, 8))
    data = DataSettings.model_validate({"kind": "folder", "train": "images", "image_size": [8, 9]})
    assert data.image_size == (8, 9)
    assert TrainSettings.model_validate({"distillation": {}}).distillation.temperature == 4


@pytest.mark.parametrize(
    ("section", "given", "told"),
    [
        (DataSettings, {"kind": "foldr"}, "no kind of data 'foldr': use folder, csv, datasets"),
        (DataSettings, {"kind": "folder"}, "data of kind 'folder' needs `train`"),
        (DataSettings, {"kind": "digits", "mean": [1, 2]}, "mean has 2 numbers, and the images"),
        (DataSettings, {"kind": "digits", "std": [0]}, "greater than 0"),
        (DataSettings, {"kind": "digits", "channels": 2}, "Input should be 1 or 3"),
        (DataSettings, {"kind": "digits", "batch_size": 0}, "greater than or equal to 1"),
        (ModelSettings, {"name": ""}, "at least 1 character"),
        (ModelSettings, {"name": "a:b", "shape": [1, 0]}, "greater than or equal to 1"),
        (TrainSettings, {"learning_rate": "nan"}, "finite number"),
        (TrainSettings, {"optimizer": "adam"}, "'sgd' or 'adamw'"),
        (TrainSettings, {"device": "gpu"}, "match pattern"),
        (TrainSettings, {"epochs": 2, "warmup_epochs": 2}, "warm-up of 2 epochs is as long as"),
        (TrainSettings, {"epochs": 2, "step_epochs": [1, 2]}, "must lie within the 2 epochs"),
    ],
)
def test_impossible_values_are_refused(section, given, told):
    with pytest.raises(ValidationError, match=told):
        section.model_validate(given)

"""The YAML file: paths, overrides, what finetune takes over from train, and every mistake."""

from __future__ import annotations

from pathlib import Path

import pytest

from prunus.core.errors import ConfigError
from prunus.tasks.config import load_config

MODEL = "model:\n  name: mine:net\n"


@pytest.fixture
def load(tmp_path):
    def loaded(text: str, *overrides: str):
        (tmp_path / "prunus.yaml").write_text(text)
        return load_config(tmp_path / "prunus.yaml", overrides)

    return loaded


def test_a_model_is_enough(load, tmp_path):
    config = load(MODEL)
    assert config.model.name == "mine:net"
    with pytest.raises(ConfigError, match=r"no section 'data'\n  fix: say where the images are"):
        config.images  # noqa: B018
    assert config.study == tmp_path / "runs" / "analysis.study"
    assert config.trained == tmp_path / "runs" / "trained.safetensors"
    assert config.train.folder == tmp_path / "runs" / "train"
    assert config.finetune.folder == tmp_path / "runs" / "finetune"


def test_paths_are_relative_to_the_file_and_those_that_are_typed_are_not(load, tmp_path):
    text = MODEL + "  weights: w.safetensors\nfolder: out\nanalysis:\n  study: /else/s.study\n"
    config = load(text)
    assert config.model.weights == tmp_path / "w.safetensors"
    assert config.folder == tmp_path / "out"
    assert config.study == Path("/else/s.study")
    typed = load(text, "model.weights=here.pt", "folder=there")
    assert typed.model.weights == Path("here.pt")
    assert typed.train.folder == Path("there/train")


def test_a_file_beside_us_has_short_paths(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("prunus.yaml").write_text(MODEL)
    assert load_config("prunus.yaml").study == Path("runs/analysis.study")


def test_finetune_is_as_train_but_for_what_it_says(load):
    config = load(MODEL + "train:\n  epochs: 7\n  optimizer: sgd\nfinetune:\n  epochs: 3\n")
    assert (config.train.epochs, config.finetune.epochs) == (7, 3)
    assert config.finetune.optimizer == "sgd"
    assert config.train.folder != config.finetune.folder


def test_overrides_are_read_as_yaml(load):
    config = load(
        MODEL,
        "train.epochs=5",
        "train.learning_rate=1e-2",
        "analysis.ratios=[0.25, 0.5]",
        "model.arguments.num_classes=10",
        "data.kind=digits",
        "data.augment.flip=true",
        "train.seed=null",
    )
    assert (config.train.epochs, config.train.learning_rate) == (5, 0.01)
    assert config.analysis.ratios == (0.25, 0.5)
    assert config.model.arguments == {"num_classes": 10}
    assert config.images.augment.flip
    assert config.train.seed is None


def test_a_list_may_be_written_with_commas(load):
    config = load(MODEL, "analysis.ratios=0.2,0.4", "analysis.params=a.*,b")
    assert config.analysis.ratios == (0.2, 0.4)
    assert config.analysis.params == ("a.*", "b")


def test_an_empty_section_has_its_defaults(load):
    assert load(MODEL + "train:\nanalysis:\nfinetune:\n").train.epochs == 20


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            MODEL + "train:\n  epoch: 3\n",
            r"prunus\.yaml, line 4: there is no key 'train\.epoch'\n"
            r"  fix: the nearest are 'train\.epochs'",
        ),
        # A key in the wrong place is shown its places.
        (
            MODEL + "epochs: 3\n",
            r"line 3: there is no key 'epochs'\n  fix: .* 'train\.epochs', 'finetune\.epochs'$",
        ),
        # What is misspelled comes before what is missing for that.
        ("model:\n  nme: a\n", r"line 2: .*'model\.nme' \(and 1 more: model\.name\)"),
        ("train:\n  epochs: 3\n", r"'model' is missing\n  fix: set it: the network"),
        ("model: 3\n", r"line 1: 'model' is 3, and it should be a section"),
        (MODEL + "finetune: 3\n", r"line 3: 'finetune' is 3, and it should be a section"),
        (
            MODEL + "train:\n  epochs: many\n",
            r"line 4: 'train\.epochs' is 'many', and it should be a valid integer.*\n"
            r"  fix: set it: rounds over the training images",
        ),
        (MODEL + "train:\n  epochs: 0\n", r"'train\.epochs' is 0, .*greater than or equal to 1"),
        (MODEL + "train:\n  optimizer: adam\n", r"is 'adam', and it should be 'sgd' or 'adamw'"),
        (
            MODEL + "train:\n  epochs: 3\n  warmup_epochs: 5\n",
            r"line 3: the warm-up of 5 epochs .*\n  fix: change that in the section 'train'$",
        ),
        (MODEL + "data:\n  kind: csv\n", r"line 3: data of kind 'csv' needs `train`"),
        (
            MODEL + "finetune:\n  distillation: {weight: 2}\n",
            r"line 4: 'finetune\.distillation\.weight' is 2",
        ),
        (
            MODEL + "analysis:\n  ratios: [0.1, 2]\n",
            r"line 4: 'analysis\.ratios' is \[0\.1, 2\], and every ratio must lie above 0",
        ),
    ],
)
def test_a_mistake_is_named_with_its_place(load, text, message):
    with pytest.raises(ConfigError, match=message):
        load(text)


def test_a_mistake_of_train_is_not_told_twice(load):
    with pytest.raises(ConfigError, match=r"equal to 1\n"):  # and not "(and 1 more: ...)"
        load(MODEL + "train:\n  epochs: 0\n")


def test_a_mistake_that_was_typed_is_named_as_typed(load):
    with pytest.raises(ConfigError, match=r"^-o train\.epochs: 'train\.epochs' is 'x'"):
        load(MODEL, "train.epochs=x")

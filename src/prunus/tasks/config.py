"""The YAML file: which model on which data, how it is trained, analysed, cut and trained on.

Every key can be set on the command line, too: `-o train.epochs=5`. Whatever is wrong is
named with its place and the nearest key that there is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from prunus.core.errors import ConfigError
from prunus.tasks.settings import DataSettings, MetricSettings, ModelSettings, TrainSettings
from prunus.tasks.yaml_errors import explain
from prunus.tasks.yaml_file import Lines, override, read_yaml

__all__ = ["AnalysisSettings", "Config", "PruneSettings", "load_config"]

_Kind = TypeVar("_Kind", bound=BaseModel)


class _Section(BaseModel):
    """One part of the file: a key that nobody reads is a mistake, so it is refused."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, allow_inf_nan=False, protected_namespaces=()
    )


class AnalysisSettings(_Section):
    """What is measured of each group of channels."""

    study: Path | None = Field(
        default=None, description="The file of results. null: analysis.study in `folder`."
    )
    ratios: tuple[float, ...] = Field(
        default=(0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9),
        min_length=1,
        description="Shares of each group's channels to try without.",
    )
    params: tuple[str, ...] | None = Field(
        default=None,
        description="Names or patterns of the weights to analyse, such as [layer1.*]. "
        "null takes all.",
    )
    criterion: str = Field(
        default="l1",
        description="Which channels go first: l1, l2, fpgm, bn_scale, taylor, random, or "
        "MODULE:FUNCTION from filters to scores. The cut uses it, too.",
    )
    align: int = Field(default=1, ge=1, description="Leave a multiple of this many channels.")
    adaptive: float | None = Field(
        default=None,
        gt=0,
        description="Stop each measurement when its loss is known within this much, "
        "such as 0.005. null sees every sample.",
    )
    budget: float | None = Field(
        default=None, gt=0, description="Measure only what tells where each group loses this much."
    )
    estimate: bool = Field(
        default=False, description="Begin with a guess from gradients, which is shown apart."
    )
    recalibrate: int = Field(
        default=0,
        ge=0,
        description="Batches of training images on which each cut model's batch norms "
        "learn their statistics anew; 0 leaves them.",
    )
    precision: str | None = Field(
        default=None,
        description="bfloat16 or float16, for speed; it is written into the study. null "
        "measures in the model's own.",
    )

    @field_validator("ratios", "params", mode="before")
    @classmethod
    def _list(cls, value: object) -> object:
        """Let a list be written with commas alone, as on a command line."""
        return [one.strip() for one in value.split(",")] if isinstance(value, str) else value

    @field_validator("ratios")
    @classmethod
    def _between(cls, ratios: tuple[float, ...]) -> tuple[float, ...]:
        if not all(0 < ratio <= 1 for ratio in ratios):
            raise ValueError("every ratio must lie above 0 and at most at 1")
        return ratios


class PruneSettings(_Section):
    """What is done beside the cut itself."""

    recalibrate: int = Field(
        default=50,
        ge=0,
        description="Batches of training images on which the cut model's batch norms "
        "learn their statistics anew; 0 leaves them.",
    )
    verify: bool = Field(
        default=True,
        description="Compare the cut model with the original; a wrong one is never kept.",
    )


class Config(_Section):
    """The whole file."""

    model: ModelSettings = Field(description="The network.")
    data: DataSettings | None = Field(
        default=None,
        description="Labelled images for training and for testing.",
    )
    metric: MetricSettings = Field(
        default_factory=MetricSettings, description="What a model is judged by."
    )
    train: TrainSettings = Field(
        default_factory=TrainSettings, description="How the model is trained before the cut."
    )
    analysis: AnalysisSettings = Field(
        default_factory=AnalysisSettings, description="What is measured of each group of channels."
    )
    prune: PruneSettings = Field(
        default_factory=PruneSettings, description="What is done beside the cut."
    )
    finetune: TrainSettings = Field(
        default_factory=TrainSettings,
        description="How the cut model is trained on: any key of `train` can stand here, "
        "too, and what is not said is as there.",
    )
    folder: Path = Field(
        default=Path("runs"),
        description="Where everything is kept that nobody gave a place of its own.",
    )

    @property
    def images(self) -> DataSettings:
        """Return the data, for a command that cannot do without."""
        if self.data is None:
            raise ConfigError(
                "the file has no section 'data'",
                fix="say where the images are: data.kind and data.train; prunus init writes an "
                "example",
            )
        return self.data

    @property
    def study(self) -> Path:
        """Return the file of results of the analysis."""
        return self.analysis.study or self.folder / "analysis.study"

    @property
    def trained(self) -> Path:
        """Return where `prunus train` leaves the weights."""
        return self.folder / "trained.safetensors"


def load_config(path: str | Path, overrides: Sequence[str] = ()) -> Config:
    """Read a YAML file and what is set on the command line over it ("train.epochs=5").

    Relative paths are relative to the file; those on the command line, to the folder that
    one is in.
    """
    path = Path(path)
    data, lines = read_yaml(path)
    changed = [override(data, text) for text in overrides]
    own = _finetune(data)
    if isinstance(data.get("finetune", {}), Mapping):
        data["finetune"] = {**_inherited(data), **own}
    try:
        config = Config.model_validate(data)
    except ValidationError as error:
        inherited = set(_inherited(data)) - set(own)
        raise explain(error, Config, Lines(path, lines, changed), inherited) from error
    return _placed(config, path.parent, {".".join(one) for one in changed})


def _finetune(data: dict[str, Any]) -> Mapping[str, Any]:
    """Fill sections that were left empty, and return what the file says of finetune."""
    for key, value in data.items():
        if value is None and key in Config.model_fields:
            data[key] = {}
    found = data.get("finetune", {})
    return found if isinstance(found, Mapping) else {}


def _inherited(data: Mapping[str, Any]) -> dict[str, Any]:
    train = data.get("train", {})
    return {k: v for k, v in train.items() if k != "folder"} if isinstance(train, Mapping) else {}


def _placed(config: Config, folder: Path, typed: set[str]) -> Config:
    """Return the settings with paths as seen from where one is."""
    config = _relative(config, folder, typed, "")
    train, finetune = config.train, config.finetune
    if "folder" not in train.model_fields_set:
        train = train.model_copy(update={"folder": config.folder / "train"})
    if "folder" not in finetune.model_fields_set:
        finetune = finetune.model_copy(update={"folder": config.folder / "finetune"})
    return config.model_copy(update={"train": train, "finetune": finetune})


def _relative(section: _Kind, folder: Path, typed: set[str], at: str) -> _Kind:
    changed: dict[str, Any] = {}
    for name in type(section).model_fields:
        value = getattr(section, name)
        place = f"{at}{name}"
        if isinstance(value, Path):
            value = value.expanduser()
            changed[name] = value if place in typed else folder / value
        elif isinstance(value, BaseModel):
            changed[name] = _relative(value, folder, typed, f"{place}.")
    # What the file says, and what is a default, must still be told apart.
    copy = section.model_copy(update=changed)
    object.__setattr__(copy, "__pydantic_fields_set__", set(section.model_fields_set))
    return copy

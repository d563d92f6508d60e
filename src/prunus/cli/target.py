"""What a command works on: a YAML file, or MODULE:FACTORY with the shape of its input."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from prunus.core.errors import ConfigError, PrunusError

if TYPE_CHECKING:
    from prunus.tasks.config import Config

__all__ = ["Some", "Target", "config_of", "is_config", "outputs", "target_of"]

_SETTING = re.compile(r"[A-Za-z_][\w.]*=")


def is_config(text: str) -> bool:
    """Tell a YAML file from MODULE:FACTORY."""
    return Path(text).suffix in {".yaml", ".yml"} or Path(text).is_file()


def outputs(given: Sequence[str] | None, default: Path | None = None) -> tuple[Path, list[str]]:
    """Sort what was given with -o: one path to write to, and settings such as train.epochs=5."""
    settings = [text for text in given or () if _SETTING.match(text)]
    paths = [text for text in given or () if not _SETTING.match(text)]
    if len(paths) > 1:
        raise ConfigError(
            f"-o names two files, {paths[0]!r} and {paths[1]!r}",
            fix="give one file to write to; settings are written as KEY=VALUE",
        )
    return Path(paths[0]) if paths else (default or Path()), settings


def config_of(text: str, overrides: Sequence[str] | None = None) -> Config:
    """Read a YAML file; modules beside it can be named in it."""
    from prunus.tasks.config import load_config

    path = Path(text)
    if not is_config(text):
        raise ConfigError(
            f"{text!r} is no YAML file, and this command needs one for its data",
            fix="write one with prunus init, and give its path",
        )
    extra = [one for one in overrides or () if not _SETTING.match(one)]
    if extra:
        raise ConfigError(
            f"-o {extra[0]!r} sets nothing",
            fix="write the key, =, and the value, such as -o train.epochs=5",
        )
    config = load_config(path, overrides or ())
    folder = str(path.parent.resolve())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    return config


@dataclass(frozen=True, eq=False)
class Some:
    """The first batches of the training images in an order that is mixed, and always the same.

    In a folder a class, the first images in order would all be of one class.
    """

    loader: Any
    count: int

    def __iter__(self) -> Iterator[Any]:
        return islice(self.loader.shuffled(0, 0), self.count)


@dataclass(frozen=True, eq=False)
class Target:
    """A model to be built, with its data where a file tells them."""

    spec: str
    config: Config | None
    shapes: tuple[tuple[int, ...], ...]
    within: str | None
    weights: Path | None
    """The file of weights; None takes the factory's own."""

    @cached_property
    def model(self) -> Any:
        """Return the model with its weights."""
        return self.built(self.weights)

    def built(self, weights: Path | None) -> Any:
        """Return a freshly built model, with the weights of a file."""
        from prunus.tasks.models import build
        from prunus.tasks.toolkit import toolkit_of

        arguments = self.config.model.arguments if self.config else {}
        model = build(self.spec, arguments)
        return model if weights is None else toolkit_of(model).load_weights(model, weights)

    @cached_property
    def kit(self) -> Any:
        """Return what trains, judges and exports models of this framework."""
        from prunus.tasks.toolkit import toolkit_of

        return toolkit_of(self.model)

    @cached_property
    def example(self) -> Any:
        """Return what the model is called with when it is traced."""
        from prunus.tasks.models import example_of

        shapes = self.shapes
        if not shapes and self.config is not None:
            shape = self.config.model.shape
            shapes = ((1, *self.data.shape) if shape is None else shape,)
        return example_of(self.model, shapes)

    @property
    def settings(self) -> Config:
        """Return the YAML file, for a command that cannot do without."""
        if self.config is None:
            raise PrunusError(
                f"{self.spec!r} comes without data",
                fix="write a YAML file with prunus init, and give its path",
            )
        return self.config

    @cached_property
    def data(self) -> Any:
        """Return the images."""
        return self.kit.load_data(self.settings.images)

    @cached_property
    def evaluation(self) -> Any:
        """Return how the model is judged on the test images."""
        from prunus.tasks.metrics import evaluation_of

        images = self.settings.images
        name = str(images.test or images.train or images.kind)
        return evaluation_of(self.data.test, self.settings.metric, name)

    @property
    def has_data(self) -> bool:
        """Tell whether the model can be judged."""
        return self.config is not None and self.config.data is not None

    def at(self, weights: Path) -> Target:
        """Return the same with other weights."""
        return replace(self, weights=weights)


def target_of(
    text: str,
    *,
    shapes: Sequence[str] | None = None,
    overrides: Sequence[str] | None = None,
    within: str | None = None,
    weights: Path | None = None,
    steps: Sequence[str] = ("trained",),
    needs_data: bool = False,
) -> Target:
    """Return what a command works on.

    Args:
        text: A YAML file, or MODULE:FACTORY.
        shapes: Of the inputs; needed beside MODULE:FACTORY.
        overrides: Settings over those of the file.
        within: A sub-module to cut.
        weights: A file of weights that was named.
        steps: Which commands' weights are taken where none are named, the first that are
            there: "finetuned", "pruned", "trained".
        needs_data: Whether nothing can be done without a file that tells the data.
    """
    from prunus.tasks.models import parse_shape

    parsed = tuple(parse_shape(one) for one in shapes or ())
    if needs_data or is_config(text):
        config = config_of(text, overrides)
        if weights is None and not any(one.startswith("model.weights=") for one in overrides or ()):
            made = [config.folder / f"{step}.safetensors" for step in steps]
            weights = next((path for path in made if path.is_file()), None)
        found = weights or config.model.weights
        return Target(config.model.name, config, parsed, within or config.model.within, found)
    if overrides:
        raise ConfigError(
            f"-o {overrides[0]!r} sets a key of a YAML file, and {text!r} is none",
            fix="give the path of a YAML file; prunus init writes one",
        )
    if not parsed:
        raise typer.BadParameter(
            f"{text!r} needs the shape of its input, batch first, such as --shape 1,3,224,224; or "
            "give the path of a YAML file",
            param_hint="'--shape'",
        )
    return Target(text, None, parsed, within, weights)

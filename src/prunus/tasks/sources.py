"""Where labelled images come from: folders, lists, Hugging Face's directories, own functions.

Each source gives its samples without reading the images: those are read a batch at a
time, while the network runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from prunus.core.errors import EvaluationError, MissingExtraError, nearest
from prunus.tasks.listed import READERS, Listed, has_test_split
from prunus.tasks.models import named, short

if TYPE_CHECKING:
    from prunus.tasks.settings import DataSettings

__all__ = ["Samples", "Sources", "read_sources"]


@dataclass(frozen=True)
class Samples:
    """Images and their labels, by number."""

    count: int
    pair: Callable[[int], tuple[Any, int]]
    name: Callable[[int], str]
    """What an error calls the image."""

    def some(self, chosen: Sequence[int]) -> Samples:
        """Return some of the samples, as samples."""
        return Samples(len(chosen), lambda k: self.pair(chosen[k]), lambda k: self.name(chosen[k]))


@dataclass(frozen=True)
class Sources:
    """What to train on, what to test on, and what the labels mean."""

    train: Samples
    test: Samples
    classes: tuple[str, ...]
    """By label; none where a function of the user's does not tell."""


def read_sources(settings: DataSettings) -> Sources:
    """Return the samples that the settings name."""
    if ":" in settings.kind:
        return _from_function(settings)
    if settings.kind == "digits":
        return _digits(settings)
    read = READERS[settings.kind]
    train = read(settings, settings.train, True)
    test = read(settings, settings.test, False) if _is_apart(settings) else None
    classes = _classes(train, test)
    labels = _numbers(train, classes)
    if test is not None:
        return Sources(_samples(train, labels), _samples(test, _numbers(test, classes)), classes)
    kept, held = _split(labels, settings)
    whole = _samples(train, labels)
    return Sources(whole.some(kept), whole.some(held), classes)


def _is_apart(settings: DataSettings) -> bool:
    """Tell whether the test images have a place of their own."""
    return settings.test is not None or (settings.kind == "datasets" and has_test_split(settings))


def _classes(train: Listed, test: Listed | None) -> tuple[str, ...]:
    """Return the names of the classes: as the source says, or in the order of their labels."""
    if train.classes is not None:
        return train.classes
    labels = {*train.labels, *(test.labels if test is not None else ())}
    if all(_is_number(label) for label in labels):
        numbers = {int(label) for label in labels}
        if min(numbers) < 0:
            raise EvaluationError(
                f"{train.where}: a label is {min(numbers)}, and classes are numbered from 0",
                fix="number the classes from 0, or name them",
            )
        return tuple(str(number) for number in range(max(numbers) + 1))
    return tuple(sorted({str(label) for label in train.labels}))


def _is_number(label: Any) -> bool:
    return str(label).strip().lstrip("-").isdecimal()


def _samples(listed: Listed, labels: Sequence[int]) -> Samples:
    return Samples(len(labels), lambda k: (listed.images[k], labels[k]), listed.name)


def _numbers(listed: Listed, classes: tuple[str, ...]) -> list[int]:
    """Return the number of the class of each image."""
    number = {name: k for k, name in enumerate(classes)}
    labels = []
    for k, label in enumerate(listed.labels):
        key = str(int(label)) if _is_number(label) and str(label) not in number else str(label)
        if key not in number:
            raise EvaluationError(
                f"{listed.where}: {listed.name(k)} has the label {label!r}, which no training "
                "image has",
                fix=f"correct it, such as to {nearest(key, classes)}, or take it out",
            )
        labels.append(number[key])
    return labels


def _split(labels: Sequence[int], settings: DataSettings) -> tuple[list[int], list[int]]:
    """Return which samples are for training and which for testing, by share of each class."""
    random = np.random.default_rng(settings.split_seed)
    held: set[int] = set()
    for label in sorted(set(labels)):
        own = [k for k, other in enumerate(labels) if other == label]
        count = round(len(own) * settings.test_share)
        count = min(max(count, 1), len(own) - 1)  # a class of one is learnt, not tested
        held.update(own[k] for k in random.permutation(len(own))[:count])
    if not held:
        raise EvaluationError(
            f"{settings.train}: no class has a second image to test on",
            fix="add images, or give those for testing: data.test",
        )
    return [k for k in range(len(labels)) if k not in held], sorted(held)


def _digits(settings: DataSettings) -> Sources:
    """Scikit-learn's digits are in the order of their writers: the last hands are for testing."""
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise MissingExtraError(
            "the digits come with scikit-learn, which is not installed",
            fix="pip install scikit-learn",
        ) from error
    found = load_digits()
    images = (found.images / 16).astype(np.float32)
    labels = [int(label) for label in found.target]
    whole = Samples(len(labels), lambda k: (images[k], labels[k]), lambda k: f"{k} of the digits")
    first = int(len(labels) * (1 - settings.test_share))
    return Sources(
        whole.some(range(first)),
        whole.some(range(first, len(labels))),
        tuple(str(name) for name in found.target_names),
    )


def _from_function(settings: DataSettings) -> Sources:
    function, spec = named(settings.kind), settings.kind
    if not callable(function):
        raise EvaluationError(
            f"{spec!r} is a {type(function).__name__}, which cannot be called",
            fix="name a function that returns (train, test)",
        )
    try:
        found = function(**settings.arguments)
    except Exception as error:  # the user's code may raise anything
        raise EvaluationError(
            f"{spec!r} fails: {short(error)}", fix="correct it, or data.arguments"
        ) from error
    if not isinstance(found, tuple | list) or len(found) != 2:
        raise EvaluationError(
            f"{spec!r} returns a {type(found).__name__}"
            + (f" of {len(found)}" if hasattr(found, "__len__") else ""),
            fix="return (train, test), each a sequence of (image, label)",
        )
    classes = tuple(str(name) for name in getattr(found[0], "classes", ()))
    return Sources(_own(found[0], spec, "train"), _own(found[1], spec, "test"), classes)


def _own(items: Any, spec: str, part: str) -> Samples:
    if not hasattr(items, "__len__") or not hasattr(items, "__getitem__") or not len(items):
        raise EvaluationError(
            f"{spec!r}: the {part} data is a {type(items).__name__}, with nothing in it to count",
            fix="return sequences with len() and [number], such as lists or a Dataset of torch",
        )

    def pair(k: int) -> tuple[Any, int]:
        try:
            image, label = items[k]
            return image, int(label)
        except Exception as error:  # the user's code may raise anything
            raise EvaluationError(
                f"{spec!r}: entry {k} of the {part} data is no (image, label): {short(error)}",
                fix="make each entry an image and the number of its class, or leave it out",
            ) from error

    return Samples(len(items), pair, lambda k: f"{k} of the {part} data")

"""Batches of images and labels: in order for testing, shuffled and varied for training.

What a training image looks like depends on the seed, the epoch and the image's number
alone: not on how many threads read, nor on where a training that was interrupted goes on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from prunus.core.errors import EvaluationError
from prunus.tasks.images import Array, Preparation
from prunus.tasks.settings import DataSettings
from prunus.tasks.sources import Samples, read_sources

__all__ = ["Data", "Loader", "load_data"]

Tensor = Callable[[Any], Any]
"""From a NumPy array to a tensor of the framework."""


@dataclass(frozen=True)
class Data:
    """What a model is trained on and tested on."""

    train: Loader
    test: Loader
    classes: tuple[str, ...]
    """Names by label; none where a function of the user's does not tell."""
    shape: tuple[int, int, int]
    """Channels, height and width of one image."""


def load_data(settings: DataSettings, tensor: Tensor = np.asarray) -> Data:
    """Return the data of a settings file; images are read when they are needed.

    Args:
        settings: The section `data`.
        tensor: Makes what the model takes out of a NumPy array.
    """
    sources = read_sources(settings)
    train, test = Loader(sources.train, settings, tensor), Loader(sources.test, settings, tensor)
    channels, height, width = train.shape()
    return Data(train, test, sources.classes, (channels, height, width))


class Loader:
    """Goes through samples in batches of (images, labels), any number of times."""

    def __init__(self, samples: Samples, settings: DataSettings, tensor: Tensor) -> None:
        self.samples, self.settings, self.tensor = samples, settings, tensor
        self.preparation = Preparation(settings)

    def __len__(self) -> int:
        """Return the number of batches in order."""
        return len(self._cut(range(self.samples.count)))

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        """Give the images in order, none of them varied."""
        return self._batches(self._cut(range(self.samples.count)), self._plain)

    @property
    def steps(self) -> int:
        """Return the number of shuffled batches."""
        return len(self._for_training(range(self.samples.count)))

    def shuffled(self, epoch: int, seed: int, skip: int = 0) -> Iterator[tuple[Any, Any]]:
        """Give the images of one epoch in random order, varied, without the first `skip` batches.

        All of that is the same for the same seed and epoch.
        """
        order = np.random.default_rng((seed, epoch)).permutation(self.samples.count)

        def varied(number: int) -> tuple[Array, int]:
            random = np.random.default_rng((seed, epoch, number))
            image, label = self.samples.pair(number)
            return self.preparation.varied(image, self.samples.name(number), random), label

        return self._batches(self._for_training(order.tolist())[skip:], varied)

    def mixed(self, batches: int, seed: int = 0) -> Iterator[tuple[Any, Any]]:
        """Give so many batches in random order, none of the images varied.

        For statistics: in order, a batch of a folder would be of one class alone.
        """
        order = np.random.default_rng(seed).permutation(self.samples.count)
        return self._batches(self._for_training(order.tolist())[:batches], self._plain)

    def shape(self) -> tuple[int, ...]:
        """Return the shape of the first image."""
        return self._plain(0)[0].shape

    def described(self) -> dict[str, Any]:
        """Return what a training depends on, for its checkpoint."""
        settings = self.settings.model_dump(mode="json", exclude={"workers", "train", "test"})
        return {"images": self.samples.count, **settings}

    def _cut(self, numbers: Sequence[int]) -> list[Sequence[int]]:
        size = self.settings.batch_size
        return [numbers[k : k + size] for k in range(0, len(numbers), size)]

    def _for_training(self, numbers: Sequence[int]) -> list[Sequence[int]]:
        batches = self._cut(numbers)
        # One image has no statistics: batch norm could not learn from it.
        alone = len(batches) > 1 and len(batches[-1]) < min(2, self.settings.batch_size)
        return batches[:-1] if alone else batches

    def _plain(self, number: int) -> tuple[Array, int]:
        image, label = self.samples.pair(number)
        return self.preparation.plain(image, self.samples.name(number)), label

    def _batches(
        self, batches: Sequence[Sequence[int]], read: Callable[[int], tuple[Array, int]]
    ) -> Iterator[tuple[Any, Any]]:
        def batch(numbers: Sequence[int]) -> tuple[Any, Any]:
            pairs = [read(number) for number in numbers]
            images = self._stacked([image for image, _ in pairs], numbers)
            return images, np.array([label for _, label in pairs], np.int64)

        workers = self.settings.workers
        source = _ahead(batch, batches, workers) if workers else map(batch, batches)
        for images, labels in source:
            yield self.tensor(images), self.tensor(labels)

    def _stacked(self, images: Sequence[Array], numbers: Sequence[int]) -> Array:
        for number, image in zip(numbers, images, strict=True):
            if image.shape != images[0].shape:
                names = self.samples.name(numbers[0]), self.samples.name(number)
                raise EvaluationError(
                    f"images of different sizes cannot share a batch: {names[0]} is "
                    f"{images[0].shape[1:]}, {names[1]} is {image.shape[1:]}",
                    fix="bring them to one size: data.image_size, such as 224",
                )
        return np.stack(images)


def _ahead(
    function: Callable[[Any], Any], items: Sequence[Any], workers: int
) -> Iterator[tuple[Any, Any]]:
    """Give the results in order, while threads work on the next ones."""
    waiting: deque[Future[Any]] = deque()
    with ThreadPoolExecutor(workers, thread_name_prefix="images") as pool:
        try:
            for item in items:
                waiting.append(pool.submit(function, item))
                if len(waiting) > workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for one in waiting:
                one.cancel()

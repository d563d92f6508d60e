"""One image on its way to a network: read, brought to size, varied, normalised.

Nothing here knows a framework. An image is a file, an open PIL image, or an array:
whole numbers are brightness from 0 to 255 with the channels last, as cameras and PIL
have it; other numbers are taken as they are, with the channels first.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from prunus.core.errors import EvaluationError, MissingExtraError
from prunus.tasks.models import short

if TYPE_CHECKING:
    from prunus.tasks.settings import DataSettings

__all__ = ["Array", "Preparation", "pillow"]

Array = NDArray[np.float32]
Box = tuple[float, float, float, float]
"""Left, upper, right, lower."""


def pillow() -> Any:
    """Return PIL.Image."""
    try:
        from PIL import Image
    except ImportError as error:
        raise MissingExtraError(
            "images are read with Pillow, which is not installed", fix="pip install pillow"
        ) from error
    return Image


@dataclass(frozen=True)
class Preparation:
    """From an image to what the network is shown: an array of (channels, height, width)."""

    settings: DataSettings

    def plain(self, image: Any, name: str) -> Array:
        """Return an image for testing."""
        picture = self._read(image, name)
        return self._normalised(self._sized(picture))

    def varied(self, image: Any, name: str, random: np.random.Generator) -> Array:
        """Return an image for training, other each time."""
        picture, augment = self._read(image, name), self.settings.augment
        if augment.crop == "resized":
            whole = _size(picture)
            box = _part(whole, augment.smallest, random)
            array = _as_array(_resampled(picture, self._target() or whole, box))
        else:
            array = self._sized(picture)
        if augment.crop == "shift":
            array = _shifted(array, augment.padding, random)
        if augment.flip and random.random() < 0.5:
            array = array[:, :, ::-1]
        return self._normalised(array)

    def _read(self, image: Any, name: str) -> Any:
        """Return a PIL image or an array, with as many channels as the settings say."""
        channels = self.settings.channels
        if isinstance(image, str | Path) or hasattr(image, "getbands"):
            try:
                with warnings.catch_warnings():
                    # Of odd metadata; an image that cannot be read raises an error.
                    warnings.simplefilter("ignore")
                    return _opened(image, channels)
            except MissingExtraError:
                raise
            except Exception as error:  # decoders raise whatever comes to their minds
                raise EvaluationError(
                    f"image {name} cannot be read: {short(error)}",
                    fix="replace it by a whole image, or take it out of the data",
                ) from error
        array = np.asarray(image)
        if array.ndim not in (2, 3) or array.dtype.kind not in "fiub" or not array.size:
            raise EvaluationError(
                f"image {name} is {_told(image, array)}, which is no image",
                fix="give a path, a PIL image, an array of bytes with the channels last, or of "
                "float32 with the channels first",
            )
        if array.dtype == np.uint8:
            return _opened(pillow().fromarray(_channels_last(array)), channels)
        array = array.astype(np.float32)[(None,) if array.ndim == 2 else ()]
        return _with_channels(array, channels, name)

    def _target(self) -> tuple[int, int] | None:
        size = self.settings.image_size
        return (size, size) if isinstance(size, int) else size

    def _sized(self, picture: Any) -> Array:
        target, whole = self._target(), _size(picture)
        if target is None:
            return _as_array(picture)
        if self.settings.resize == "stretch":
            box: Box = (0.0, 0.0, float(whole[1]), float(whole[0]))
        else:
            box = _middle(whole, target, self.settings.crop_share)
        return _as_array(_resampled(picture, target, box))

    def _normalised(self, array: Array) -> Array:
        for numbers, apply in (
            (self.settings.mean, np.subtract),
            (self.settings.std, np.divide),
        ):
            if numbers is not None:
                array = apply(array, np.asarray(numbers, np.float32).reshape(-1, 1, 1))
        return np.ascontiguousarray(array, dtype=np.float32)


def _told(image: Any, array: NDArray[Any]) -> str:
    if array.dtype.kind in "fiub":
        return f"an array of shape {array.shape}"
    return f"a {type(image).__name__}"


def _channels_last(array: NDArray[Any]) -> NDArray[Any]:
    """Return bytes with the channels last, and without an axis for only one."""
    if array.ndim == 3 and array.shape[0] in (1, 3) and array.shape[2] not in (1, 3):
        array = array.transpose(1, 2, 0)
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    return np.ascontiguousarray(array)


def _with_channels(array: Array, channels: int, name: str) -> Array:
    have = len(array)
    if have == channels:
        return array
    if have == 1:
        return np.repeat(array, channels, axis=0)
    if have == 3:
        grey: Array = np.tensordot(np.array([0.299, 0.587, 0.114], np.float32), array, 1)[None]
        return grey
    raise EvaluationError(
        f"image {name} has {have} channels, and {channels} are asked for",
        fix="give float32 arrays as (channels, height, width), with 1 or 3 channels",
    )


def _opened(image: Any, channels: int) -> Any:
    from PIL import ImageOps

    Image = pillow()  # noqa: N806  (a module's own name)
    if isinstance(image, str | Path):
        with Image.open(image) as file:
            file.load()
            image = file
    image = ImageOps.exif_transpose(image)  # the way up that the camera was held
    if image.mode.startswith("I") or image.mode == "F":
        # 16 bits a pixel: conversion to 8 would cut the bright end off.
        wide = np.asarray(image, np.float64)
        scale = 1.0 if image.mode == "F" else 65535.0
        image = Image.fromarray((wide / scale * 255).clip(0, 255).round().astype(np.uint8))
    if "transparency" in image.info:
        image = image.convert("RGBA")
    return image.convert("L" if channels == 1 else "RGB")


def _size(picture: Any) -> tuple[int, int]:
    """Return height and width."""
    if isinstance(picture, np.ndarray):
        return int(picture.shape[1]), int(picture.shape[2])
    return int(picture.height), int(picture.width)


def _as_array(picture: Any) -> Array:
    if isinstance(picture, np.ndarray):
        return picture
    array = np.asarray(picture, np.float32) / np.float32(255)
    return array[None] if array.ndim == 2 else np.ascontiguousarray(array.transpose(2, 0, 1))


def _resampled(picture: Any, target: tuple[int, int], box: Box) -> Any:
    """Return the part of the picture in the box, at another size."""
    Image = pillow()  # noqa: N806
    height, width = target
    if not isinstance(picture, np.ndarray):
        # Large steps down are made in two, the first of whole pixels: quick, and looks the same.
        return picture.resize((width, height), Image.Resampling.BILINEAR, box, reducing_gap=3.0)
    planes = [
        Image.fromarray(plane).resize((width, height), Image.Resampling.BILINEAR, box)
        for plane in picture
    ]
    return np.stack([np.asarray(plane, np.float32) for plane in planes])


def _middle(whole: tuple[int, int], target: tuple[int, int], share: float) -> Box:
    """Return the largest box in the middle that has the proportions of the target."""
    height, width = whole
    scale = min(height / target[0], width / target[1]) * share
    high, wide = target[0] * scale, target[1] * scale
    left, upper = (width - wide) / 2, (height - high) / 2
    # Rounding must not reach over the edge.
    return (max(left, 0.0), max(upper, 0.0), min(left + wide, width), min(upper + high, height))


def _part(whole: tuple[int, int], smallest: float, random: np.random.Generator) -> Box:
    """Return a box of random area, proportions and place."""
    height, width = whole
    area = height * width * random.uniform(smallest, 1.0)
    proportion = float(np.exp(random.uniform(np.log(3 / 4), np.log(4 / 3))))
    wide = min(np.sqrt(area * proportion), width)
    high = min(np.sqrt(area / proportion), height)
    left, upper = random.uniform(0, width - wide), random.uniform(0, height - high)
    return (left, upper, min(left + wide, width), min(upper + high, height))


def _shifted(array: Array, padding: int, random: np.random.Generator) -> Array:
    _, height, width = array.shape
    padded = np.pad(array, ((0, 0), (padding, padding), (padding, padding)))
    upper, left = random.integers(0, 2 * padding + 1, 2)
    return padded[:, upper : upper + height, left : left + width]

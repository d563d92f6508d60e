"""Batches: the same every time, whoever reads; each image once an epoch."""

import numpy as np
import pytest

from prunus.core.errors import EvaluationError
from prunus.tasks.data import load_data
from prunus.tasks.settings import DataSettings

from .pictures import folder


def digits(**given):
    return load_data(DataSettings(kind="digits", channels=1, batch_size=100, **given))


def test_the_digits_in_order():
    data = digits()
    assert data.shape == (1, 8, 8)
    assert data.classes == tuple("0123456789")
    batches = list(data.test)
    assert [len(labels) for _, labels in batches] == [100, 100, 100, 60]
    assert len(data.test) == 4
    images, labels = batches[0]
    assert (images.dtype, labels.dtype) == (np.float32, np.int64)
    assert images.shape == (100, 1, 8, 8)
    again = list(data.test)
    assert all(np.array_equal(a, b) for (a, _), (b, _) in zip(batches, again, strict=True))


def key(batch):
    return batch[0].tobytes(), batch[1].tobytes()


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_the_number_of_threads_changes_nothing(workers):
    augment = {"crop": "shift", "padding": 1, "flip": True}
    expected = [key(batch) for batch in digits(workers=0, augment=augment).train.shuffled(2, 7)]
    found = [key(one) for one in digits(workers=workers, augment=augment).train.shuffled(2, 7)]
    assert found == expected


def test_an_epoch_has_every_image_once_in_an_order_of_its_own():
    train = digits().train
    first, second, again = (list(train.shuffled(*at)) for at in ((0, 5), (1, 5), (0, 5)))
    assert len(first) == train.steps == 15
    plain = sorted(image.tobytes() for images, _ in train for image in images)
    assert sorted(image.tobytes() for images, _ in first for image in images) == plain
    assert [key(one) for one in first] == [key(one) for one in again]
    assert key(first[0]) != key(second[0])
    assert key(first[0]) != key(next(iter(train.shuffled(0, 6))))


def test_going_on_in_the_middle_gives_the_rest():
    train = digits(augment={"crop": "resized"}).train
    whole = [key(one) for one in train.shuffled(3, 1)]
    assert [key(one) for one in train.shuffled(3, 1, skip=12)] == whole[12:]
    assert list(train.shuffled(3, 1, skip=15)) == []


def test_a_last_batch_of_one_is_left_out_of_training_only(tmp_path):
    root = folder(tmp_path, 3)
    data = load_data(DataSettings(kind="folder", train=root, test=root, batch_size=4))
    assert [len(labels) for _, labels in data.train] == [4, 4, 1]
    assert [len(labels) for _, labels in data.train.shuffled(0, 0)] == [4, 4]
    assert data.train.steps == 2
    alone = load_data(DataSettings(kind="folder", train=root, test=root, batch_size=1))
    assert alone.train.steps == 9


def test_images_of_different_sizes_are_told(tmp_path):
    folder(tmp_path / "a", 2, size=(4, 4))
    folder(tmp_path / "b", 2, size=(4, 6))
    for path in (tmp_path / "b" / "red").iterdir():
        path.rename(tmp_path / "a" / "red" / f"b{path.name}")
    given = {"kind": "folder", "train": tmp_path / "a", "test": tmp_path / "a"}
    with pytest.raises(
        EvaluationError, match=r"(?s)is \(4, 4\), '.*b0\.png' is \(4, 6\).*data\.image_size"
    ):
        list(load_data(DataSettings(**given)).train)
    data = load_data(DataSettings(image_size=5, **given))
    assert [images.shape for images, _ in data.train] == [(8, 3, 5, 5)]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_broken_image_is_named_from_whatever_thread(tmp_path, workers):
    root = folder(tmp_path, 3)
    (root / "red" / "1.png").write_bytes(b"broken")
    settings = DataSettings(kind="folder", train=root, test=root, workers=workers, batch_size=2)
    with pytest.raises(EvaluationError, match=r"image '.*red/1\.png' cannot be read"):
        list(load_data(settings).train)


def test_who_stops_early_waits_for_no_other_batch():
    batches = iter(digits(workers=2).train)
    next(batches)
    batches.close()
    assert list(batches) == []


def test_batches_for_statistics_are_mixed_and_plain(tmp_path):
    root = folder(tmp_path, 8)
    augment = {"crop": "shift"}
    settings = DataSettings(kind="folder", train=root, test=root, batch_size=8, augment=augment)
    train = load_data(settings).train
    found = list(train.mixed(2))
    assert [len(set(labels)) for _, labels in train] == [1, 1, 1]
    assert all(len(set(labels)) > 1 for _, labels in found)
    plain = {image.tobytes() for images, _ in train for image in images}
    assert {image.tobytes() for images, _ in found for image in images} < plain
    assert [key(one) for one in train.mixed(2)] == [key(one) for one in found]
    assert len(list(train.mixed(99))) == 3


def test_what_a_training_depends_on():
    found = digits(workers=1).train.described()
    assert found == digits(workers=2).train.described()
    assert (found["images"], found["batch_size"]) == (1437, 100)
    assert found != digits(augment={"flip": True}).train.described()


def test_tensors_are_made_by_whoever_is_asked():
    data = load_data(DataSettings(kind="digits"), tensor=lambda array: array.tolist())
    images, labels = next(iter(data.test))
    assert isinstance(images, list)
    assert isinstance(labels[0], int)

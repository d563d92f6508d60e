"""Folders, lists and Hugging Face's directories: what is read, and every mistake in them."""

import sys

import numpy as np
import pytest
from PIL import Image

from prunus.core.errors import EvaluationError, MissingExtraError
from prunus.tasks.listed import READERS, has_test_split
from prunus.tasks.settings import DataSettings

from .pictures import folder


def read(kind, path, first=True, **given):
    return READERS[kind](DataSettings(kind=kind, train=path, **given), path, first)


def names(listed):
    return [one.name for one in listed.images]


# Folders.


def test_a_folder_a_class_in_the_order_of_names(tmp_path):
    found = read("folder", folder(tmp_path, 2))
    assert found.classes == ("blue", "green", "red")
    assert found.labels == ["blue", "blue", "green", "green", "red", "red"]
    assert names(found) == ["0.png", "1.png"] * 3
    assert found.name(3).endswith("green/1.png'")


def test_other_files_hidden_folders_and_deeper_ones(tmp_path):
    folder(tmp_path, 1)
    (tmp_path / ".cache").mkdir()
    (tmp_path / "red" / "notes.txt").write_text("no image")
    (tmp_path / "red" / "deep").mkdir()
    (tmp_path / "red" / "0.png").rename(tmp_path / "red" / "deep" / "9.PNG")
    found = read("folder", tmp_path)
    assert found.classes == ("blue", "green", "red")
    assert names(found) == ["0.png", "0.png", "9.PNG"]


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(EvaluationError, match=r"(?s)there is no folder '.*none'.*data\.train"):
        read("folder", tmp_path / "none")


def test_a_folder_without_classes(tmp_path):
    Image.new("L", (2, 2)).save(tmp_path / "a.png")
    with pytest.raises(EvaluationError, match=r"(?s)has no folders in it.*cat.1\.jpg"):
        read("folder", tmp_path)


def test_a_class_without_images(tmp_path):
    (folder(tmp_path, 1) / "white").mkdir()
    with pytest.raises(EvaluationError, match=r"(?s)white' holds no image.*or remove the folder"):
        read("folder", tmp_path)
    assert len(read("folder", tmp_path, first=False).images) == 3


# Lists.


@pytest.mark.parametrize("head", ["path,label", "label , image", "x,path,y,label", ""])
def test_columns_are_found_by_their_names(tmp_path, head):
    folder(tmp_path / "images", 1)
    rows = []
    for colour in ("red", "green"):
        cell = {"path": f"images/{colour}/0.png", "image": f"images/{colour}/0.png"}
        columns = [name.strip() for name in (head or "path,label").split(",")]
        rows.append(",".join(cell.get(name, colour) for name in columns))
    text = "\n".join([head, *rows] if head else rows) + "\n\n"
    (tmp_path / "list.csv").write_text("\ufeff" + text, encoding="utf-8")
    found = read("csv", tmp_path / "list.csv")
    assert found.labels == ["red", "green"]
    assert [one.parent.name for one in found.images] == ["red", "green"]
    assert found.classes is None


def test_columns_of_any_name(tmp_path):
    folder(tmp_path, 1)
    (tmp_path / "list.csv").write_text("a,b\nred,red/0.png\n")
    found = read("csv", tmp_path / "list.csv", image_column="b", label_column="a")
    assert found.labels == ["red"]
    with pytest.raises(EvaluationError, match=r"(?s)columns 'a', 'b', and none is 'path'.*image_c"):
        read("csv", tmp_path / "list.csv")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("path,label\nred/0.png,red\nred/7.png,red\n", r"row 3: there is no image '.*red/7\.png'"),
        ("path,label\nred/0.png\n", r"row 2: there is no image 'red/0\.png'"),
        ("", "holds no image"),
        ("path,label\n", "holds no image"),
    ],
)
def test_mistakes_in_a_list(tmp_path, text, told):
    folder(tmp_path, 1)
    (tmp_path / "list.csv").write_text(text)
    with pytest.raises(EvaluationError, match=told):
        read("csv", tmp_path / "list.csv")


def test_a_list_that_is_no_text(tmp_path):
    Image.new("L", (2, 2)).save(tmp_path / "a.png")
    with pytest.raises(EvaluationError, match=r"(?s)cannot be read as a list.*text in UTF-8"):
        read("csv", tmp_path / "a.png")
    with pytest.raises(EvaluationError, match="there is no CSV file"):
        read("csv", tmp_path)


# Directories of Hugging Face's datasets.


def hugging(labels, **columns):
    from datasets import ClassLabel, Dataset, Features, Value
    from datasets import Image as ImageColumn

    pictures = [Image.fromarray(np.full((4, 4, 3), 10 * k, np.uint8)) for k in range(len(labels))]
    kind = ClassLabel(names=["cat", "dog"]) if isinstance(labels[0], int) else Value("string")
    image, label = columns.get("image", "image"), columns.get("label", "label")
    features = Features({image: ImageColumn(), label: kind})
    return Dataset.from_dict({image: pictures, label: labels}, features=features)


def test_a_directory_of_one_split(tmp_path):
    hugging([0, 1, 1], image="photo", label="kind").save_to_disk(str(tmp_path / "d"))
    found = read("datasets", tmp_path / "d")
    assert (found.labels, found.classes) == (["cat", "dog", "dog"], ("cat", "dog"))
    assert np.asarray(found.images[2])[0, 0, 0] == 20
    assert len(found.images) == 3
    assert not has_test_split(DataSettings(kind="datasets", train=tmp_path / "d"))


@pytest.mark.parametrize("test", ["test", "validation"])
def test_a_directory_of_several_splits(tmp_path, test):
    from datasets import DatasetDict

    whole = DatasetDict({"train": hugging(["a", "b"]), test: hugging(["b"])})
    whole.save_to_disk(str(tmp_path / "d"))
    assert read("datasets", tmp_path / "d").labels == ["a", "b"]
    assert read("datasets", tmp_path / "d", first=False).labels == ["b"]
    assert has_test_split(DataSettings(kind="datasets", train=tmp_path / "d"))


def test_an_image_without_a_label_is_no_image_of_the_last_class(tmp_path):
    hugging([0, -1]).save_to_disk(str(tmp_path / "d"))
    assert read("datasets", tmp_path / "d").labels == ["cat", -1]


def test_mistakes_in_a_directory(tmp_path):
    from datasets import DatasetDict

    DatasetDict({"a": hugging([0]), "b": hugging([0])}).save_to_disk(str(tmp_path / "d"))
    with pytest.raises(EvaluationError, match=r"(?s)has the splits 'a', 'b', and none is 'train'"):
        read("datasets", tmp_path / "d")
    hugging([0], image="a", label="b").rename_column("b", "c").cast_column(
        "c", __import__("datasets").Value("int64")
    ).save_to_disk(str(tmp_path / "e"))
    with pytest.raises(
        EvaluationError, match=r"(?s)columns 'a', 'c', and none is 'label'.*label_c"
    ):
        read("datasets", tmp_path / "e")
    (tmp_path / "f").mkdir()
    with pytest.raises(EvaluationError, match="cannot be read as a datasets directory"):
        read("datasets", tmp_path / "f")


def test_the_library_is_asked_for(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(MissingExtraError, match=r"(?s)Hugging Face's.*fix: pip install datasets"):
        read("datasets", tmp_path)

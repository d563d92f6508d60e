"""From lists to samples: classes, splits, digits, and functions of one's own."""

import sys
from collections import Counter

import numpy as np
import pytest

from prunus.core.errors import EvaluationError, MissingExtraError, PrunusError
from prunus.tasks.settings import DataSettings
from prunus.tasks.sources import read_sources

from .pictures import folder


def labels(samples):
    return [samples.pair(k)[1] for k in range(samples.count)]


def test_a_share_of_each_class_is_kept_for_testing(tmp_path):
    settings = DataSettings(kind="folder", train=folder(tmp_path, 10), test_share=0.3)
    found = read_sources(settings)
    assert found.classes == ("blue", "green", "red")
    assert Counter(labels(found.test)) == {0: 3, 1: 3, 2: 3}
    assert Counter(labels(found.train)) == {0: 7, 1: 7, 2: 7}
    names = [found.train.name(k) for k in range(21)] + [found.test.name(k) for k in range(9)]
    assert len(set(names)) == 30
    again = read_sources(settings)
    assert [again.test.name(k) for k in range(9)] == names[21:]
    other = read_sources(settings.model_copy(update={"split_seed": 1}))
    assert [other.test.name(k) for k in range(9)] != names[21:]


def test_even_a_small_class_is_tested_and_a_class_of_one_is_learnt(tmp_path):
    root = folder(tmp_path, 2)
    (root / "red" / "1.png").unlink()
    found = read_sources(DataSettings(kind="folder", train=root, test_share=0.01))
    assert labels(found.test) == [0, 1]
    assert labels(found.train) == [0, 1, 2]


def test_nothing_to_test_on(tmp_path):
    with pytest.raises(EvaluationError, match=r"(?s)no class has a second image.*data\.test"):
        read_sources(DataSettings(kind="folder", train=folder(tmp_path, 1)))


def test_test_images_of_their_own(tmp_path):
    train, test = folder(tmp_path / "a", 3), folder(tmp_path / "b", 2)
    (test / "green" / "0.png").unlink()
    found = read_sources(DataSettings(kind="folder", train=train, test=test))
    assert labels(found.train) == [0] * 3 + [1] * 3 + [2] * 3
    assert labels(found.test) == [0, 0, 1, 2, 2]


def test_a_class_that_training_lacks_is_told(tmp_path):
    train, test = folder(tmp_path / "a", 1), folder(tmp_path / "b", 1)
    (test / "green").rename(test / "gren")
    with pytest.raises(
        EvaluationError, match=r"(?s)gren/0\.png' has the label 'gren', which no.*'green'"
    ):
        read_sources(DataSettings(kind="folder", train=train, test=test))


def written(tmp_path, name, rows):
    folder(tmp_path, 1) if not (tmp_path / "red").exists() else None
    path = tmp_path / name
    path.write_text("path,label\n" + "".join(f"red/0.png,{label}\n" for label in rows))
    return path


def test_numbers_are_class_numbers(tmp_path):
    train, test = written(tmp_path, "a.csv", [3, "01", 0]), written(tmp_path, "b.csv", [4])
    found = read_sources(DataSettings(kind="csv", train=train, test=test))
    assert found.classes == ("0", "1", "2", "3", "4")
    assert (labels(found.train), labels(found.test)) == ([3, 1, 0], [4])


def test_names_are_sorted(tmp_path):
    train = written(tmp_path, "a.csv", ["b", "1", "a", "b"])
    found = read_sources(DataSettings(kind="csv", train=train, test=train))
    assert found.classes == ("1", "a", "b")
    assert labels(found.train) == [2, 0, 1, 2]


def test_a_negative_number_is_told(tmp_path):
    train = written(tmp_path, "a.csv", [0, -1])
    with pytest.raises(EvaluationError, match="a label is -1, and classes are numbered from 0"):
        read_sources(DataSettings(kind="csv", train=train, test=train))


def test_splits_of_a_datasets_directory(tmp_path):
    from datasets import ClassLabel, Dataset, DatasetDict, Features, Value

    features = Features({"image": Value("string"), "label": ClassLabel(names=["x", "y"])})
    part = Dataset.from_dict({"image": ["a", "b"], "label": [1, 0]}, features=features)
    DatasetDict(train=part, test=part).save_to_disk(str(tmp_path / "two"))
    found = read_sources(DataSettings(kind="datasets", train=tmp_path / "two"))
    assert (found.classes, labels(found.test)) == (("x", "y"), [1, 0])
    part.save_to_disk(str(tmp_path / "one"))
    with pytest.raises(EvaluationError, match="no class has a second image"):
        read_sources(DataSettings(kind="datasets", train=tmp_path / "one"))
    bad = Dataset.from_dict({"image": ["a", "b"], "label": [1, -1]}, features=features)
    bad.save_to_disk(str(tmp_path / "bad"))
    with pytest.raises(EvaluationError, match="has the label -1, which no training image has"):
        read_sources(DataSettings(kind="datasets", train=tmp_path / "bad"))


def test_the_last_hands_of_the_digits_are_for_testing():
    found = read_sources(DataSettings(kind="digits"))
    assert (found.train.count, found.test.count) == (1437, 360)
    assert found.classes == tuple("0123456789")
    image, label = found.test.pair(0)
    assert (image.shape, image.dtype, label) == ((8, 8), np.float32, labels(found.test)[0])
    assert found.test.name(0) == "1437 of the digits"
    assert 0 <= image.min() <= image.max() <= 1


def test_scikit_learn_is_asked_for(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(MissingExtraError, match=r"(?s)scikit-learn.*pip install scikit-learn"):
        read_sources(DataSettings(kind="digits"))


OWN = """
import numpy as np
class Set(list):
    classes = ["cat", "dog"]
def data(count=3):
    items = [(np.full((1, 2, 2), k, np.float32), k % 2) for k in range(count)]
    return Set(items), items[:1]
def fails(): raise KeyError("x")
def one(): return [1]
def empty(): return [], [1]
def odd(): return [5], [5]
value = 3
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    (tmp_path / "own_data.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    yield lambda name, **arguments: read_sources(
        DataSettings(kind=f"own_data:{name}", arguments=arguments)
    )
    sys.modules.pop("own_data", None)


def test_a_function_of_ones_own(own):
    found = own("data", count=4)
    assert (found.classes, labels(found.train), labels(found.test)) == (
        ("cat", "dog"),
        [0, 1, 0, 1],
        [0],
    )
    assert found.train.pair(3)[0].max() == 3
    assert found.train.name(3) == "3 of the train data"


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("fails", r"'own_data:fails' fails: KeyError"),
        ("one", r"(?s)returns a list of 1.*return \(train, test\)"),
        ("empty", "the train data is a list, with nothing in it"),
        ("value", "is a int, which cannot be called"),
        ("dat", "has no 'dat'"),
    ],
)
def test_mistakes_of_such_a_function(own, name, told):
    with pytest.raises(PrunusError, match=told):
        own(name)


def test_an_entry_that_is_no_pair(own):
    found = own("odd")
    with pytest.raises(EvaluationError, match=r"entry 0 of the train data is no \(image, label\)"):
        found.train.pair(0)

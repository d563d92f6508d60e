"""Lists of images with a label each: folders, CSV files, Hugging Face's directories."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prunus.core.errors import EvaluationError, MissingExtraError
from prunus.tasks.models import short

if TYPE_CHECKING:
    from prunus.tasks.settings import DataSettings

__all__ = ["READERS", "Listed", "has_test_split"]

_IMAGES = {".jpg", ".jpeg", ".png", ".bmp", ".gif", ".ppm", ".pgm", ".tif", ".tiff", ".webp"}


@dataclass(frozen=True)
class Listed:
    """Images with labels as they were written down: names, or numbers."""

    where: str
    images: Sequence[Any]
    labels: Sequence[Any]
    name: Callable[[int], str]
    classes: tuple[str, ...] | None = None
    """What the labels mean, where the source says."""


def has_test_split(settings: DataSettings) -> bool:
    """Tell whether a directory of several splits has one for testing."""
    found = _load(settings.train)
    return hasattr(found, "keys") and _split_name(found, _TEST_SPLITS) is not None


def _folder(_: DataSettings, path: Path | None, first: bool) -> Listed:
    root = _there(path, Path.is_dir, "folder")
    classes = sorted(one.name for one in root.iterdir() if one.is_dir() and one.name[0] != ".")
    if not classes:
        raise EvaluationError(
            f"folder {str(root)!r} has no folders in it, one a class",
            fix=f"put the images of each class into a folder of its name: {root / 'cat' / '1.jpg'}",
        )
    images, labels = [], []
    for name in classes:
        own = sorted(one for one in (root / name).rglob("*") if one.suffix.lower() in _IMAGES)
        if first and not own:
            raise EvaluationError(
                f"folder {str(root / name)!r} holds no image",
                fix=f"put images there ({', '.join(sorted(_IMAGES))}), or remove the folder",
            )
        images += own
        labels += [name] * len(own)
    _not_empty(images, root)
    return Listed(
        str(root), images, labels, lambda k: repr(str(images[k])), tuple(classes) if first else None
    )


def _not_empty(images: Sequence[Any], where: Path) -> None:
    if not len(images):
        raise EvaluationError(f"{str(where)!r} holds no image", fix="give a path that holds some")


def _there(path: Path | None, is_kind: Callable[[Path], bool], kind: str) -> Path:
    if path is None or not is_kind(path):
        raise EvaluationError(
            f"there is no {kind} {str(path)!r}",
            fix="correct data.train or data.test; a path that does not begin with / starts in the "
            f"folder where prunus runs, {str(Path.cwd())!r}",
        )
    return path


_IMAGE_COLUMNS = ("path", "image", "file", "filename", "file_name", "img")
_LABEL_COLUMNS = ("label", "class", "target", "labels", "fine_label")


def _csv(settings: DataSettings, path: Path | None, first: bool) -> Listed:  # noqa: ARG001
    list_path = _there(path, Path.is_file, "CSV file")
    try:
        with list_path.open(encoding="utf-8-sig", newline="") as file:
            rows = [row for row in csv.reader(file) if row]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise EvaluationError(
            f"{str(list_path)!r} cannot be read as a list: {short(error)}",
            fix="write it as text in UTF-8: a line path,label, then a line an image",
        ) from error
    _not_empty(rows, list_path)
    folder, columns, start = list_path.parent, (0, 1), 0
    if len(rows[0]) < 2 or not (folder / rows[0][0]).is_file():
        columns, start = _columns(rows[0], settings, str(list_path)), 1
    _not_empty(rows[start:], list_path)
    images, labels = [], []
    for line, row in enumerate(rows[start:], start + 1):
        if len(row) <= max(columns) or not (folder / row[columns[0]]).is_file():
            told = ",".join(row) if len(row) <= max(columns) else str(folder / row[columns[0]])
            raise EvaluationError(
                f"{str(list_path)!r}, row {line}: there is no image {told!r}",
                fix=f"give paths as seen from {str(folder)!r}, where the list is, and a label each",
            )
        images.append(folder / row[columns[0]])
        labels.append(row[columns[1]].strip())
    return Listed(str(list_path), images, labels, lambda k: repr(str(images[k])))


def _columns(header: Sequence[str], settings: DataSettings, where: str) -> tuple[int, int]:
    names = [name.strip() for name in header]

    def place(asked: str | None, usual: Iterable[str], setting: str) -> int:
        found = [names.index(one) for one in ((asked,) if asked else usual) if one in names]
        if not found:
            raise EvaluationError(
                f"{where!r} has the columns {', '.join(map(repr, names))}, and none is "
                f"{asked or next(iter(usual))!r}",
                fix=f"say which it is: data.{setting}, or begin the file with path,label",
            )
        return found[0]

    return (
        place(settings.image_column, _IMAGE_COLUMNS, "image_column"),
        place(settings.label_column, _LABEL_COLUMNS, "label_column"),
    )


_TRAIN_SPLITS = ("train", "training")
_TEST_SPLITS = ("test", "validation", "valid", "val")


def _load(path: Path | None) -> Any:
    try:
        from datasets import load_from_disk
    except ImportError as error:
        raise MissingExtraError(
            "data of kind 'datasets' needs Hugging Face's datasets, which is not installed",
            fix="pip install datasets",
        ) from error
    folder = _there(path, Path.is_dir, "folder")
    try:
        return load_from_disk(str(folder))
    except Exception as error:  # a library of its own, over whatever the folder holds
        raise EvaluationError(
            f"{str(folder)!r} cannot be read as a datasets directory: {short(error)}",
            fix="give a directory that Dataset.save_to_disk or DatasetDict.save_to_disk wrote",
        ) from error


def _split_name(found: Any, names: Iterable[str]) -> str | None:
    return next((name for name in names if name in found), None)


def _datasets(settings: DataSettings, path: Path | None, first: bool) -> Listed:
    found, where = _load(path or settings.train), str(path or settings.train)
    if hasattr(found, "keys"):
        name = _split_name(found, _TRAIN_SPLITS if first else _TEST_SPLITS)
        if name is None:
            name = next(iter(found)) if len(found) == 1 else None
        if name is None:
            raise EvaluationError(
                f"{where!r} has the splits {', '.join(map(repr, found))}, and none is "
                f"{(_TRAIN_SPLITS if first else _TEST_SPLITS)[0]!r}",
                fix="save the split by itself, and give its path: data.train, data.test",
            )
        found = found[name]
    kinds = {key: type(feature).__name__ for key, feature in found.features.items()}
    image = settings.image_column or _of_kind(kinds, "Image", _IMAGE_COLUMNS)
    label = settings.label_column or _of_kind(kinds, "ClassLabel", _LABEL_COLUMNS)
    for column, setting in ((image, "image_column"), (label, "label_column")):
        if column not in kinds:
            raise EvaluationError(
                f"{where!r} has the columns {', '.join(map(repr, kinds))}, and none is "
                f"{column or setting.partition('_')[0]!r}",
                fix=f"say which it is: data.{setting}",
            )
    _not_empty(found, Path(where))
    names = getattr(found.features[label], "names", None)
    labels = list(found[label])
    if names:  # -1 is for images without a label, and no name at the end of the list
        labels = [names[k] if 0 <= k < len(names) else k for k in labels]
    return Listed(
        where,
        _Column(found, str(image)),
        labels,
        lambda k: f"{k} of {where!r}",
        tuple(names) if names and first else None,
    )


def _of_kind(kinds: dict[str, str], wanted: str, usual: Iterable[str]) -> str | None:
    of_kind = [key for key, kind in kinds.items() if kind == wanted]
    return of_kind[0] if len(of_kind) == 1 else next((one for one in usual if one in kinds), None)


class _Column(Sequence[Any]):
    """One column, read an entry at a time."""

    def __init__(self, found: Any, name: str) -> None:
        self.found, self.name = found.select_columns([name]), name

    def __len__(self) -> int:
        return len(self.found)

    def __getitem__(self, place: Any) -> Any:
        return self.found[int(place)][self.name]


READERS = {"folder": _folder, "csv": _csv, "datasets": _datasets}
"""By kind: from the settings, a path, and whether it is that of the training images."""

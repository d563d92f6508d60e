"""The dead data that a pickle of PaddleSlim is read as, and the losses in it.

Nothing here goes deeper into the data than a table of losses is deep, and nothing is
printed of it but short text: what is read may be endless in both.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from prunus.core.errors import StudyError
from prunus.core.study.cells import harm, plain
from prunus.core.study.codec import ratio_key

__all__ = ["Made", "Name", "Sensitivities", "refused", "sensitivities_of"]

MOST = 1_000_000
"""Losses in one file. One table may stand in a small file a million times over."""


def refused(problem: str) -> StudyError:
    """Return the error for a file that holds anything but a table of losses."""
    return StudyError(
        f"this is no table of losses: {problem}",
        fix="give a pickle of {weight: {ratio: loss}}, as PaddleSlim writes it; nothing in the "
        "file has been executed",
    )


@dataclass(frozen=True, slots=True)
class Name:
    """What a pickle calls a class or a function. It is not looked up."""

    where: str


class Made:
    """A call, or an object, that a pickle asks for, and that nobody makes."""

    __slots__ = ("arguments", "name", "state")

    def __init__(self, name: Name, arguments: tuple[Any, ...]) -> None:
        self.name = name.where
        self.arguments = arguments
        self.state: Any = None


@dataclass(frozen=True)
class Sensitivities:
    """What was read, and what had to be mended."""

    losses: Mapping[str, Mapping[float, float]]
    """{weight: {ratio: loss}} in plain numbers, with ratios as a study rounds them."""
    repaired: tuple[str, ...] = ()
    """A sentence for each thing that was not as it should be."""


def sensitivities_of(tree: object) -> Sensitivities:
    """Return the losses in the data of a pickle.

    Raises:
        StudyError: It holds something else.
    """
    losses: dict[str, dict[float, float]] = {}
    repaired = []
    seen: dict[tuple[str, float], float] = {}
    for name, raw, loss in _entries(_table(tree)):
        ratio = _ratio(raw, name)
        row = losses.setdefault(name, {})
        kept = loss
        if ratio in row:
            kept = max(row[ratio], loss, key=harm)
            repaired.append(
                f"{name!r} had ratio {ratio!r} twice, as {seen[name, ratio]!r} with loss "
                f"{row[ratio]!r} and as {raw!r} with loss {loss!r}; {kept!r} is kept"
            )
        seen[name, ratio] = raw
        row[ratio] = kept
    return Sensitivities(losses, tuple(repaired))


def _ratio(raw: float, name: str) -> float:
    try:
        return ratio_key(raw)
    except StudyError as error:
        raise refused(f"{raw!r} is no ratio of {name!r}") from error


def _table(tree: object) -> dict[Any, Any]:
    """Return the table itself, or the one inside the object of a dygraph pruner."""
    if isinstance(tree, Made):
        maker = tree.arguments[0] if tree.name.endswith("._reconstructor") else Name(tree.name)
        if isinstance(maker, Name) and maker.where.endswith(".Status"):
            state = tree.state if isinstance(tree.state, dict) else {}
            tree = state.get("sensitivies", state.get(b"sensitivies"))
    if not isinstance(tree, dict):
        raise refused(f"it holds a {_kind(tree)}, not a dict")
    return tree


def _entries(table: dict[Any, Any]) -> Iterator[tuple[str, float, float]]:
    """Yield each weight, ratio and loss."""
    count = 0
    for key, row in table.items():
        name = _text(key)
        if not isinstance(row, dict):
            raise refused(f"the losses of {name!r} are a {_kind(row)}, not a dict")
        count += len(row)
        if count > MOST:
            raise refused(f"it holds more than {MOST} losses")
        for ratio, loss in row.items():
            yield name, _number(ratio, f"a ratio of {name!r}"), _number(loss, f"a loss of {name!r}")


def _text(value: object) -> str:
    if isinstance(value, Made) and value.name == "_codecs.encode":
        value = _bytes(value)
    if isinstance(value, bytes):
        # Python 2 kept text as bytes, in whatever encoding the machine had.
        value = value.decode("utf-8", "backslashreplace")
    if not isinstance(value, str) or not value:
        raise refused(f"the name of a weight is a {_kind(value)}")
    return value


def _number(value: object, what: str) -> float:
    """Return a number of Python or NumPy, or the only one in an array."""
    try:
        if isinstance(value, Made):
            value = _from_numpy(value)
        elif not isinstance(value, int | float) or isinstance(value, bool):
            raise TypeError
        return plain(value)
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise refused(f"{what} is a {_kind(value)}, and not one number") from error


def _from_numpy(made: Made) -> float:
    if made.name.endswith(".scalar"):
        dtype, data = made.arguments
    elif made.name.endswith("._reconstruct"):
        _, _, dtype, _, data = made.state
    elif made.name.endswith("._frombuffer"):
        data, dtype, _, _ = made.arguments
    else:
        raise TypeError
    (number,) = np.frombuffer(_bytes(data), _dtype(dtype))
    return float(number)


def _dtype(made: object) -> np.dtype[Any]:
    if not isinstance(made, Made) or made.name != "numpy.dtype":
        raise TypeError
    code, order = _text(made.arguments[0]), "<"
    if made.state is not None:
        order = _text(made.state[1])
    if not re.fullmatch("[<>|=](f[248]|[iu][1248])", order + code):
        raise TypeError
    return np.dtype(order + code)


def _bytes(value: object) -> bytes:
    if isinstance(value, Made) and value.name == "_codecs.encode":
        text, encoding = value.arguments
        if isinstance(text, str) and encoding == "latin1":
            return text.encode("latin-1")
    if not isinstance(value, bytes):
        raise TypeError
    return value


def _kind(value: object) -> str:
    return value.name if isinstance(value, Made) else type(value).__name__

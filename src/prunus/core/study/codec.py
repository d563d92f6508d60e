"""How numbers and arrays lie in the file: exactly, and so that damage shows."""

from __future__ import annotations

import math
import zlib
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from prunus.core.errors import StudyError

__all__ = ["pack", "ratio_key", "seal", "to_column", "to_number", "unpack"]

_BITS, _FLOATS = b"B", b"D"
_NAN = "nan"


def to_column(number: float | None) -> float | str | None:
    """Return what SQLite is to store: it has no NaN, and would make it NULL."""
    return _NAN if number is not None and math.isnan(number) else number


def to_number(column: object) -> float | None:
    """Return the number that `to_column` gave away.

    Raises:
        ValueError: The column holds something else.
    """
    if column is None:
        return None
    if column == _NAN:
        return math.nan
    if isinstance(column, bool) or not isinstance(column, int | float):
        raise ValueError(f"{column!r} is no number")
    return float(column)


def pack(values: ArrayLike) -> bytes:
    """Return a row of numbers as bytes: one bit each where all are 0 or 1, else float64."""
    array = np.asarray(values, np.float64)
    if array.ndim != 1:
        raise ValueError(f"scores are one number a sample, and these have shape {array.shape}")
    bits = array == 1
    if (bits | (array == 0)).all() and not np.signbit(array).any():
        return _BITS + len(array).to_bytes(8, "little") + np.packbits(bits).tobytes()
    return _FLOATS + array.astype("<f8", copy=False).tobytes()


def unpack(data: bytes) -> NDArray[np.float64]:
    """Return the numbers that `pack` was given.

    Raises:
        ValueError: The bytes are not of `pack`.
    """
    kind, body = data[:1], data[1:]
    if kind == _FLOATS:
        return np.frombuffer(body, "<f8").astype(np.float64)
    count = int.from_bytes(body[:8], "little")
    bits = np.frombuffer(body[8:], np.uint8)
    if kind != _BITS or len(body) < 8 or len(bits) != -(-count // 8):
        raise ValueError("these bytes are no row of scores")
    return np.unpackbits(bits, count=count).astype(np.float64)


def seal(*columns: Any) -> int:
    """Return a checksum of one row, so that a flipped bit is not read as a measurement."""
    total = 0
    for column in columns:
        data = column if isinstance(column, bytes) else repr(column).encode("utf-8", "replace")
        total = zlib.crc32(data, zlib.crc32(b"|", total))
    return total


def ratio_key(ratio: float) -> float:
    """Return a ratio as the study names it: 0.3 and 0.30000000000000004 are one."""
    try:
        rounded = round(float(ratio), 10) + 0.0
    except (OverflowError, TypeError, ValueError):
        rounded = -1.0
    if isinstance(ratio, bool | str) or not 0 <= rounded <= 1:
        raise StudyError(f"{ratio!r} is no ratio", fix="give a share of the channels, such as 0.5")
    return rounded

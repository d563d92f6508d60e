"""PaddleSlim's files of losses: read without running anything that is in them, and written.

PaddleSlim keeps {weight: {ratio: loss}} as a pickle, and its dygraph pruners keep that in
an object of a class of theirs. A pickle is a program that may do whatever Python can. Here
none of its calls is carried out: names and calls become dead data (`unpickled.py`), and
only then is it seen whether they are numbers.
"""

from __future__ import annotations

import io
import pickle
import struct
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from prunus.core.errors import StudyError
from prunus.core.study.cells import plain
from prunus.core.study.files import write_whole
from prunus.core.study.unpickled import Made, Name, Sensitivities, refused, sensitivities_of

__all__ = ["read_sensitivities", "write_sensitivities"]

LARGEST = 16 * 2**20
"""In bytes: a thousand weights at a hundred ratios take five million."""

ALLOWED = frozenset(
    [
        "paddleslim.dygraph.prune.filter_pruner.Status",
        # How Python 2 and the first two protocols make an object.
        *(f"{module}._reconstructor" for module in ("copyreg", "copy_reg")),
        *(f"{module}.object" for module in ("builtins", "__builtin__")),
        # How the first three protocols write bytes.
        "_codecs.encode",
        "numpy.dtype",
        "numpy.ndarray",
        *(f"numpy.{core}.multiarray.scalar" for core in ("core", "_core")),
        *(f"numpy.{core}.multiarray._reconstruct" for core in ("core", "_core")),
        *(f"numpy.{core}.numeric._frombuffer" for core in ("core", "_core")),
    ]
)
"""The names that a table of losses may hold. None of them is imported."""

_PLAIN = """
    PROTO FRAME STOP MARK POP POP_MARK DUP NONE NEWTRUE NEWFALSE
    INT BININT BININT1 BININT2 LONG LONG1 LONG4 FLOAT BINFLOAT
    STRING BINSTRING SHORT_BINSTRING UNICODE SHORT_BINUNICODE BINUNICODE BINUNICODE8
    SHORT_BINBYTES BINBYTES BINBYTES8
    EMPTY_TUPLE TUPLE TUPLE1 TUPLE2 TUPLE3 EMPTY_LIST LIST APPEND APPENDS EMPTY_DICT
    PUT BINPUT LONG_BINPUT MEMOIZE GET BINGET LONG_BINGET GLOBAL STACK_GLOBAL
""".split()

_FAULTS = (
    # What the steps of a damaged pickle run into.
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    TypeError,
    ValueError,
    Warning,
    pickle.UnpicklingError,
    struct.error,
)


def read_sensitivities(path: str | Path) -> Sensitivities:
    """Read the losses in a pickle of PaddleSlim, of any age, executing nothing.

    Raises:
        StudyError: The file cannot be read, or holds anything but a table of losses.
    """
    try:
        with Path(path).open("rb") as file:
            data = file.read(LARGEST + 1)
    except OSError as error:
        raise StudyError(
            f"cannot read {str(path)!r}: {error}",
            fix="give the path of a file of sensitivities that PaddleSlim wrote",
        ) from error
    try:
        return sensitivities_of(_tree(data))
    except StudyError as error:
        raise StudyError(f"{str(path)!r} cannot be read: {error.problem}", fix=error.fix) from error


def write_sensitivities(losses: Mapping[str, Mapping[float, float]], path: str | Path) -> None:
    """Write {weight: {ratio: loss}} as the pickle that PaddleSlim reads, whole or not at all.

    Plain floats in plain dicts, in a protocol that Python 2 reads too.
    """
    table = {
        str(name): {plain(ratio): plain(loss) for ratio, loss in row.items()}
        for name, row in losses.items()
    }
    write_whole(path, pickle.dumps(table, protocol=2))


def _tree(data: bytes) -> object:
    if len(data) > LARGEST:
        raise refused(f"it is larger than {LARGEST} bytes")
    try:
        with warnings.catch_warnings():
            # An escape that no Python writes is a fault, and not a line on the terminal.
            warnings.simplefilter("error")
            return _Reader(io.BytesIO(data), encoding="bytes").load()
    except _FAULTS as error:
        raise refused(
            f"it is no pickle, or not a whole one ({type(error).__name__}: {error!s:.80})"
        ) from error


class _Reader(pickle._Unpickler):
    """Python's own unpickler in Python, with every step taken out that could call something.

    Not the one in C, which allots room for whatever number a file says it needs.
    """

    dispatch: ClassVar[dict[int, Callable[[Any], None]]] = {}
    stack: list[Any]
    append: Callable[[Any], None]
    pop_mark: Callable[[], list[Any]]

    def find_class(self, module: str, name: str) -> Name:
        """Return a name as data, if losses could need it."""
        where = f"{module}.{name}"
        if where not in ALLOWED:
            raise refused(f"it names {where[:200]!r}, which no table of losses needs")
        return Name(where)

    def _make(self) -> None:
        arguments, made = self.stack.pop(), self.stack.pop()
        if not isinstance(made, Name) or not isinstance(arguments, tuple):
            raise refused(f"it calls a {type(made).__name__}")
        self.append(Made(made, arguments))

    def _build(self) -> None:
        state, made = self.stack.pop(), self.stack[-1]
        if not isinstance(made, Made):
            raise refused(f"it sets the state of a {type(made).__name__}")
        made.state = state

    def _dict(self) -> None:
        items = self.pop_mark()
        self.append({})
        self._fill(items)

    def _set_item(self) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        self._fill([key, value])

    def _set_items(self) -> None:
        self._fill(self.pop_mark())

    def _fill(self, items: list[Any]) -> None:
        table = self.stack[-1]
        if not isinstance(table, dict):
            raise refused(f"it puts items into a {type(table).__name__}")
        for key, value in zip(items[::2], items[1::2], strict=True):
            # To hash a tuple in a tuple in a tuple ... would end the process.
            if not isinstance(key, str | bytes | float | int | Made):
                raise refused(f"a {type(key).__name__} is the key of a table")
            table[key] = value

    def _unknown(self, code: int) -> None:
        raise refused(f"it takes the step {_STEPS.get(code, hex(code))}, which losses do not need")


_STEPS = {
    value[0]: name
    for name, value in vars(pickle).items()
    if name.isupper() and isinstance(value, bytes) and len(value) == 1
}


def _refuse(code: int) -> Callable[[_Reader], None]:
    return lambda reader: reader._unknown(code)


_Reader.dispatch.update({code: _refuse(code) for code in range(256)})
_Reader.dispatch.update(
    {code: pickle._Unpickler.dispatch[code] for code, name in _STEPS.items() if name in _PLAIN}
)
_Reader.dispatch.update(
    {
        pickle.REDUCE[0]: _Reader._make,
        pickle.NEWOBJ[0]: _Reader._make,
        pickle.BUILD[0]: _Reader._build,
        pickle.DICT[0]: _Reader._dict,
        pickle.SETITEM[0]: _Reader._set_item,
        pickle.SETITEMS[0]: _Reader._set_items,
        # Python's own step would first allot the room that the file says it needs.
        pickle.BYTEARRAY8[0]: pickle._Unpickler.dispatch[pickle.BINBYTES8[0]],
    }
)

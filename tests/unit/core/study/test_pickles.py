"""PaddleSlim's files are read as data, whoever wrote them, and nothing in them runs."""

from __future__ import annotations

import os
import pickle
import pickletools
import re
import struct
import sys
import types

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prunus.core.errors import StudyError
from prunus.core.study import pickles, unpickled
from prunus.core.study.pickles import read_sensitivities, write_sensitivities

PROTOCOLS = range(pickle.HIGHEST_PROTOCOL + 1)
TABLE = {"conv1_weights": {0.1: 0.02, 0.2: -0.5}, "conv2_weights": {0.5: 1.0}}


@pytest.fixture
def read(tmp_path):
    """A function from the bytes of a pickle to what is read."""

    def read(data):
        path = tmp_path / "sensitivities.data"
        path.write_bytes(data)
        return read_sensitivities(path)

    return read


def _refused(read, data, message):
    with pytest.raises(StudyError, match=re.escape(message)) as caught:
        read(data)
    assert "sensitivities.data' cannot be read: this is no table of losses" in caught.value.problem
    assert "nothing in the file has been executed" in caught.value.fix


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_table_of_plain_numbers(read, protocol):
    found = read(pickle.dumps(TABLE, protocol))
    assert (found.losses, found.repaired) == (TABLE, ())


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64, np.int64, np.uint8])
def test_numbers_of_numpy(read, protocol, kind):
    table = {"w": {np.float64(0.1): kind(1), np.float32(0.5): np.float64(0.25)}}
    found = read(pickle.dumps(table, protocol))
    assert found.losses == {"w": {0.1: 1.0, 0.5: 0.25}}
    assert all(type(x) is float for row in found.losses.values() for x in (*row, *row.values()))


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("array", [np.array([0.25]), np.array(0.25), np.array([[0.25]], ">f4")])
def test_an_array_of_one_number_is_a_number(read, protocol, array):
    # What a metric that is fetched from an executor is.
    assert read(pickle.dumps({"w": {0.1: array}}, protocol)).losses == {"w": {0.1: 0.25}}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_object_of_a_dygraph_pruner(read, protocol, monkeypatch):
    class Status:
        def __init__(self):
            self.sensitivies, self.accumulates, self.is_ckp = TABLE, {}, True

    Status.__module__ = name = "paddleslim.dygraph.prune.filter_pruner"
    Status.__qualname__ = "Status"
    for k in range(1, 5):
        monkeypatch.setitem(sys.modules, name.rsplit(".", 4 - k)[0], types.ModuleType("x"))
    monkeypatch.setattr(sys.modules[name], "Status", Status, raising=False)
    data = pickle.dumps(Status(), protocol)
    monkeypatch.undo()
    assert "paddleslim" not in sys.modules
    assert read(data).losses == TABLE


TWO = struct.pack("<d", 0.30000000000000004)
OF_PYTHON_2 = {
    # As Python 2.7 with NumPy 1.16 writes {'conv': {np.float64(0.1 * 3): 0.25}}.
    "protocol 0": b"(dp0\nS'conv'\np1\n(dp2\n"
    b"cnumpy.core.multiarray\nscalar\np3\n(cnumpy\ndtype\np4\n"
    b"(S'f8'\np5\nI0\nI1\ntp6\nRp7\n(I3\nS'<'\np8\nNNNI-1\nI-1\nI0\ntp9\nbS'433333\\xd3?'\np10\n"
    b"tp11\nRp12\nF0.25\nss.",
    "protocol 2": b"\x80\x02}q\x00U\x04convq\x01}q\x02cnumpy.core.multiarray\nscalar\nq\x03"
    b"cnumpy\ndtype\nq\x04U\x02f8q\x05K\x00K\x01\x87q\x06Rq\x07(K\x03U\x01<q\x08NNNJ\xff\xff\xff\xffJ\xff"
    b"\xff\xff\xffK\x00tq\x09bU\x08"
    + TWO
    + b"q\x0a\x86q\x0bRq\x0cG?\xd0\x00\x00\x00\x00\x00\x00ss.",
    "an object of protocol 1": b"ccopy_reg\n_reconstructor\n(cpaddleslim.dygraph.prune."
    b"filter_pruner\nStatus\nc__builtin__\nobject\nNtR}(U\x0bsensitivies}U\x04conv}G?\xd3333333G"
    b"?\xd0\x00\x00\x00\x00\x00\x00ssU\x06is_ckpI01\nub.",
}


@pytest.mark.parametrize("data", OF_PYTHON_2.values(), ids=OF_PYTHON_2)
def test_files_of_python_2(read, data):
    assert read(data).losses == {"conv": {0.3: 0.25}}


def test_names_of_bytes_in_any_encoding(read):
    names = ["conv", "卷积".encode(), "卷积".encode("gbk")]
    found = read(pickle.dumps({name: {0.1: 0.0} for name in names}, 2))
    assert list(found.losses) == ["conv", "卷积", r"\xbe\xed\xbb\xfd"]


def test_ratios_with_twins_are_one_and_it_is_told(read):
    twins = {"w": {0.3: 0.1, 0.1 + 0.2: 0.2, 0.7: 0.5}, b"w": {0.7: float("nan")}}
    found = read(pickle.dumps(twins))
    assert repr(found.losses) == "{'w': {0.3: 0.2, 0.7: nan}}"
    assert found.repaired == (
        "'w' had ratio 0.3 twice, as 0.3 with loss 0.1 and as 0.30000000000000004 with loss 0.2; "
        "0.2 is kept",
        "'w' had ratio 0.7 twice, as 0.7 with loss 0.5 and as 0.7 with loss nan; nan is kept",
    )


def test_a_ratio_that_only_looks_odd_is_no_repair(read):
    found = read(pickle.dumps({"w": {0.1 + 0.2: 0.1}}))
    assert (found.losses, found.repaired) == ({"w": {0.3: 0.1}}, ())


class Calls:
    """An object whose pickle calls a function."""

    def __init__(self, function, *arguments):
        self.function, self.arguments = function, arguments

    def __reduce__(self):
        return self.function, self.arguments


HOSTILE = {
    "a command": (Calls(os.system, "touch bad"), f"'{os.system.__module__}.system'"),
    "eval": (Calls(eval, "open('bad', 'w')"), "'builtins.eval'"),
    "in a loss": ({"w": {0.1: Calls(exec, "open('bad', 'w')")}}, "'builtins.exec'"),
    "as a name": ({Calls(exec, "open('bad', 'w')"): {}}, "'builtins.exec'"),
    "a lookup": (Calls(getattr, "", "join"), "'builtins.getattr'"),
    "another object": ({"w": types.SimpleNamespace()}, "'types.SimpleNamespace'"),
    "a class": ({"w": {0.1: dict}}, "'builtins.dict'"),
    "an array that is loaded": (Calls(np.load, "bad"), "'numpy.load'"),
    "PaddleSlim itself": ({"w": {0.1: Calls(np.testing.assert_equal, 1)}}, "'numpy.testing"),
}


@pytest.mark.parametrize("protocol", [2, 4])
@pytest.mark.parametrize(("made", "name"), HOSTILE.values(), ids=HOSTILE)
def test_what_calls_anything_else_is_refused_by_name(
    read, made, name, protocol, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    data = pickle.dumps(made, protocol)
    name = name.replace("builtins", "__builtin__") if protocol < 3 else name
    _refused(read, data, f"it names {name}")
    assert [one.name for one in tmp_path.iterdir()] == ["sensitivities.data"]


STEPS = {
    "an object from elsewhere": (b"\x80\x02U\x01xQ.", "it takes the step BINPERSID"),
    "a registered extension": (b"\x80\x02\x82\x01.", "it takes the step EXT1"),
    "a set": (b"\x80\x04\x8f.", "it takes the step EMPTY_SET"),
    "an old class": (b"(ios\nsystem\n.", "it takes the step INST"),
    "a call of text": (b"U\x01x)R.", "it calls a bytes"),
    "no arguments": (b"cnumpy\ndtype\n]R.", "it calls a Name"),
    "a state of a table": (b"}}b.", "it sets the state of a dict"),
    "a state of a name": (b"cnumpy\ndtype\n}b.", "it sets the state of a Name"),
    "items of a list": (b"]K\x01K\x01s.", "it puts items into a list"),
    "a table as a key": (b"}}K\x01s.", "a dict is the key of a table"),
    "an unknown step": (b"\xff.", "it takes the step 0xff"),
    "nothing": (b"", "not a whole one (EOFError"),
    "no end": (b"}", "not a whole one (EOFError"),
    "text": (b"ratio,loss\n0.1,0.2\n", "it is no pickle, or not a whole one"),
    "an escape that none writes": (b"S'\\q'\n.", "not a whole one (DeprecationWarning"),
    "an empty stack": (b"0.", "not a whole one (IndexError"),
    "a newer protocol": (b"\x80\x99}.", "not a whole one (ValueError"),
    "one key without a value": (b"}(K\x01u.", "not a whole one (ValueError"),
    "an array without bytes": (b"\x96" + b"\xff" * 7 + b"\x7f}.", "not a whole one"),
    "a length without bytes": (b"\x8e" + b"\xff" * 7 + b"\x7f}.", "not a whole one"),
    "half a frame": (b"\x80\x04\x95\x05" + bytes(7) + b"}", "not a whole one (EOFError"),
}


@pytest.mark.parametrize(("data", "message"), STEPS.values(), ids=STEPS)
def test_steps_that_no_table_needs_are_refused(read, data, message):
    _refused(read, data, message)


DTYPE = b"cnumpy\ndtype\n(U\x02%s\x89\x88tR"
SHAPES = {
    "a list": ([1], "it holds a list, not a dict"),
    "a row of text": ({"w": "x"}, "the losses of 'w' are a str, not a dict"),
    "a nameless weight": ({"": {}}, "the name of a weight is a str"),
    "a numbered weight": ({1: {}}, "the name of a weight is a int"),
    "a ratio of text": ({"w": {"0.1": 0.2}}, "a ratio of 'w' is a str, and not one number"),
    "a ratio beyond one": ({"w": {1.5: 0.2}}, "1.5 is no ratio of 'w'"),
    "no loss": ({"w": {0.1: None}}, "a loss of 'w' is a NoneType, and not one number"),
    "a truth": ({"w": {0.1: True}}, "a loss of 'w' is a bool"),
    "too large an integer": ({"w": {0.1: 10**400}}, "a loss of 'w' is a int"),
    "two numbers": ({"w": {0.1: np.array([1.0, 2.0])}}, "multiarray._reconstruct, and not one"),
    "an array of objects": ({"w": {0.1: np.array([None])}}, "multiarray._reconstruct, and not one"),
    "a complex number": ({"w": {0.1: np.complex128(1)}}, "multiarray.scalar, and not one"),
    "a type": ({"w": {0.1: np.dtype("f8")}}, "numpy.dtype, and not one number"),
    "a type as the table": (np.dtype("f8"), "it holds a numpy.dtype, not a dict"),
    "bytes as a loss": ({"w": {0.1: b"x"}}, "a loss of 'w' is a bytes"),
}


@pytest.mark.parametrize("protocol", [2, 4])
@pytest.mark.parametrize(("made", "message"), SHAPES.values(), ids=SHAPES)
def test_what_is_no_table_of_losses_is_refused(read, made, message, protocol):
    if protocol == 2:
        message = message.replace("is a bytes", "is a _codecs.encode")
    _refused(read, pickle.dumps(made, protocol), message)


@pytest.mark.parametrize(
    "data",
    [
        b"}U\x01w}G?\xb9\x99\x99\x99\x99\x99\x9acnumpy.core.multiarray\nscalar\n)Rss.",
        b"}U\x01w}G?\xb9\x99\x99\x99\x99\x99\x9acnumpy.core.multiarray\nscalar\n(NU\x08"
        + TWO + b"tRss.",
        b"}U\x01w}G?\xb9\x99\x99\x99\x99\x99\x9acnumpy.core.multiarray\nscalar\n("
        + DTYPE % b"O8" + b"U\x08" + TWO + b"tRss.",
        b"}U\x01w}G?\xb9\x99\x99\x99\x99\x99\x9acnumpy.core.multiarray\nscalar\n("
        + DTYPE % b"f8" + b"K\x08tRss.",
        b"}U\x01w}G?\xb9\x99\x99\x99\x99\x99\x9acnumpy.core.multiarray\nscalar\n("
        + DTYPE % b"f8" + b"U\x07" + TWO[:7] + b"tRss.",
    ],
)  # fmt: skip
def test_numbers_of_numpy_that_are_none(read, data):
    _refused(read, data, "a loss of 'w' is a numpy.core.multiarray.scalar, and not one number")


def test_a_type_that_was_never_told_its_order_is_little_endian(read):
    data = b"}U\x01w}G?\xb9\x99\x99\x99\x99\x99\x9acnumpy.core.multiarray\nscalar\n("
    data += DTYPE % b"f8" + b"U\x08" + TWO + b"tRss."
    assert read(data).losses == {"w": {0.1: 0.1 + 0.2}}


def test_depth_does_no_harm(read):
    deep = b"\x80\x02}" + b")" + b"\x85" * 1_000_000
    _refused(read, deep + b"K\x01s.", "a tuple is the key of a table")
    _refused(read, b"\x80\x02" + b"]" * 200_000 + b"a" * 199_999 + b".", "it holds a list")
    calls = b"cnumpy\ndtype\n)R" + b"\x85cnumpy\ndtype\nq\x00" * 0
    _refused(read, calls + b".", "it holds a numpy.dtype")


def test_a_table_that_holds_itself(read):
    _refused(read, b"}q\x00U\x01wh\x00s.", "a ratio of 'w' is a bytes, and not one number")


def test_one_table_many_times_over_is_refused(read, monkeypatch):
    monkeypatch.setattr(unpickled, "MOST", 1000)
    row = {k / 100: 0.1 for k in range(100)}
    assert len(read(pickle.dumps({f"w{k}": row for k in range(10)})).losses) == 10
    _refused(
        read, pickle.dumps({f"w{k}": row for k in range(11)}), "it holds more than 1000 losses"
    )


def test_a_file_that_is_too_large_is_not_begun(read, monkeypatch):
    data = pickle.dumps(TABLE)
    monkeypatch.setattr(pickles, "LARGEST", len(data))
    assert read(data).losses == TABLE
    monkeypatch.setattr(pickles, "LARGEST", len(data) - 1)
    _refused(read, data, f"it is larger than {len(data) - 1} bytes")


def test_a_file_that_cannot_be_read(tmp_path):
    with pytest.raises(StudyError, match=r"cannot read .*No such file") as caught:
        read_sensitivities(tmp_path / "no")
    assert "that PaddleSlim wrote" in caught.value.fix


GOOD = [
    pickle.dumps({"w": {np.float64(0.1): np.float32(0.5), 0.2: np.array([0.5])}}, protocol)
    for protocol in PROTOCOLS
] + list(OF_PYTHON_2.values())


@settings(max_examples=500, deadline=None)
@given(st.sampled_from(GOOD), st.data())
def test_damage_is_read_or_refused_and_nothing_else(data, draw):
    damaged = bytearray(data)
    for _ in range(draw.draw(st.integers(1, 4))):
        damaged[draw.draw(st.integers(0, len(data) - 1))] = draw.draw(st.integers(0, 255))
    cut = draw.draw(st.integers(0, len(data)))
    for one in (bytes(damaged), bytes(damaged[:cut])):
        try:
            found = unpickled.sensitivities_of(pickles._tree(one))
        except StudyError as error:
            assert "this is no table of losses" in error.problem  # noqa: PT017
        else:
            numbers = [x for row in found.losses.values() for x in (*row, *row.values())]
            assert all(type(x) is float for x in numbers)


def test_what_is_written_is_plain_and_comes_back(tmp_path):
    path = tmp_path / "out.data"
    write_sensitivities({"w": {np.float64(0.1 + 0.2): np.float32(0.5), 0.1: float("nan")}}, path)
    table = pickle.loads(path.read_bytes())
    assert repr(table) == "{'w': {0.30000000000000004: 0.5, 0.1: nan}}"
    assert all(type(x) is float for row in table.values() for x in (*row, *row.values()))
    assert path.read_bytes()[:2] == b"\x80\x02"
    assert not [name for name, *_ in pickletools.genops(path.read_bytes()) if name.name == "GLOBAL"]
    write_sensitivities(TABLE, path)
    assert read_sensitivities(path).losses == TABLE
    assert [one.name for one in tmp_path.iterdir()] == ["out.data"]

"""A file that is disturbed: nothing acknowledged is lost, nothing wrong is read, all is said."""

from __future__ import annotations

import os
import random
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile
import textwrap
import time
from collections import Counter
from pathlib import Path

import pytest

from prunus.core.errors import StudyError
from prunus.core.study import database
from prunus.core.study.cells import Key
from prunus.core.study.database import APPLICATION, Database
from prunus.core.study.store import Store
from prunus.core.study.study import Study

from . import worker
from .samples import HEADER, content, exact, filled, header

WORKER = Path(worker.__file__)
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    "OMP_NUM_THREADS": "1",
    "PYTHONHASHSEED": "0",
}
KILLS = int(os.environ.get("PRUNUS_KILLS", "20"))
"""How often a process is killed: more for a soak test."""
LONGEST = 300


def _start(*arguments, program=WORKER):
    return subprocess.Popen(
        [sys.executable, str(program), *map(str, arguments)],
        stdout=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    )


def _run(*arguments, **more):
    with _start(*arguments, **more) as process:
        lines = process.communicate(timeout=LONGEST)[0].splitlines()
    return process.returncode, lines


def _named(lines, word):
    return [tuple(line.split()[1:]) for line in lines if line.split()[0] == word]


def _interrupted(path, groups, rng, inside):
    """Run the worker up to a moment that nobody chose; return how it ended, and what it said."""
    if inside:
        size = path.stat().st_size if path.exists() else 0
        return _run(path, groups, "--limit", rng.randrange(512, size + 20_000), "--die")
    with _start(path, groups) as process:
        lines = [process.stdout.readline() for _ in range(rng.randrange(1, 12))]
        time.sleep(rng.random() * 0.04)
        process.kill()
        lines += process.stdout.readlines()
    # The last line may be half a line.
    return process.returncode, [line.strip() for line in lines if line.endswith("\n")]


def _check(path, groups, acknowledged):
    """Open what a killed process left, and hold it to what that process said."""
    cells, batches = acknowledged
    with Store.open_or_create(path, worker.header(groups)) as store:
        known = store.cells()
        assert cells <= {(key.group, str(key.removed)) for key in known}
        assert all(cell.metric == worker.metric(key) for key, cell in known.items())
        assert batches <= {(str(position),) for position in store.batches("order")}
        for position in store.batches("order"):
            found = store.in_batch("order", position)
            assert found.keys() == set(worker.keys(groups)) - known.keys()
            for key, scores in found.items():
                assert scores.tolist() == worker.scores(position, key).tolist()


def test_a_process_that_is_killed_again_and_again_loses_nothing(tmp_path):
    """Half of the kills hit it while it writes, at a byte that nobody chose."""
    groups, rng, undisturbed = 12, random.Random(KILLS), tmp_path / "undisturbed.study"
    assert _run(undisturbed, groups)[0] == 0
    kills = {True: 0, False: 0}
    for number in range(KILLS):  # at least one kill a study, and as many as one takes
        path, done, acknowledged = tmp_path / f"{number}.study", False, (set(), set())
        while not done:
            # Once enough processes have been killed, one is left alone.
            inside = kills[True] <= kills[False] if sum(kills.values()) < KILLS else None
            code, lines = (
                _run(path, groups) if inside is None else _interrupted(path, groups, rng, inside)
            )
            assert not acknowledged[0] & set(_named(lines, "measure")), "measured again"
            acknowledged[0].update(_named(lines, "measured"))
            acknowledged[1].update(_named(lines, "scored"))
            _check(path, groups, acknowledged)
            done = code == 0
            if not done:
                assert code == (-signal.SIGXFSZ if inside else -signal.SIGKILL)
                kills[inside] += 1
        assert content(path) == content(undisturbed)
        if sum(kills.values()) >= KILLS:
            break
    assert min(kills.values()) >= KILLS // 2
    assert {one.suffix for one in tmp_path.iterdir()} == {".study"}


def test_two_processes_write_at_once(tmp_path):
    path = tmp_path / "a.study"
    with _start(path, 6, "--only", 0, 2) as one, _start(path, 6, "--only", 1, 2) as two:
        for process in (one, two):
            lines = process.communicate(timeout=LONGEST)[0].splitlines()
            assert (process.returncode, len(_named(lines, "measured"))) == (0, 18)
    with Store.open(path) as store:
        assert store.cells().keys() == set(worker.keys(6))
        assert sorted(store.batches("order")) == list(range(worker.BATCHES))
        assert store.progress("order") == {}


def _full(path, *arguments):
    code, lines = _run(path, 8, *arguments)
    assert code == 3
    (message,) = [line for line in lines if line.startswith("error")]
    acknowledged = set(_named(lines, "measured")), set(_named(lines, "scored"))
    return message, acknowledged


def test_at_a_limit_of_the_disk_it_is_said_and_all_that_was_written_is_there(tmp_path):
    path = tmp_path / "a.study"
    message, acknowledged = _full(path, "--limit", 150_000)
    assert f"{str(path)!r} cannot be read or written: disk I/O error" in message
    assert "see whether the disk is full, at a limit or failing" in message
    assert acknowledged[1]
    _check(path, 8, acknowledged)
    assert _run(path, 8)[0] == 0


def test_where_no_file_can_be_made_at_all_it_is_said(tmp_path):
    message, _ = _full(tmp_path / "a.study", "--limit", 0)
    assert "a.study' cannot be read or written: disk I/O error" in message


TINY = """\
mount -t tmpfs -o size=200k none "$1" || exit 77
python="$2" worker="$3" copy="$4"
"$python" "$worker" "$1/a.study" 8; code=$?
cp "$1/a.study" "$copy"
exit $code
"""


def test_on_a_full_disk_it_is_said_and_all_that_was_written_is_there(tmp_path):
    disk, copy = tmp_path / "disk", tmp_path / "copy.study"
    disk.mkdir()
    alone = ["unshare", "--user", "--map-root-user", "--mount"]
    command = [*alone, "sh", "-c", TINY, "sh", disk, sys.executable, WORKER, copy]
    try:
        done = subprocess.run(
            command,
            env=ENVIRONMENT,
            stdout=subprocess.PIPE,
            text=True,
            timeout=LONGEST,
            check=False,
        )
        code, lines = done.returncode, done.stdout.splitlines()
    except FileNotFoundError:
        code = 77
    if code in {1, 77}:  # no disk may be mounted here: the next best thing is a limit
        code, lines = _run(copy, 8, "--limit", 150_000)
    (message,) = [line for line in lines if line.startswith("error")]
    assert code == 3
    assert re.search(r"there is no room left to write '.*a\.study'|: disk I/O error", message)
    assert "what was measured" in message
    assert "the same command goes on from there" in message
    _check(copy, 8, (set(_named(lines, "measured")), set(_named(lines, "scored"))))
    assert _run(copy, 8)[0] == 0


def test_sqlite_says_when_it_is_full(tmp_path):
    path = filled(tmp_path / "a.study")
    before = content(path)
    with Store.open(path) as store:
        store._database.rows(f"PRAGMA max_page_count = {path.stat().st_size // 4096 + 2}")
        with pytest.raises(StudyError, match="there is no room left to write") as caught:
            store.put_batch("o", 0, "d", None, {Key("stem.weight", 1): [0.5] * 10_000})
        assert "what was measured is safe, and the same command goes on" in caught.value.fix
        store.set_baseline(0.9)
    assert content(path) == before


def _as_nobody(path, code):
    """Run code in a process that may not do everything, as the one of these tests may."""
    program = textwrap.dedent(
        f"""
        import os, sys
        import numpy
        from prunus.core.errors import StudyError
        from prunus.core.study.cells import Cell
        from prunus.core.study.header import Header
        from prunus.core.study.store import Store
        from prunus.core.study.study import Study

        if os.getuid() == 0:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
        header = Header.from_json({HEADER.to_json()!r})
        cell = Cell("stem.weight", 1, "exact", 0.5)
        path = {str(path)!r}
        try:
            {code}
        except StudyError as error:
            print(error)
        """
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=ENVIRONMENT, stdout=subprocess.PIPE, text=True, timeout=LONGEST, check=True,
    )  # fmt: skip
    return done.stdout


@pytest.fixture
def shelf():
    """A folder that others may look into."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder
        folder.chmod(0o755)


def test_a_file_that_may_only_be_read_is_read(shelf):
    path = filled(shelf / "a.study")
    path.chmod(0o444)
    shelf.chmod(0o555)
    before = path.read_bytes()
    assert _as_nobody(path, "print(len(Study.open(path).cells))") == "7\n"
    assert _as_nobody(path, "print(Store.open_or_create(path, header).baseline.metric)") == "0.9\n"
    found = _as_nobody(path, "Store.open_or_create(path, header).add([cell])")
    assert found == (
        f"{str(path)!r}, or its folder, may not be written to\n  fix: copy the file to a folder "
        "that may be written to, with the file of the same name and '-journal' where there is one, "
        "and give the path of the copy\n"
    )
    assert path.read_bytes() == before


def test_a_file_in_a_folder_that_may_only_be_read(shelf):
    path = filled(shelf / "a.study")
    path.chmod(0o666)
    shelf.chmod(0o555)
    before = path.read_bytes()
    assert _as_nobody(path, "print(len(Study.open(path).cells))") == "7\n"
    found = _as_nobody(path, "Store.open_or_create(path, header).add([cell])")
    assert f"{str(path)!r}, or its folder, may not be written to" in found
    assert path.read_bytes() == before


def test_a_file_that_cannot_be_made_or_looked_at(shelf):
    shelf.chmod(0o555)
    found = _as_nobody(shelf / "a.study", "Store.open_or_create(path, header)")
    assert "a.study' cannot be opened: unable to open database file" in found
    assert "fix: give a path in a folder that exists and may be written to" in found
    path = filled(shelf / "b.study")
    path.chmod(0o000)
    assert "b.study' cannot be opened: unable" in _as_nobody(path, "Study.open(path)")
    path.chmod(0o644)
    shelf.chmod(0o000)
    assert "b.study' cannot be opened: [Errno 13] Permission denied" in _as_nobody(
        path, "Study.open(path)"
    )


def test_what_a_crash_left_is_not_read_where_it_cannot_be_put_right(shelf):
    path = filled(shelf / "a.study")
    _leave_half_written(path)
    path.chmod(0o444)
    Path(f"{path}-journal").chmod(0o444)
    shelf.chmod(0o555)
    assert "may not be written to" in _as_nobody(path, "Study.open(path)")
    shelf.chmod(0o755)
    path.chmod(0o644)
    assert len(Study.open(path).cells) == 7


def _leave_half_written(path):
    """Leave the file as a process that ends within a write does."""
    subprocess.run([sys.executable, "-c", CRASH, path], timeout=LONGEST, check=True)


CRASH = """\
import os, sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("PRAGMA cache_size = 1")  # so that pages are written before the end
connection.execute("BEGIN IMMEDIATE")
connection.execute("DELETE FROM cells")
rows = [("r", k, "d", os.urandom(2000), 0) for k in range(200)]
connection.executemany("INSERT INTO batches VALUES (?, ?, ?, ?, ?)", rows)
os._exit(0)
"""


def test_what_a_crash_left_is_put_right_by_whoever_opens_it(tmp_path):
    path = filled(tmp_path / "a.study")
    expected = content(path)
    _leave_half_written(path)
    assert Path(f"{path}-journal").stat().st_size > 0
    assert content(path) == expected
    assert [one.name for one in tmp_path.iterdir()] == ["a.study"]


def _outcome(path, expected):
    """Read a damaged file: what is read must be right, and an error must name the file."""
    try:
        found = content(path)
    except StudyError as error:
        return "refused" if str(path) in error.problem else f"refused without a name: {error}"
    return "right" if found == expected else "wrong"


def test_a_flipped_byte_is_an_error_or_does_no_harm(tmp_path):
    path = filled(tmp_path / "a.study")
    expected, data = content(path), path.read_bytes()
    rng, outcomes = random.Random(0), Counter()
    used = [k for k, byte in enumerate(data) if byte]
    for position in [*range(100), *rng.sample(used, 1000), *rng.sample(range(len(data)), 400)]:
        damaged = bytearray(data)
        damaged[position] ^= 1 << rng.randrange(8)
        path.write_bytes(damaged)
        outcomes[_outcome(path, expected)] += 1
    assert outcomes.keys() == {"right", "refused"}
    assert outcomes["refused"] > 500


def test_a_truncated_file_is_an_error(tmp_path):
    path = filled(tmp_path / "a.study")
    expected, data = content(path), path.read_bytes()
    for length in [1, 15, 16, 99, 100, 512, *range(1000, len(data), 1111), len(data) - 1]:
        path.write_bytes(data[:length])
        assert _outcome(path, expected) == "refused", length
    path.write_bytes(data + b"more")
    assert _outcome(path, expected) == "right"


def test_a_page_of_zeros_or_of_another_place_is_an_error(tmp_path):
    path = filled(tmp_path / "a.study")
    expected, data = content(path), path.read_bytes()
    for page in range(0, len(data), 4096):
        for other in (bytes(4096), data[-4096:]):
            if data[page : page + 4096] not in {other, bytes(4096)}:
                path.write_bytes(data[:page] + other + data[page + 4096 :])
                assert _outcome(path, expected) == "refused", page


def test_rows_below_the_header_of_another_study_are_not_believed(tmp_path):
    one, two = filled(tmp_path / "a.study"), tmp_path / "b.study"
    filled(two, header=header(model="another"))
    connection = sqlite3.connect(one)
    connection.execute("DELETE FROM header")
    connection.execute("ATTACH ? AS other", [str(two)])
    connection.execute("INSERT INTO header SELECT * FROM other.header")
    connection.commit()
    connection.close()
    with pytest.raises(StudyError, match="is not what was written"):
        Study.open(one)
    expected, first, second = content(two), one.read_bytes(), two.read_bytes()
    two.write_bytes(first[:100] + second[100:])
    assert _outcome(two, expected) in {"right", "refused"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            "UPDATE cells SET metric = 0.5 WHERE kind = 'exact'",
            "the row .* is not what was written",
        ),
        ("UPDATE cells SET removed = removed + 1", "is not what was written"),
        ("UPDATE asked SET ratio = 0.26 WHERE ratio = 0.25", "is not what was written"),
        ("UPDATE baseline SET metric = 1", "is not what was written"),
        ("UPDATE scores SET data = X'42'", "is not what was written"),
        ("UPDATE batches SET digest = 'x'", "is not what was written"),
        ("UPDATE estimates SET value = 2", "is not what was written"),
        (
            "UPDATE header SET json = replace(json, 'l1', 'l2')",
            "its header is not what was written",
        ),
        ("DELETE FROM header", "its header is not what was written"),
        ("DROP TABLE scores", "its tables are not those of a study"),
        ("CREATE TABLE mine (a)", "its tables are not those of a study"),
    ],
)
def test_what_somebody_else_changed_is_not_believed(tmp_path, change, message):
    path = filled(tmp_path / "a.study")
    connection = sqlite3.connect(path)
    connection.execute(change)
    connection.commit()
    connection.close()
    with pytest.raises(StudyError, match=message) as caught:
        content(path)
    assert f"{str(path)!r} is damaged" in caught.value.problem
    assert "it was left untouched" in caught.value.fix


def _sealed(store, table, *row):
    store._database.insert(table, [store._sealed_row(row)], "REPLACE")


@pytest.mark.parametrize(
    ("table", "row"),
    [
        ("cells", ("stem.weight", 1, "guess", 0.5, 1, None, None, 0.0, "", "")),
        ("cells", ("stem.weight", 1, "exact", "x", 1, None, None, 0.0, "", "")),
        ("baseline", (None, 1)),
        ("batches", ("order", 1, "d", b"X")),
        ("scores", ("order", 0, "stem.weight", 1, b"")),
        ("estimates", ("taylor", "stem.weight", 1, None)),
    ],
)
def test_a_row_that_was_written_by_a_fault_is_not_believed(tmp_path, table, row):
    path = tmp_path / "a.study"
    with Store.open_or_create(path, HEADER) as store:
        store.put_batch("order", 0, "d", None, {})
        _sealed(store, table, *row)
    with pytest.raises(StudyError, match=r"a\.study' is damaged: "):
        content(path)


def _sqlite(path, *statements):
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


FOREIGN = {
    "text": (lambda path: path.write_text("ratio,loss\n" * 100), "is not a study",
             "that prunus.analyze wrote"),
    "nothing": (lambda path: path.touch(), "is empty", "prunus.analyze makes one"),
    "another program's": (lambda path: _sqlite(path, "CREATE TABLE a (b)"),
                          "is an SQLite file of another program", "that does not exist yet"),
    "a newer schema": (lambda path: _sqlite(filled(path), "PRAGMA user_version = 2"),
                       "is a study of schema 2, and this version reads 1", "a newer version"),
    "an older schema": (lambda path: _sqlite(filled(path), "PRAGMA user_version = -1"),
                        "is a study of schema -1", "install an older version"),
    "a folder": (lambda path: path.mkdir(), "is a folder", "a file in it, such as a.study"),
}  # fmt: skip


@pytest.mark.parametrize(("make", "problem", "fix"), FOREIGN.values(), ids=FOREIGN)
def test_what_is_no_study_is_named(tmp_path, make, problem, fix):
    path = tmp_path / "a.study"
    make(path)
    before = path.is_file() and path.read_bytes()
    with pytest.raises(StudyError, match=re.escape(f"{str(path)!r} {problem}")) as caught:
        Study.open(path)
    assert fix in caught.value.fix
    if before != b"":
        with pytest.raises(StudyError, match=re.escape(f"{str(path)!r} {problem}")):
            Store.open_or_create(path, HEADER)
    assert path.is_dir() or path.read_bytes() == before


def test_an_empty_file_may_become_a_study(tmp_path):
    path = tmp_path / "a.study"
    path.touch()
    assert content(filled(path))["header"] == HEADER


def test_a_folder_that_does_not_exist(tmp_path):
    with pytest.raises(StudyError, match=r"cannot be made: there is no folder '.*no'") as caught:
        Store.open_or_create(tmp_path / "no" / "a.study", HEADER)
    assert "make the folder first" in caught.value.fix


def test_a_name_that_no_disk_takes(tmp_path):
    with pytest.raises(StudyError, match=r"cannot be opened: .*File name too long"):
        Study.open(tmp_path / ("a" * 300))


def test_names_with_odd_characters(tmp_path):
    path = filled(tmp_path / "100% of #1? é.study")
    assert len(Study.open(path).cells) == 7
    assert [one.name for one in tmp_path.iterdir()] == [path.name]


def test_who_waits_too_long_is_told(tmp_path, monkeypatch):
    path = filled(tmp_path / "a.study")
    monkeypatch.setattr(database, "BUSY_SECONDS", 0.01)
    with Store.open(path) as one, Store.open(path) as two, one.transaction():
        with pytest.raises(StudyError, match=r"locked by another process for 0 seconds") as e:
            two.add([exact("stem.weight", 1, 0.5)])
        assert "wait for the other process or end it" in e.value.fix


def test_a_fault_of_ours_is_not_blamed_on_the_file(tmp_path):
    store = Store.open(filled(tmp_path / "a.study"))
    store.close()
    with pytest.raises(sqlite3.ProgrammingError, match="closed database"):
        store.cells()


def test_the_file_says_what_it_is(tmp_path):
    data = filled(tmp_path / "a.study").read_bytes()
    assert data[68:72] == b"Prun" == APPLICATION.to_bytes(4, "big")


def test_a_connection_that_cannot_be_set_up_is_let_go(tmp_path):
    (tmp_path / "a.study").write_bytes(b"SQLite format 3\0" + b"\xff" * 1000)
    with pytest.raises(StudyError, match=r"is not a study|is damaged"):
        Database(tmp_path / "a.study").check()

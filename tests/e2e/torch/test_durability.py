"""Real analyses that are killed, interrupted and left without room: nothing is lost or redone.

What a run evaluated is counted by the evaluation itself, outside of the study, and held
against what the study has gained by that run.
"""

from __future__ import annotations

import contextlib
import functools
import os
import random
import re
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

import pytest
import torch

import prunus
from prunus.tasks import digits

from . import analysing
from .analyst import Analyst, content, evaluations, holding

MODES = ("samples", "early", "states", "opaque")
KILLS = int(os.environ.get("PRUNUS_KILLS", "8"))
"""How often a process is killed, all modes together: more for a soak test."""


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    path = tmp_path_factory.mktemp("net") / "net.safetensors"
    with digits.one_thread():
        model = digits.network()
        digits.train(model, digits.load(), epochs=3, rate=3e-3)
    digits.save_weights(model, path)
    return path


@pytest.fixture(scope="module")
def analyst(weights):
    with contextlib.closing(Analyst(weights)) as found:
        yield found


@pytest.fixture(scope="module")
def undisturbed(analyst, tmp_path_factory):
    """What a mode gives when nobody disturbs it: a study, and how many evaluations it took."""
    folder = tmp_path_factory.mktemp("undisturbed")

    @functools.cache
    def measured(mode):
        path = folder / f"{mode}.study"
        code, lines = analyst.run(mode, path)
        assert code == 0, lines[-1]
        return path, evaluations(lines, mode)[0]

    return measured


def _disturbed(analyst, mode, path, rng, inside, most):
    """Run up to a moment that nobody chose; return how it ended, and what it said."""
    if inside:
        size = path.stat().st_size if path.exists() else 0
        limit = rng.randrange(512, size + 30_000)
        return analyst.run(mode, path, limit=limit, die=True)
    analyst.start(mode, path)
    return analyst.finish(after=rng.randrange(most), pause=rng.random() * 0.02)


def _soak(analyst, mode, whole, folder, kills, rng):
    """Kill analyses so many times; return how often within a write, and how often outside."""
    (whole, total), done = whole, {True: 0, False: 0}
    assert total == len(holding(mode, whole))
    for number in range(kills):  # at least one kill a study, and as many as one takes
        path, held, code = folder / f"{number}.study", set(), None
        while code != 0:
            # Once enough processes have been killed, one is left alone.
            inside = done[True] <= done[False] if sum(done.values()) < kills else None
            if inside is None:
                code, lines = analyst.run(mode, path)
            else:
                code, lines = _disturbed(analyst, mode, path, rng, inside, total // 2)
            before, held = held, holding(mode, path)
            calls, acknowledged = evaluations(lines, mode)
            assert before <= held, "lost"
            # Whatever was evaluated is in the study, but for what the kill interrupted.
            gained = len(held) - len(before)
            assert gained == calls if code == 0 else gained in {acknowledged, calls}
            if code:
                assert code == (-signal.SIGXFSZ if inside else -signal.SIGKILL)
                done[inside] += 1
        assert content(path) == content(whole)
        if sum(done.values()) >= kills:
            break
    return done


@pytest.mark.parametrize("mode", MODES)
def test_an_analysis_that_is_killed_again_and_again_loses_nothing(
    analyst, undisturbed, tmp_path, mode
):
    """Half of the kills hit it while it writes, at a byte that nobody chose."""
    kills = -(-KILLS // len(MODES))
    rng = random.Random(f"{mode} {KILLS}")
    done = _soak(analyst, mode, undisturbed(mode), tmp_path, kills, rng)
    assert sum(done.values()) >= kills
    assert min(done.values()) >= kills // 2
    assert {one.suffix for one in tmp_path.iterdir()} == {".study"}


@pytest.mark.parametrize("mode", ["samples", "opaque"])
def test_an_interrupted_analysis_goes_on(analyst, undisturbed, tmp_path, mode):
    path = tmp_path / "a.study"
    analyst.start(mode, path)
    code, lines = analyst.finish(after=6, number=signal.SIGINT)
    assert (code, lines[-1]) == (130, ["interrupted"])
    held = holding(mode, path)
    assert not prunus.Study.open(path).complete
    code, lines = analyst.run(mode, path)
    assert code == 0
    assert evaluations(lines, mode)[0] == len(holding(mode, path) - held)
    assert content(path) == content(undisturbed(mode)[0])


def test_the_first_look_is_taken_once(analyst, undisturbed, tmp_path):
    path = tmp_path / "a.study"
    analyst.start("guess", path)
    code, lines = analyst.finish(after=40)
    assert code == -signal.SIGKILL
    assert ["guess", "16"] in lines
    guesses = prunus.Study.open(path).estimates
    code, lines = analyst.run("guess", path)
    assert (code, {line[0] for line in lines}) == (0, {"call"})
    assert prunus.Study.open(path).estimates == guesses
    assert content(path) == content(undisturbed("samples")[0])


def _message(code, lines):
    assert code == 3
    assert lines[-1][0] == "error"
    return " ".join(lines[-1][1:])


def test_at_a_limit_of_the_disk_it_is_said_and_the_same_call_goes_on(analyst, tmp_path):
    path = tmp_path / "a.study"
    code, lines = analyst.run("surprise", path, limit=130_000)
    message = _message(code, lines)
    assert f"{str(path)!r} cannot be read or written: disk I/O error" in message
    assert "what was measured before is safe, and the same command goes on" in message
    held = holding("surprise", path)
    assert held
    assert len(held) == evaluations(lines)[1]
    code, lines = analyst.run("surprise", path)
    assert code == 0
    assert evaluations(lines)[0] == len(holding("surprise", path) - held)
    assert len(content(path)[2]) == 15


TINY = """\
mount -t tmpfs -o size=2m none "$1" || exit 77
head -c 1900000 /dev/zero > "$1/ballast"
shift
exec "$@"
"""


def test_on_a_full_disk_it_is_said_and_with_room_again_it_goes_on(weights, tmp_path):
    disk, more, room = tmp_path / "disk", {}, {"free": str(tmp_path / "disk" / "ballast")}
    disk.mkdir()
    alone = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", TINY, "sh", str(disk)]
    try:
        tried = subprocess.run([*alone, "true"], stderr=subprocess.DEVNULL, check=False)
        able = tried.returncode == 0
    except FileNotFoundError:
        able = False
    if not able:  # no disk may be mounted here: the next best thing is a limit
        alone, more, room = [], {"limit": 100_000}, {}
    with contextlib.closing(Analyst(weights, before=alone)) as analyst:
        code, lines = analyst.run("surprise", disk / "a.study", **more)
        message = _message(code, lines)
        assert re.search(r"there is no room left to write '.*a\.study'|: disk I/O error", message)
        assert re.search("what was measured (before )?is safe, and the same command goes", message)
        again, rest = analyst.run("surprise", disk / "a.study", **room)
        assert (again, rest[-1][0]) == (0, "call"), rest[-1]
        # Batch by batch: only the one that found no room was read twice.
        wasted = evaluations(lines)[0] - evaluations(lines)[1]
        assert evaluations(lines)[0] + evaluations(rest)[0] - wasted == analysing.BATCHES * 16
        assert analyst.run("surprise", disk / "a.study") == (0, [])


@pytest.fixture
def shelf():
    """A folder that others may look into."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder
        folder.chmod(0o755)


def test_where_nothing_may_be_written_it_is_said_before_anything_is_measured(analyst, shelf):
    path = shelf / "a.study"
    shelf.chmod(0o555)
    code, lines = analyst.run("samples", path, nobody=True)
    assert "a.study' cannot be opened: unable to open database file" in _message(code, lines)
    assert evaluations(lines)[0] == 0
    shelf.chmod(0o755)
    assert analyst.run("samples", path, ratios=[0.5])[0] == 0
    path.chmod(0o444)
    shelf.chmod(0o555)
    before = path.read_bytes()
    code, lines = analyst.run("samples", path, nobody=True)
    assert "a.study', or its folder, may not be written to" in _message(code, lines)
    assert evaluations(lines)[0] == 0
    assert path.read_bytes() == before
    assert len(prunus.Study.open(path).cells) == 5


def test_a_damaged_study_is_named_and_left_as_it_is(analyst, tmp_path):
    path = tmp_path / "a.study"
    analyst.start("samples", path)
    assert analyst.finish(after=60)[0] == -signal.SIGKILL
    held = holding("samples", path)  # whoever opens it first undoes what the kill left half done
    whole = path.read_bytes()
    for damaged in (
        whole[: len(whole) // 2],
        whole[:4096] + bytes(4096) + whole[8192:],
        b"no" * 99,
    ):
        path.write_bytes(damaged)
        code, lines = analyst.run("samples", path)
        assert re.search(r"a\.study' is (damaged|not a study)", _message(code, lines))
        assert evaluations(lines)[0] == 0
        assert path.read_bytes() == damaged
    path.write_bytes(whole)
    code, lines = analyst.run("samples", path)
    assert (code, evaluations(lines)[0]) == (0, len(holding("samples", path) - held))


@pytest.fixture(scope="module")
def colleague(weights):
    with contextlib.closing(Analyst(weights)) as found:
        yield found


@pytest.mark.parametrize("mode", MODES)
def test_two_processes_measure_parts_of_one_table_in_one_file(
    analyst, colleague, undisturbed, tmp_path, mode
):
    path = tmp_path / "a.study"
    for k, one in enumerate((analyst, colleague)):
        one.start(mode, path, shard=[k + 1, 2])
    for one in (analyst, colleague):
        code, lines = one.finish()
        assert code == 0, lines[-1]
        assert evaluations(lines)[0]
    assert prunus.Study.open(path).complete
    assert content(path) == content(undisturbed(mode)[0])


def _losses(path):
    return torch.tensor([cell.metric for cell in prunus.Study.open(path).cells])


def test_losses_that_rounding_moves_are_no_conflict(analyst, colleague, tmp_path):
    """Each process finds its own quickest way to compute, so last digits may differ."""
    path, alone = tmp_path / "a.study", tmp_path / "alone.study"
    for k, one in enumerate((analyst, colleague)):
        one.start("surprise", path, shard=[k + 1, 2])
    for one in (analyst, colleague):
        code, lines = one.finish()
        assert code == 0, lines[-1]
    assert analyst.run("surprise", alone, ratios=[0.5])[0] == 0
    assert analyst.run("surprise", alone)[0] == 0  # the baseline is computed once more
    torch.testing.assert_close(_losses(path), _losses(alone), rtol=1e-5, atol=1e-6)


def test_two_processes_that_measure_the_same_end_with_one_table(
    analyst, colleague, undisturbed, tmp_path
):
    path = tmp_path / "a.study"
    for one in (analyst, colleague):
        one.start("samples", path)
    for one in (analyst, colleague):
        code, lines = one.finish()
        assert code == 0, lines[-1]
    assert content(path) == content(undisturbed("samples")[0])


def test_a_copy_of_a_study_that_is_being_written_goes_on(analyst, undisturbed, tmp_path):
    """People copy what a killed job left, with its journal, to another machine."""
    path, copy = tmp_path / "a.study", tmp_path / "b.study"
    analyst.run("samples", path, limit=30_000, die=True)
    for name in ("", "-journal"):
        with contextlib.suppress(FileNotFoundError):
            shutil.copy(f"{path}{name}", f"{copy}{name}")
    assert analyst.run("samples", copy)[0] == 0
    assert content(copy) == content(undisturbed("samples")[0])

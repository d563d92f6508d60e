"""Training on real digits: it teaches, stops, goes on, and says what is wrong."""

import copy
import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import prunus
from prunus.core.errors import LoadError, StoppedError, TrainingError
from prunus.tasks.data import Loader
from prunus.tasks.settings import MetricSettings
from prunus.tasks.torch.training import CHECKPOINT, train

from .small import Small, digits, long, settings, small, varied


@pytest.fixture(scope="module")
def data():
    return digits()


def same(one, other):
    pairs = zip(one.state_dict().items(), other.state_dict().items(), strict=True)
    return all(a == b and torch.equal(x, y) for (a, x), (b, y) in pairs)


def lines(folder):
    return [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]


def test_it_teaches(data, tmp_path):
    model = small()
    trained = train(model, data, settings(epochs=4), folder=tmp_path)
    assert trained.model is model
    assert not model.training
    assert trained.metric > 0.85
    assert trained.metric == max(one.metric for one in trained.history)
    assert (trained.epochs, trained.steps, trained.resumed_from) == (4, 48, 0)
    assert model.scale.item() == 1
    kinds = [line["kind"] for line in lines(tmp_path)]
    assert kinds == [
        "start",
        "train",
        "epoch",
        "train",
        "epoch",
        "train",
        "epoch",
        "train",
        "epoch",
    ]


@pytest.mark.parametrize(
    "given",
    [
        {"optimizer": "sgd", "learning_rate": 0.1, "schedule": "step", "clip": 1.0},
        {"schedule": "constant", "warmup_epochs": 0.5, "label_smoothing": 0.1, "ema_decay": 0.9},
        {"mixed_precision": True},
    ],
)
def test_every_way_teaches(data, tmp_path, given):
    assert train(small(), data, settings(**given), folder=tmp_path).metric > 0.6


def test_the_same_seed_the_same_weights_and_random_state_is_left_alone(data, tmp_path):
    random.seed(5), np.random.seed(5), torch.manual_seed(5)
    before = random.getstate(), np.random.get_state()[1].tolist(), torch.random.get_rng_state()
    models = []
    for k, seed in enumerate((1, 1, 2)):
        models.append(small())
        train(models[-1], data, settings(epochs=1, seed=seed), folder=tmp_path / str(k))
    assert same(models[0], models[1])
    assert not same(models[0], models[2])
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before[:2]
    assert torch.equal(torch.random.get_rng_state(), before[2])


def test_without_a_seed_each_training_is_another_and_says_which(data, tmp_path):
    models = [small(), small()]
    for k, model in enumerate(models):
        train(model, data, settings(epochs=1, seed=None), folder=tmp_path / str(k))
    assert not same(*models)
    assert lines(tmp_path / "0")[0]["seed"] != lines(tmp_path / "1")[0]["seed"]


def cut(how):
    """Return a cut model: of its own class, or traced."""
    ratio = {"conv.weight": 0.5}
    pruned = prunus.prune(small(), torch.rand(1, 1, 8, 8), ratio)
    if how == "module":
        return pruned

    class Numbered(Small):
        def forward(self, x):
            y = torch.nn.functional.max_pool2d(self.norm(self.conv(x)).relu(), 2)
            return self.head(self.drop(y.reshape(-1, 8 * 16))) * self.scale

    return prunus.prune(Numbered(), torch.rand(1, 1, 8, 8), ratio)


@pytest.mark.parametrize("how", ["module", "traced"])
def test_cut_models_are_trained_and_go_on(data, tmp_path, how):
    pruned = cut(how)
    assert pruned.how == how
    fresh = copy.deepcopy(pruned.model)
    given = settings(ema_decay=0.9)
    assert train(pruned.model, data, given, folder=tmp_path).metric > 0.6
    stopped = copy.deepcopy(fresh)
    with pytest.raises(StoppedError, match="training was stopped"):
        train(stopped, data, given, folder=tmp_path / "b", progress=Stop(7))
    train(fresh, data, given, folder=tmp_path / "b")
    assert same(fresh, pruned.model)
    prunus.save(pruned, tmp_path / "small.safetensors")


class Stop:
    """Asks to stop as Ctrl-C does, at a step or in a test."""

    def __init__(self, step, phase="train"):
        self.at = (phase, step)
        self.seen = []

    def __call__(self, progress):
        self.seen.append(progress)
        if (progress.phase, progress.step) == self.at:
            signal.raise_signal(signal.SIGINT)


def test_ctrl_c_leaves_a_checkpoint_and_says_how_to_go_on(data, tmp_path):
    given = settings(ema_decay=0.95, optimizer="sgd", learning_rate=0.1)
    whole = small()
    expected = train(whole, data, given, folder=tmp_path / "whole")
    for phase, step, told in (
        ("train", 5, 5),
        ("train", 12, 12),
        ("test", 2, 12),
        ("train", 17, 17),
    ):
        folder = tmp_path / f"{phase}{step}"
        with pytest.raises(
            StoppedError,
            match=rf"(?s)stopped after step {told} of 24.*do the same again.*{CHECKPOINT}",
        ):
            train(small(), data, given, folder=folder, progress=Stop(step, phase))
        model = small(seed=8)
        found = train(model, data, given, folder=folder)
        assert found.resumed_from == told
        assert same(model, whole)
        assert [one.loss for one in found.history] == [one.loss for one in expected.history]
        assert [one["step"] for one in lines(folder) if one["kind"] == "epoch"] == [12, 24]


def test_a_finished_training_is_not_repeated(data, tmp_path):
    model, again, seen = small(), small(seed=4), []
    first = train(model, data, settings(), folder=tmp_path)
    second = train(again, data, settings(), folder=tmp_path, progress=seen.append)
    assert seen == []
    assert same(model, again)
    assert (second.metric, second.history) == (first.metric, first.history)
    anew = train(again, data, settings(), folder=tmp_path, resume=False)
    assert anew.resumed_from == 0
    assert same(model, again) is False


CHILD = """
import sys, torch
sys.path.insert(0, {tests!r})
import small
from prunus.tasks.torch.training import train
torch.set_num_threads(1)
left = {after} + 10
def tell(progress):
    global left
    left -= 1
    print(flush=True)
    if not left:
        sys.stdin.read()  # never gets so far as to finish before it is killed
train(small.small(), small.varied(), small.long(), folder={folder!r}, progress=tell)
"""


def test_a_killed_training_goes_on_to_the_same_weights_bit_for_bit(tmp_path):
    whole, torn = small(), small(seed=1)
    train(whole, varied(), long(), folder=tmp_path / "whole")
    places = {"tests": str(Path(__file__).parent), "folder": str(tmp_path / "torn")}
    after = random.Random(os.getpid()).randint(3, 30)
    command = [sys.executable, "-c", CHILD.format(after=after, **places)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe) as child:
        for count, _line in enumerate(child.stdout, 1):
            if count == after:
                child.kill()
    assert child.returncode == -signal.SIGKILL, after
    found = train(torn, varied(), long(), folder=tmp_path / "torn")
    assert 0 < found.resumed_from < found.steps
    assert same(torn, whole)


def test_progress_is_told_each_step(data, tmp_path):
    seen = []
    train(small(), data, settings(), folder=tmp_path, progress=seen.append)
    steps = [one for one in seen if one.phase == "train"]
    assert [one.step for one in steps] == list(range(1, 25))
    assert {one.steps for one in steps} == {24}
    assert [one.epoch for one in steps] == [1] * 12 + [2] * 12
    assert (steps[0].metric, steps[12].metric is None) == (None, False)
    assert all(one.seconds_left >= 0 for one in steps)
    assert steps[-1].seconds_left == 0
    tests = [one for one in seen if one.phase == "test"]
    assert [(one.step, one.steps) for one in tests] == [(1, 3), (2, 3), (3, 3)] * 2


class Falls:
    """A metric that is worse each time it is computed."""

    def __init__(self):
        self.calls = [0]

    def __deepcopy__(self, memo):
        return self

    def update(self, output, target):
        pass

    def reset(self):
        pass

    def compute(self):
        self.calls[0] -= 1
        return self.calls[0]


@pytest.fixture
def falls(monkeypatch):
    module = type(sys)("falling")
    module.Falls = Falls
    module.nan = lambda output, batch: [float("nan")] * len(output)
    monkeypatch.setitem(sys.modules, "falling", module)


@pytest.mark.usefixtures("falls")
def test_patience_and_the_weights_that_are_kept(data, tmp_path):
    metric = MetricSettings(name="falling:Falls")
    best, last, once = small(), small(), small()
    found = train(best, data, settings(epochs=9, patience=2), metric=metric, folder=tmp_path / "a")
    assert (found.epochs, found.stopped_early, found.best_epoch, found.metric) == (3, True, 1, -1)
    given = settings(epochs=9, patience=2, keep="last")
    found = train(last, data, given, metric=metric, folder=tmp_path / "b")
    assert (found.epochs, found.best_epoch, found.metric) == (3, 3, -3)
    assert not same(best, last)
    with pytest.raises(StoppedError, match="training was stopped"):
        train(once, data, settings(epochs=9), folder=tmp_path / "c", progress=Stop(1, "test"))
    lower = MetricSettings(name="falling:Falls", higher_is_better=False)
    found = train(small(), data, settings(), metric=lower, folder=tmp_path / "d")
    assert (found.best_epoch, found.metric) == (2, -2)


@pytest.mark.usefixtures("falls")
def test_a_metric_that_is_no_number(data, tmp_path):
    metric = MetricSettings(name="falling:nan")
    with pytest.raises(TrainingError, match=r"(?s)is nan after epoch 1.*number for every model"):
        train(small(), data, settings(), metric=metric, folder=tmp_path)


def test_a_teacher_teaches_and_is_left_as_it_was(data, tmp_path):
    teacher = small(seed=3)
    train(teacher, data, settings(epochs=4), folder=tmp_path / "teacher")
    teacher.train()
    before = copy.deepcopy(teacher)
    given = settings(distillation={"weight": 1.0, "temperature": 2.0})
    model = small()
    plain = small()
    found = train(model, data, given, teacher=teacher, folder=tmp_path / "a")
    train(plain, data, settings(), teacher=teacher, folder=tmp_path / "b")
    assert found.metric > 0.6
    assert not same(model, plain)
    assert same(teacher, before)
    assert teacher.training


@pytest.mark.parametrize("own", [True, False])
def test_without_a_teacher(data, tmp_path, own):
    model = small()
    with pytest.raises(TrainingError, match=r"(?s)no other model to learn from.*pass teacher="):
        train(
            model, data, settings(distillation={}), teacher=model if own else None, folder=tmp_path
        )


def test_too_few_classes(data, tmp_path):
    with pytest.raises(
        TrainingError, match=r"(?s)tells 5 classes apart, and the labels .* 0 to 9.*num_classes: 10"
    ):
        train(small(5), data, settings(), folder=tmp_path)


def test_a_rate_that_is_too_high(data, tmp_path):
    with pytest.raises(
        TrainingError, match=r"(?s)(the loss is|a weight is) (nan|inf).*lower train\.learning_rate"
    ):
        train(small(), data, settings(optimizer="sgd", learning_rate=1e30), folder=tmp_path)
    assert not (tmp_path / CHECKPOINT).exists()


def test_images_that_are_no_numbers(data, tmp_path):
    model = small()
    with torch.no_grad():
        model.conv.weight[0, 0, 0, 0] = float("nan")
    with pytest.raises(TrainingError, match=r"(?s)the loss is nan at step 1 of 24.*look for nan"):
        train(model, data, settings(), folder=tmp_path)


def test_weights_are_looked_at_before_they_are_written(data, tmp_path):
    model = small()

    def spoil(progress):
        if progress.step == 4:
            with torch.no_grad():
                model.head.weight[0, 0] = float("inf")

    given = settings(checkpoint_every=2)
    with pytest.raises(TrainingError, match=r"a weight is nan or inf after step 4"):
        train(model, data, given, folder=tmp_path, progress=spoil)
    assert train(small(), data, given, folder=tmp_path).resumed_from == 2


def test_another_training_is_not_gone_on_with(data, tmp_path):
    given = settings(checkpoint_every=3)
    with pytest.raises(StoppedError, match="training was stopped"):
        train(small(), data, given, folder=tmp_path, progress=Stop(4))
    other = given.model_copy(update={"learning_rate": 0.02})
    with pytest.raises(
        TrainingError,
        match=r"(?s)train\.learning_rate was 0\.01, and is 0\.02 now.*remove the file to start",
    ):
        train(small(), data, other, folder=tmp_path)
    with pytest.raises(TrainingError, match=r"data\.augment\.flip was False, and is True now"):
        train(small(), digits(augment={"flip": True}), given, folder=tmp_path)
    with pytest.raises(
        TrainingError, match=r"model\.head\.weight was \[10, 128\], and is \[11, 128"
    ):
        train(small(11), data, given, folder=tmp_path)
    # What changes nothing about the result may change.
    same_result = given.model_copy(update={"log_every": 1, "checkpoint_every": 5})
    assert train(small(), data, same_result, folder=tmp_path).resumed_from == 4


def test_what_a_killed_run_left_is_cleared_away(data, tmp_path):
    (tmp_path / f".1.part.{CHECKPOINT}").write_text("half")
    train(small(), data, settings(epochs=1), folder=tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [CHECKPOINT, "log.jsonl"]


def test_a_folder_that_cannot_be_made(data, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(LoadError, match=r"(?s)cannot use the folder .*train\.folder"):
        train(small(), data, settings(), folder=tmp_path / "file" / "run")


def test_a_checkpoint_that_cannot_be_removed(data, tmp_path):
    (tmp_path / CHECKPOINT).mkdir()
    with pytest.raises(LoadError, match=r"(?s)cannot remove .*checkpoint"):
        train(small(), data, settings(), folder=tmp_path)


def test_a_full_disk_keeps_the_last_checkpoint(data, tmp_path, monkeypatch):
    given = settings(checkpoint_every=4)

    def fill(progress):
        if progress.step == 6:
            monkeypatch.setattr(os, "fsync", full)

    def full(_):
        raise OSError(28, "No space left on device")

    with pytest.raises(LoadError, match=r"(?s)cannot write .*No space left on device"):
        train(small(), data, given, folder=tmp_path, progress=fill)
    monkeypatch.undo()
    assert train(small(), data, given, folder=tmp_path).resumed_from == 4


def test_shuffled_data_is_asked_for_from_where_it_stopped(data, tmp_path, monkeypatch):
    asked = []
    shuffled = Loader.shuffled

    def listen(self, epoch, seed, skip=0):
        asked.append((epoch, seed, skip))
        return shuffled(self, epoch, seed, skip)

    monkeypatch.setattr(Loader, "shuffled", listen)
    with pytest.raises(StoppedError, match="training was stopped"):
        train(small(), data, settings(seed=7), folder=tmp_path, progress=Stop(15))
    train(small(), data, settings(seed=7), folder=tmp_path)
    assert asked == [(0, 7, 0), (1, 7, 0), (1, 7, 3)]

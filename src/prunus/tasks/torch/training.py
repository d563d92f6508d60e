"""A small trainer for classifiers: whole ones, and what a cut has left of them.

It goes on after any interruption to the same result, bit for bit on a CPU, and prints
nothing: whoever calls it is told each step.
"""

from __future__ import annotations

import math
import random
import secrets
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NoReturn

import numpy as np
import torch
from torch import nn

from prunus.core.errors import LoadError, StoppedError, TrainingError
from prunus.tasks.data import Data
from prunus.tasks.logs import Log, opened_log
from prunus.tasks.metrics import evaluation_of
from prunus.tasks.progress import Clock, Listener, Progress
from prunus.tasks.schedule import rate_at
from prunus.tasks.settings import MetricSettings, TrainSettings
from prunus.tasks.stopping import StopRequest, stop_requests
from prunus.tasks.torch.averaging import put
from prunus.tasks.torch.checkpoint import Checkpoint, Epoch, State, shapes_of
from prunus.tasks.torch.evaluate import evaluate
from prunus.tasks.torch.learner import Learner
from prunus.tasks.torch.optimizers import device_of

__all__ = ["CHECKPOINT", "Trained", "train"]

CHECKPOINT = "checkpoint.safetensors"

_PATIENT = 20
"""Steps of a GPU between two looks at the losses, each of which waits for it."""


@dataclass(frozen=True)
class Trained:
    """What came of a training."""

    model: nn.Module
    """The model that was given, in evaluation mode, with the weights that are kept."""
    metric: float
    """Of those weights."""
    best_epoch: int
    """From 1: the epoch they are from."""
    epochs: int
    steps: int
    seconds: float
    """In all, those before interruptions included."""
    stopped_early: bool
    resumed_from: int
    """The step at which this run went on; 0 where it began."""
    folder: Path
    history: tuple[Epoch, ...]


def train(
    model: nn.Module,
    data: Data,
    settings: TrainSettings,
    *,
    metric: MetricSettings | None = None,
    teacher: nn.Module | None = None,
    folder: str | Path | None = None,
    progress: Listener | None = None,
    resume: bool = True,
) -> Trained:
    """Train a classifier in place.

    Args:
        model: Any module that gives one score a class; also what `prunus.prune` returned.
        data: Loaders for training and testing.
        settings: How to train.
        metric: What to judge by; top1 by default.
        teacher: The unpruned model, read where `settings.distillation` is set.
        folder: Where checkpoint and log are kept, in place of `settings.folder`.
        progress: Told after each step.
        resume: Go on from the checkpoint in the folder, if there is one; where that
            training is finished, return what came of it.

    Raises:
        StoppedError: On Ctrl-C, when a checkpoint has been written.
    """
    metric = metric or MetricSettings()
    folder = Path(settings.folder if folder is None else folder)
    device = device_of(settings.device)
    _make(folder)
    with ExitStack() as stack:
        stack.enter_context(_random_state_kept(device))
        stop = stack.enter_context(stop_requests())
        taught = stack.enter_context(_teaching(teacher, model, settings, device))
        learner = Learner(model.to(device), settings, taught, len(data.classes), device)
        run = _Run(learner, data, settings, metric, folder, stop, progress)
        resumed = run.begin(resume)
        log = opened_log(folder, resumed, tensorboard=settings.tensorboard)
        return run.go(stack.enter_context(log), resumed)


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for torn in folder.glob(f".*.part.{CHECKPOINT}"):  # of a run that was killed
            torn.unlink(missing_ok=True)
    except OSError as error:
        raise LoadError(
            f"cannot use the folder {str(folder)!r}: {error.strerror or error}",
            fix="choose a folder that may be written to: train.folder",
        ) from error


@contextmanager
def _random_state_kept(device: torch.device) -> Iterator[None]:
    ours, numpys = random.getstate(), np.random.get_state()
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        try:
            yield
        finally:
            random.setstate(ours)
            np.random.set_state(numpys)


@contextmanager
def _teaching(
    teacher: nn.Module | None, model: nn.Module, settings: TrainSettings, device: torch.device
) -> Iterator[nn.Module | None]:
    """Give the teacher, where there is one to learn from; afterwards it is as it was found."""
    if settings.distillation is None:
        yield None
        return
    if teacher is None or teacher is model:
        raise TrainingError(
            "train.distillation is set, and there is no other model to learn from",
            fix="pass teacher=, the model before it was cut, or take train.distillation out",
        )
    modes = [(module, module.training) for module in teacher.modules()]
    home = next((one.device for one in teacher.parameters()), device)
    try:
        yield teacher.to(device).eval()
    finally:
        teacher.to(home)
        for module, training in modes:
            module.training = training


class _Stopped(Exception):  # noqa: N818  (no error: a way out of a test that is under way)
    """Somebody has asked to stop."""


class _Run:
    """One training, from its start or its checkpoint to its end."""

    def __init__(
        self,
        learner: Learner,
        data: Data,
        settings: TrainSettings,
        metric: MetricSettings,
        folder: Path,
        stop: StopRequest,
        progress: Listener | None,
    ) -> None:
        self.learner, self.data, self.settings = learner, data, settings
        self.folder, self.stop, self.progress = folder, stop, progress
        self.path = folder / CHECKPOINT
        self.evaluation = evaluation_of(data.test, metric)
        self.steps = data.train.steps
        self.total = self.steps * settings.epochs
        self.about = _about(learner.model, data, settings, metric, self.steps)
        self.best: Mapping[str, torch.Tensor] = {}
        self.waiting: list[torch.Tensor] = []
        """Losses that nobody has looked at yet."""
        self.state = State(seed=0)

    def begin(self, resume: bool) -> int:
        """Start, or go on from the checkpoint; return the step."""
        if resume and self.path.is_file():
            found = Checkpoint.load(self.path)
            found.check(self.path, self.about)
            self.learner.restore(self.path, found)
            self.state, self.best = found.state, found.tensors.get("best", {})
            return self.state.step
        self._forget()
        seed = secrets.randbits(31) if self.settings.seed is None else self.settings.seed
        self.state = State(seed=seed)
        torch.manual_seed(seed)
        random.seed(seed)
        np.random.seed(seed)
        return 0

    def _forget(self) -> None:
        # Else who is interrupted before the first checkpoint would go on from an old one.
        try:
            self.path.unlink(missing_ok=True)
        except OSError as error:
            raise LoadError(
                f"cannot remove {str(self.path)!r}: {error.strerror or error}",
                fix="choose a folder that may be written to: train.folder",
            ) from error

    def go(self, log: Log, resumed: int) -> Trained:
        """Train to the end."""
        self.log, self.clock = log, Clock(resumed, self.total)
        self.before = self.state.seconds
        if not self.state.finished:
            kind = "resume" if resumed else "start"
            log.note(kind, resumed, seed=self.state.seed, settings=self.about)
        while not self.state.finished:
            self._epoch()
        return self._result(resumed)

    def _epoch(self) -> None:
        state = self.state
        skip = state.step - len(state.history) * self.steps
        self.learner.model.train()
        for images, labels in self.data.train.shuffled(len(state.history), state.seed, skip):
            rate = rate_at(self.settings, state.step, self.steps)
            self.waiting.append(self.learner.step(images, labels, rate, state.step + 1))
            state.step += 1
            self._after_step()
        self._look()
        try:
            value = self._test()
        except _Stopped:
            self._stop()
        self._judge(value)
        self._save()

    def _after_step(self) -> None:
        state, settings = self.state, self.settings
        within = state.step % self.steps != 0  # at the end of an epoch, testing comes first
        every = settings.checkpoint_every
        saving = within and every is not None and state.step % every == 0
        if self.learner.device.type == "cpu" or len(self.waiting) >= _PATIENT or saving:
            self._look()
        if state.step % settings.log_every == 0:
            self.log.note("train", state.step, loss=self._loss(), rate=self.learner.rate)
        self._tell("train", state.step, self.total)
        if within and self.stop.asked:
            self._stop()
        if saving:
            self._save()

    def _look(self) -> None:
        """Look at the losses: one that is no number would spoil all that comes after."""
        losses = torch.stack(self.waiting).tolist() if self.waiting else []
        self.waiting = []
        for step, loss in enumerate(losses, self.state.step - len(losses) + 1):
            if not math.isfinite(loss):
                raise self._diverged(f"the loss is {loss} at step {step} of {self.total}", step)
            self.state.loss_sum += loss

    def _diverged(self, problem: str, step: int) -> TrainingError:
        return TrainingError(
            f"{problem}, at a learning rate of {self.learner.rate:.3g}",
            fix="look for nan or inf in the images and in the weights at the start"
            if step == 1
            else "lower train.learning_rate, set train.clip to 1.0, or train.warmup_epochs; then "
            f"train in another folder, or remove {str(self.path)!r}",
        )

    def _loss(self) -> float | None:
        state = self.state
        seen = state.step - len(self.waiting) - len(state.history) * self.steps
        return state.loss_sum / seen if seen > 0 else None

    def _test(self) -> float:
        def done(count: int, total: int | None) -> None:
            if self.stop.asked:
                raise _Stopped
            self._tell("test", count, total or count)

        with self.learner.at_its_best() as model:
            value = evaluate(model, self.evaluation, progress=done)
        if not math.isfinite(value):
            raise TrainingError(
                f"metric {self.evaluation.metric_name!r} is {value} after epoch "
                f"{len(self.state.history) + 1}",
                fix="use a metric that is a number for every model",
            )
        return value

    def _judge(self, value: float) -> None:
        """Write down what came of the epoch, and decide whether it was the last."""
        state, settings = self.state, self.settings
        number, higher = len(state.history) + 1, self.evaluation.higher_is_better
        if state.best is None or (value > state.best if higher else value < state.best):
            state.best, state.best_epoch, state.waited = value, number, 0
            if settings.keep == "best":
                self.best = self.learner.judged()
        else:
            state.waited += 1
        seconds = self.clock.seconds + self.before - sum(one.seconds for one in state.history)
        loss, rate = state.loss_sum / self.steps, self.learner.rate
        self.log.note("epoch", state.step, epoch=number, loss=loss, metric=value, rate=rate)
        state.history.append(
            Epoch(epoch=number, loss=loss, metric=value, rate=rate, seconds=seconds)
        )
        state.loss_sum = 0.0
        last = number == settings.epochs
        tired = settings.patience is not None and state.waited >= settings.patience
        state.stopped_early = tired and not last
        state.finished = tired or last

    def _tell(self, phase: Literal["train", "test"], step: int, steps: int) -> None:
        if self.progress is None:
            return
        state = self.state
        self.progress(
            Progress(
                phase=phase,
                epoch=len(state.history) + 1,
                epochs=self.settings.epochs,
                step=step,
                steps=steps,
                loss=self._loss(),
                rate=self.learner.rate,
                metric=state.history[-1].metric if state.history else None,
                best=state.best,
                seconds=self.clock.seconds,
                seconds_left=self.clock.left(state.step),
            )
        )

    def _stop(self) -> NoReturn:
        self._look()
        self._save()
        raise StoppedError(
            f"training was stopped after step {self.state.step} of {self.total}",
            fix=f"do the same again to go on from there: all of it is in {str(self.path)!r}",
        )

    def _save(self) -> None:
        state = self.state
        if not self.learner.is_finite():
            raise self._diverged(f"a weight is nan or inf after step {state.step}", state.step)
        state.seconds = self.before + self.clock.seconds
        tensors = {**self.learner.written(state), "best": self.best}
        Checkpoint(tensors, state, self.about).save(self.path)

    def _result(self, resumed: int) -> Trained:
        state, model = self.state, self.learner.model
        keeps_best = self.settings.keep == "best"
        put(model, self.best if keeps_best else self.learner.judged())
        kept = state.history[(state.best_epoch if keeps_best else 0) - 1]
        return Trained(
            model=model.eval(),
            metric=kept.metric,
            best_epoch=kept.epoch,
            epochs=len(state.history),
            steps=state.step,
            seconds=state.seconds,
            stopped_early=state.stopped_early,
            resumed_from=resumed,
            folder=self.folder,
            history=tuple(state.history),
        )


_NEUTRAL = {"folder", "device", "log_every", "tensorboard", "checkpoint_every"}
"""Settings that change nothing about the result."""


def _about(
    model: nn.Module, data: Data, settings: TrainSettings, metric: MetricSettings, steps: int
) -> dict[str, Any]:
    return {
        "train": settings.model_dump(mode="json", exclude=_NEUTRAL),
        "data": {**data.train.described(), "steps": steps},
        "metric": metric.model_dump(mode="json"),
        "model": shapes_of(model),
    }

"""One analysis from start to end: `prunus.analyze` without its arguments' defaults."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from prunus._version import __version__
from prunus.core.backend import Backend, Laboratory
from prunus.core.cut.cut import Cut
from prunus.core.engine.analysis import (
    begin,
    fail,
    header_of,
    joint,
    missing,
    most_harmful_first,
)
from prunus.core.engine.early import bounds_of, measure_early
from prunus.core.engine.evaluation import Evaluation, Opaque, name_of
from prunus.core.engine.exact import measure_each, measure_samples, measure_states
from prunus.core.engine.meter import Meter
from prunus.core.engine.report import Listener
from prunus.core.engine.table import Table, table_of
from prunus.core.errors import EvaluationError, PrunusError
from prunus.core.graph.groups import Groups
from prunus.core.graph.rules import Rules
from prunus.core.scores.criteria import Criterion
from prunus.core.study.cells import Key
from prunus.core.study.header import Identity
from prunus.core.study.store import Store
from prunus.core.study.study import Study

ESTIMATE = "taylor"
"""What the study calls the first look."""

__all__ = ["ESTIMATE", "Choice", "How", "Subject", "run"]


@dataclass(frozen=True, eq=False)
class Subject:
    """The model, and what can be cut of it."""

    backend: Backend
    traced: Any
    groups: Groups
    rules: Rules | None
    within: str | None


@dataclass(frozen=True, eq=False)
class Choice:
    """Which cells there are, and which channels go in each."""

    ratios: tuple[float, ...]
    params: Sequence[str] | None
    criterion: str | Criterion
    align: int
    seed: int


@dataclass(frozen=True, eq=False)
class How:
    """How the cells are measured."""

    adaptive: float | None
    budget: float | None
    estimate: bool
    recalibrate: Iterable[Any] | None
    precision: str | None
    shard: tuple[int, int] | None
    verify: bool
    memory: int

    @property
    def early(self) -> bool:
        """Tell whether cells may stop before all samples are seen."""
        return self.adaptive is not None or self.budget is not None


def run(
    subject: Subject,
    choice: Choice,
    work: Evaluation | Opaque,
    how: How,
    path: Path,
    listener: Listener | None,
) -> Study:
    """Measure what is not known yet, and return the study."""
    table = table_of(
        subject.groups,
        choice.ratios,
        choice.params,
        subject.backend.weights(subject.traced),
        criterion=choice.criterion,
        align=choice.align,
        seed=choice.seed,
    )
    laboratory = subject.backend.laboratory(
        subject.traced, table.cuts, rules=subject.rules, recalibrate=how.recalibrate
    )
    with laboratory as lab:
        meter = None
        if isinstance(work, Evaluation):
            meter = lab.meter(work, precision=how.precision, memory=how.memory)
        elif how.early or how.estimate or how.precision:
            raise EvaluationError(
                "adaptive=, budget=, estimate= and precision= need to own the loop over the data, "
                "and `evaluate` is a function of yours",
                fix="pass prunus.Evaluation(batches, metric), or leave them out",
            )
        identity = _identity(subject, choice, work, how, meter)
        versions = {"prunus": __version__, **subject.backend.versions()}
        with Store.open_or_create(path, header_of(subject.groups, identity, versions)) as store:
            begin(store, table)
            keys = missing(store, table, how.shard)
            if keys and how.verify:
                keys = _verified(lab, store, table, keys)
            if how.estimate and isinstance(work, Evaluation):
                if not table.cuts.keys() <= store.estimates(ESTIMATE).keys():
                    store.put_estimates(ESTIMATE, lab.estimate(work, seed=choice.seed))
                keys = most_harmful_first(keys, store.estimates(ESTIMATE))
            try:
                _measure(lab, meter, work, store, keys, how, choice.seed, listener)
            finally:
                _write_notes(store, () if meter is None else meter.notes)
            return Study.of(store)


def _measure(
    lab: Laboratory,
    meter: Meter | None,
    work: Evaluation | Opaque,
    store: Store,
    keys: Sequence[Key],
    how: How,
    seed: int,
    listener: Listener | None,
) -> None:
    if not keys and store.baseline is not None:
        return
    if isinstance(work, Opaque) or meter is None:
        assert isinstance(work, Opaque)  # noqa: S101  (an `Evaluation` has its meter)
        measure_each(work.evaluate, lab.original, lab.build, store, keys, listener)
    elif how.early:
        measure_early(
            meter,
            store,
            keys,
            listener,
            width=how.adaptive,
            budget=how.budget,
            bounds=bounds_of(work),
            seed=seed,
        )
    elif meter.per_sample:
        measure_samples(meter, store, keys, listener)
    else:
        measure_states(meter, store, keys, listener)


def _write_notes(store: Store, notes: Iterable[str]) -> None:
    """Keep what the user should know of how it was measured; the study's table shows it."""
    note = "\n".join(dict.fromkeys([*store.header.note.splitlines(), *notes]))
    if note != store.header.note:
        store.replace_header(replace(store.header, note=note))


def _verified(lab: Laboratory, store: Store, table: Table, keys: Sequence[Key]) -> list[Key]:
    """Return the cells of groups whose cut is right; the others are failures, with the reason.

    One cut of all groups together is verified; only where that fails, each by itself.
    """
    wrong: dict[str, str] = {}
    try:
        lab.verify(joint(table, keys))
    except PrunusError:
        largest: dict[str, Cut] = {}
        for key in keys:
            largest[key.group] = table.cuts[key]
        for group, cut in largest.items():
            try:
                lab.verify(cut)
            except PrunusError as error:  # where it must be traced again, that may fail too
                wrong[group] = error.problem
    fail(store, keys, wrong)
    return [key for key in keys if key.group not in wrong]


def _identity(
    subject: Subject,
    choice: Choice,
    work: Evaluation | Opaque,
    how: How,
    meter: Meter | None,
) -> Identity:
    criterion = choice.criterion
    options: dict[str, str | int] = {"align": choice.align}
    if subject.within:
        options["within"] = subject.within
    if how.precision:
        options["precision"] = how.precision
    if how.recalibrate is not None:
        options["recalibrate"] = f"{_count(how.recalibrate)} batches"
    if criterion == "random":
        options["seed"] = choice.seed
    return Identity(
        model=subject.backend.fingerprint(subject.traced),
        data=_data(work, meter),
        metric=work.metric_name,
        higher_is_better=work.higher_is_better,
        criterion=criterion if isinstance(criterion, str) else name_of(criterion),
        options=options,
    )


def _data(work: Evaluation | Opaque, meter: Meter | None) -> str:
    """Return what tells one data set from another: its first batch, its length and its name.

    Later batches are compared with what the study has seen as they come.
    """
    if meter is None:
        return f"as {work.metric_name} reads it"
    first, again = (meter.digest(next(islice(meter.batches(), 1))) for _ in range(2))
    if first != again:
        raise EvaluationError(
            "the data begins with another batch each time that it is gone through, so that no two "
            "models would be measured on the same",
            fix="read it in order and unchanged: DataLoader(..., shuffle=False), and no random "
            "augmentation",
        )
    told = f"{work.name}|{meter.length}|{first}"
    return hashlib.sha256(told.encode()).hexdigest()


def _count(batches: Iterable[Any]) -> int:
    count = 0 if isinstance(batches, Iterator) else sum(1 for _ in batches)
    if not count:
        raise EvaluationError(
            "recalibrate= has no batch that can be read for each cut model anew",
            fix="give a list of batches or a loader, not an iterator, which is read only once",
        )
    return count

"""Every error that prunus raises on purpose.

PrunusError
├── GraphError          a graph that contradicts itself (a bug in a backend or a rule)
├── RegistryError       two rules for one operator
├── TraceError          the model cannot be traced on this example
├── UnknownNameError    a weight, group or module name that does not exist, or is ambiguous
├── RatioError          a ratio that cannot be asked for
├── NothingToCutError   a cut that would remove nothing
├── CriterionError      a criterion that cannot judge this group
├── EvaluationError     data or a metric that cannot be used
├── TrainingError       a training that cannot start, go on or succeed
│   └── StoppedError        it was interrupted, and can go on
├── ExportError         a model that cannot be exported, or comes out different
├── VerificationError   the cut model does not compute what it should
├── LoadError           a file that does not fit the model
├── PlanError           a budget that cannot be planned for
├── ConfigError         a configuration file or an override that cannot be used
├── StudyError          a study that cannot be read or written, or holds nonsense
│   ├── StudyMismatchError  a study of another model, data set or criterion
│   └── StudyConflictError  two values for what was measured once
└── MissingExtraError   an optional dependency that is not installed
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = [
    "ConfigError",
    "CriterionError",
    "EvaluationError",
    "ExportError",
    "GraphError",
    "LoadError",
    "MissingExtraError",
    "NothingToCutError",
    "PlanError",
    "PrunusError",
    "RatioError",
    "RegistryError",
    "StoppedError",
    "StudyConflictError",
    "StudyError",
    "StudyMismatchError",
    "TraceError",
    "TrainingError",
    "UnknownNameError",
    "VerificationError",
    "nearest",
]


class PrunusError(Exception):
    """Base of every error this package raises on purpose.

    `problem` names the object and the two facts that disagree. `fix` is an
    instruction the reader can carry out; it is required, so that no error is
    raised before somebody has thought of one.
    """

    def __init__(self, problem: str, *, fix: str) -> None:
        super().__init__(problem)
        self.problem = problem
        self.fix = fix

    def __str__(self) -> str:
        return f"{self.problem}\n  fix: {self.fix}"

    def __reduce__(self) -> tuple[object, ...]:
        # Ray and multiprocessing send errors through pickle, which rebuilds an
        # exception from its positional arguments and would lose the keyword.
        return _rebuild, (type(self), self.problem, self.fix)


def _rebuild(kind: type[PrunusError], problem: str, fix: str) -> PrunusError:
    return kind(problem, fix=fix)


class GraphError(PrunusError):
    """A graph, a fact or a cut contradicts itself."""


class RegistryError(PrunusError):
    """Two rules claim one operator."""


class TraceError(PrunusError):
    """The model cannot be traced on this example."""


class UnknownNameError(PrunusError):
    """A name or pattern that matches nothing, or more than it should."""


class RatioError(PrunusError):
    """A ratio that no cut can have, or two ratios for channels that live and die together."""


class NothingToCutError(PrunusError):
    """What was asked for removes no channel at all."""


class CriterionError(PrunusError):
    """A criterion that is unknown, or cannot judge this group."""


class EvaluationError(PrunusError):
    """Batches, a metric or a `forward` that the engine cannot measure with."""


class TrainingError(PrunusError):
    """A training that cannot start, go on or succeed."""


class StoppedError(TrainingError):
    """A training that was interrupted: a checkpoint is there, from which it goes on."""


class ExportError(PrunusError):
    """A model that cannot be exported, or whose file computes something else."""


class VerificationError(PrunusError):
    """The cut model does not compute what the original computes without those channels."""


class LoadError(PrunusError):
    """A file that is damaged, or belongs to another architecture."""


class PlanError(PrunusError):
    """What was measured does not allow the plan that was asked for."""


class ConfigError(PrunusError):
    """A configuration that says what cannot be, with the place where it says so."""


class StudyError(PrunusError):
    """A study file that cannot be read or written, or something in it that cannot be true."""


class StudyMismatchError(StudyError):
    """A study of another model, data set, metric or criterion than the one at hand."""


class StudyConflictError(StudyError):
    """Two values for one cell, one baseline or one ratio."""


class MissingExtraError(PrunusError):
    """An optional dependency that is not installed."""


def nearest(name: str, known: Iterable[str], count: int = 3) -> str:
    """Return the known names closest to `name`, quoted, for the end of an error's sentence."""
    known = list(dict.fromkeys(known))
    close = difflib.get_close_matches(name, known, n=count, cutoff=0.4) or known[:count]
    return ", ".join(repr(match) for match in close)

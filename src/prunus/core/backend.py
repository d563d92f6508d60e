"""What a framework must do so that its models can be cut."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from prunus.core.cut.cut import Cut
from prunus.core.engine.evaluation import Evaluation
from prunus.core.engine.meter import Meter
from prunus.core.graph.ir import Graph
from prunus.core.graph.rules import Rules
from prunus.core.scores.group import Weights
from prunus.core.study.cells import Key

__all__ = ["Backend", "Laboratory", "Outcome", "Traced"]


class Traced(Protocol):
    """A model as a backend has traced it; only that backend knows the rest."""

    @property
    def graph(self) -> Graph:
        """Return the neutral graph."""
        ...

    @property
    def pinned(self) -> Mapping[str, str]:
        """Return the weights that must stay whole, with the reason."""
        ...


@dataclass(frozen=True)
class Outcome:
    """A cut model, and how it came about."""

    model: Any
    error: float | None
    unverified: str
    how: str
    changed: tuple[str, ...]
    recipe: Mapping[str, str]
    """How to make the cut model out of a freshly built original: the header of its file."""
    optimizer: Any = None


class Laboratory(Protocol):
    """The original and the really cut models of one table, ready to be measured.

    A context: inside it the user's model is in evaluation mode, afterwards it is as it was.
    """

    def __enter__(self) -> Laboratory: ...

    def __exit__(self, *_: object) -> None: ...

    def verify(self, cut: Cut) -> None:
        """Raise a `VerificationError` where the cut model does not compute what it should."""
        ...

    def original(self) -> Any:
        """Return a copy of the whole model, in evaluation mode."""
        ...

    def build(self, key: Key) -> Any:
        """Return the whole model, really cut, in evaluation mode."""
        ...

    def meter(self, evaluation: Evaluation, *, precision: str | None, memory: int) -> Meter:
        """Return what reads a metric off these models."""
        ...


class Backend(Protocol):
    """The interface; each method leaves `model` as it found it, unless told `inplace`.

    That means weights, mode, hooks and random state. `prunus.testing.backend_suite`
    checks it, and every other promise here.
    """

    name: str

    # A `traced` is what the same backend's `trace` returned; of another backend's, nobody
    # asks anything but what `Traced` has.

    def owns(self, model: object) -> bool:
        """Tell whether `model` belongs to this framework, without importing it."""
        ...

    def trace(self, model: Any, example: Any, within: str | None) -> Traced:
        """Return the graph that `model`, or its sub-module `within`, runs on `example`."""
        ...

    def weights(self, traced: Any) -> Weights:
        """Return how criteria read weights and gradients."""
        ...

    def apply(
        self,
        traced: Any,
        cut: Cut,
        *,
        rules: Rules | None,
        verify: bool,
        inplace: bool,
        optimizer: Any,
    ) -> Outcome:
        """Return the cut model, verified; raise what names the group where it cannot be right."""
        ...

    def fingerprint(self, traced: Any) -> str:
        """Return a hash of the model's weights: what a study is a study of."""
        ...

    def versions(self) -> Mapping[str, str]:
        """Return the versions of the framework that numbers depend on."""
        ...

    def laboratory(
        self,
        traced: Any,
        cuts: Mapping[Key, Cut],
        *,
        rules: Rules | None,
        recalibrate: Iterable[Any] | None,
    ) -> Laboratory:
        """Return what builds and measures the models of one table."""
        ...

    def save(self, model: Any, path: Path, recipe: Mapping[str, str]) -> None:
        """Write a model's tensors to one safetensors file."""
        ...

    def load(self, model: Any, path: Path, rules: Rules | None) -> Any:
        """Give a freshly built model the shapes and values of a file; return it.

        `rules` are those that the model was cut with, where they were not the default.
        """
        ...

"""What the verbs give back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from prunus.core.cut.cut import Achieved
from prunus.core.graph.costs import Cost, macs, numel
from prunus.core.graph.groups import Frozen, Group, Groups
from prunus.core.graph.ir import Graph

__all__ = ["Cost", "Pruned", "Trace"]

Model = TypeVar("Model")


@dataclass(frozen=True, eq=False)
class Trace:
    """What a model computes, which of its channels can go, and which cannot."""

    groups: tuple[Group, ...]
    frozen: tuple[Frozen, ...]
    macs: int
    numel: int
    unknown: tuple[str, ...]
    """Operators without a rule: they freeze what they touch, and count no multiply-adds."""
    analysis: Groups = field(repr=False)

    @property
    def graph(self) -> Graph:
        """Return the neutral graph."""
        return self.analysis.graph


@dataclass(frozen=True, eq=False)
class Pruned(Generic[Model]):
    """A cut model, and everything that was done to it."""

    model: Model
    cut: Mapping[str, Mapping[int, tuple[int, ...]]]
    """{weight: {axis: removed indices}}: names as in the state dict, the original's numbering."""
    before: Cost
    after: Cost
    error: float | None
    """The largest difference to the blinded original, relative to its largest output."""
    unverified: str
    """Why there is no `error`, where there is none."""
    mixes: tuple[str, ...]
    """Operators that reduce or normalise over channels that went: they were verified on what
    stays, and the model's accuracy depends on them more than elsewhere."""
    how: str
    """"module": `model` is of the original's class. "traced": `forward` held a number that
    the cut changed, so `model` is the traced module with rewritten numbers."""
    changed: tuple[str, ...]
    """Attributes of the model's own modules that held a number the cut changed."""
    achieved: tuple[Achieved, ...]
    """For each group: the ratio asked, and how many channels really went."""
    frozen: tuple[Frozen, ...]
    recipe: Mapping[str, str] = field(repr=False)
    """How to make `model` out of a freshly built original; `prunus.save` writes it down."""
    optimizer: Any = None


def trace_of(groups: Groups, unknown: tuple[str, ...]) -> Trace:
    """Return the public view of an analysis."""
    graph = groups.graph
    return Trace(groups.groups, groups.frozen, macs(graph), numel(graph), unknown, groups)

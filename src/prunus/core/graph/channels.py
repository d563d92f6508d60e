"""Facts to channels: which indices, in all the tensors, live and die together.

Every index of every axis that may lose channels is an *atom*, a number. Rules
are asked in the order the nodes run. Weights bring new atoms; an activation has
none of its own, it takes those of whatever its axis is coupled with, so the
number of atoms is the number of weight indices, however long the network. One
connected-components call over the couples that remain gives the channel sets.

An axis without atoms is *rigid*: the batch, a picture's height, the tokens. What
is coupled with a rigid axis is frozen, and the reason is where the axis came from.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from prunus.core.errors import GraphError
from prunus.core.graph.facts import (
    Balance,
    Couple,
    Fact,
    Filters,
    Free,
    Freeze,
    Index,
    Mixes,
    Sized,
    Sums,
)
from prunus.core.graph.ir import Dim, Graph, Node
from prunus.core.graph.rules import Rules, facts_of

__all__ = ["Channels", "SizedAt", "close"]

_REPORT = "report this model and operator: the rule does not fit these shapes"


@dataclass(frozen=True, slots=True, eq=False)
class SizedAt:
    """A `Sized` fact and the node that it is about."""

    node: Node
    fact: Sized


@dataclass(frozen=True, slots=True, eq=False)
class Channels:
    """What the rules said about one graph, closed under all couples."""

    graph: Graph
    sets: dict[Dim, Index]
    """For every axis with atoms: the channel set of each of its indices."""
    count: int
    """How many channel sets there are; they are numbered from 0."""
    frozen: dict[int, str]
    """Channel set to the first reason why it stays."""
    filters: tuple[Dim, ...]
    balances: tuple[tuple[Node, Balance], ...]
    sized: tuple[SizedAt, ...]
    mixes: tuple[tuple[Node, Dim], ...]
    sums: tuple[tuple[Node, Dim], ...]

    def lost(self, dim: Dim, gone: NDArray[np.bool_]) -> Index:
        """Return the indices of `dim` whose channel set is marked in `gone`."""
        sets = self.sets.get(dim)
        return np.empty(0, np.intp) if sets is None else np.flatnonzero(gone[sets])


class _Walk:
    """The state of one walk over the graph."""

    def __init__(self, graph: Graph, rules: Rules | None) -> None:
        self.graph = graph
        self.rules = rules
        self.atoms: dict[Dim, Index] = {}
        self.rigid: dict[Dim, str] = {}
        self.next_atom = 0
        self.edges: list[tuple[Index, Index]] = []
        self.freezes: list[tuple[Index, str]] = []
        self.filters: dict[Dim, None] = {}
        self.made_of: dict[str, frozenset[str]] = {}
        """For a weight that is computed from parameters alone: which."""
        self.balances: list[tuple[Node, Balance]] = []
        self.sized: list[SizedAt] = []
        self.mixes: list[tuple[Node, Dim]] = []
        self.sums: list[tuple[Node, Dim]] = []
        for name in graph.inputs:
            for axis in range(len(graph.shape(name))):
                self.rigid[Dim(name, axis)] = f"it meets axis {axis} of the network's input"

    # What rules may ask.

    def shape(self, tensor: str) -> tuple[int, ...]:
        return self.graph.tensors[tensor].shape

    def is_param(self, tensor: str) -> bool:
        return self.graph.tensors[tensor].is_param

    def is_weight(self, tensor: str) -> bool:
        return self.is_param(tensor) or tensor in self.made_of

    def flexible(self, dim: Dim) -> bool:
        return dim in self.atoms

    def atoms_of(self, dim: Dim) -> Index:
        return self.atoms[dim]

    # The walk.

    def visit(self, node: Node) -> None:
        self._bring_weights(node)
        self._remember_origin(node)
        couples: list[Couple] = []
        about_outputs: list[Freeze | Mixes | Sums] = []
        mentioned: set[Dim] = set()
        written = frozenset(node.outputs)
        for fact in facts_of(node, self, self.rules):
            if isinstance(fact, Freeze | Mixes | Sums) and fact.dim.tensor in written:
                about_outputs.append(fact)
            else:
                self._take(fact, node, couples, mentioned)
        for fact in couples:
            self._check(fact, node)
        gaps = self._define_outputs(node, couples, written)
        # An output has no atoms before this point that a fact could be about.
        for fact in about_outputs:
            self._take(fact, node, couples, mentioned)
        self._join(couples, written)
        # After `_join`, for where a gap comes from says more than that it is one.
        self.freezes += gaps
        self._leave(node, mentioned)

    def _bring_weights(self, node: Node) -> None:
        for tensor in node.reads():
            if self.is_param(tensor) and Dim(tensor, 0) not in self.atoms:
                for axis, length in enumerate(self.shape(tensor)):
                    self.atoms[Dim(tensor, axis)] = self._new(length)

    def _leave(self, node: Node, mentioned: set[Dim]) -> None:
        """Freeze what the rule did not speak of, and call rigid what has no atoms by now."""
        for tensor in node.reads():
            for axis in range(len(self.shape(tensor))):
                dim = Dim(tensor, axis)
                if dim not in mentioned and dim in self.atoms:
                    self.freezes.append((self.atoms[dim], f"{node} works along it"))
        for tensor in node.outputs:
            for axis in range(len(self.shape(tensor))):
                if Dim(tensor, axis) not in self.atoms:
                    self.rigid.setdefault(Dim(tensor, axis), f"its length is set by {node}")

    def _take(self, fact: Fact, node: Node, couples: list[Couple], mentioned: set[Dim]) -> None:
        match fact:
            case Couple(a, b):
                couples.append(fact)
                mentioned.add(a)
                mentioned.add(b)
            case Freeze(dim):
                mentioned.add(dim)
                self._freeze(fact)
            case Mixes(dim):
                mentioned.add(dim)
                if dim in self.atoms:
                    self.mixes.append((node, dim))
            case Sums(dim):
                if dim in self.atoms:
                    self.sums.append((node, dim))
            case Balance(dim, runs):
                if runs < 1 or self.graph.size(dim) % runs:
                    raise GraphError(
                        f"the rule of {node.op!r} balances {runs} runs of {dim}, which has "
                        f"{self.graph.size(dim)} channels, at {node}",
                        fix=_REPORT,
                    )
                self.balances.append((node, fact))
            case Sized():
                self.sized.append(SizedAt(node, fact))
            case Filters(dim):
                if self.is_param(dim.tensor) or dim.tensor in self.made_of:
                    self.filters[dim] = None
            case Free(dim):
                self.atoms[dim] = self._new(self.graph.size(dim))

    def _freeze(self, fact: Freeze) -> None:
        atoms = self.atoms.get(fact.dim)
        if atoms is None:
            self.rigid.setdefault(fact.dim, fact.because)
        else:
            stay = atoms if fact.index is None else atoms[fact.index]
            self.freezes.append((stay, fact.because))

    def _remember_origin(self, node: Node) -> None:
        sources = [
            frozenset({name}) if self.is_param(name) else self.made_of.get(name)
            for name in node.reads()
        ]
        known = [source for source in sources if source is not None]
        if known and len(known) == len(sources):
            for name in node.outputs:
                self.made_of[name] = frozenset().union(*known)

    def _check(self, fact: Couple, node: Node) -> None:
        both = ((fact.a, fact.a_index), (fact.b, fact.b_index))
        lengths = [self.graph.size(dim) if index is None else len(index) for dim, index in both]
        if lengths[0] != lengths[1]:
            raise GraphError(
                f"the rule of {node.op!r} couples {lengths[0]} indices of {fact.a} with "
                f"{lengths[1]} of {fact.b} at {node}",
                fix=_REPORT,
            )
        for dim, index in both:
            size = self.graph.size(dim)
            if index is not None and ((index < 0) | (index >= size)).any():
                raise GraphError(
                    f"the rule of {node.op!r} couples channel {int(index.max())} of {dim}, which "
                    f"has {size}, at {node}",
                    fix=_REPORT,
                )

    def _define_outputs(
        self, node: Node, couples: list[Couple], written: frozenset[str]
    ) -> list[tuple[Index, str]]:
        """Give the axes of the outputs the atoms of what they are coupled with; return the gaps."""
        partial: dict[Dim, Index] = {}
        whole: set[Dim] = set()
        for fact in couples:
            for a, a_index, b, b_index in _both_ways(fact):
                if b.tensor not in written or b in self.atoms or a not in self.atoms:
                    continue
                source = self.atoms[a] if a_index is None else self.atoms[a][a_index]
                if b in whole:
                    continue
                if b_index is None:
                    whole.add(b)
                    if b not in partial:
                        partial[b] = source
                        continue
                known = partial.get(b)
                target = np.full(self.graph.size(b), -1) if known is None else known.copy()
                place = np.arange(len(target)) if b_index is None else b_index
                empty = target[place] < 0
                target[place[empty]] = source[empty]
                partial[b] = target
        gaps = []
        for dim, known in partial.items():
            target, empty = known, known < 0
            if empty.any():
                target = known.copy()
                target[empty] = self._new(int(empty.sum()))
                gaps.append((target[empty], f"{node} puts in channels that no weight makes"))
            self.atoms[dim] = target
        return gaps

    def _join(self, couples: list[Couple], written: frozenset[str]) -> None:
        for fact in couples:
            a, b = fact.a, fact.b
            if a in self.atoms and b in self.atoms:
                left = self.atoms[a] if fact.a_index is None else self.atoms[a][fact.a_index]
                right = self.atoms[b] if fact.b_index is None else self.atoms[b][fact.b_index]
                if left is not right:
                    self.edges.append((left, right))
            else:
                for one, _, other, index in _both_ways(fact):
                    if one not in self.atoms and other in self.atoms:
                        atoms = self.atoms[other] if index is None else self.atoms[other][index]
                        self.freezes.append((atoms, self._why_rigid(one)))
                    elif one not in self.atoms and other.tensor in written and one in self.rigid:
                        self.rigid.setdefault(other, self.rigid[one])

    def _why_rigid(self, dim: Dim) -> str:
        return self.rigid.get(dim, f"it meets {dim}, which keeps its length")

    def _new(self, length: int) -> Index:
        made = np.arange(self.next_atom, self.next_atom + length, dtype=np.intp)
        self.next_atom += length
        return made

    def pin(self, name: str, because: str) -> None:
        if name in self.graph.tensors:
            for axis in range(len(self.graph.shape(name))):
                dim = Dim(name, axis)
                if dim in self.atoms:
                    self.freezes.append((self.atoms[dim], because))


def _both_ways(fact: Couple) -> Iterator[tuple[Dim, Index | None, Dim, Index | None]]:
    yield fact.a, fact.a_index, fact.b, fact.b_index
    yield fact.b, fact.b_index, fact.a, fact.a_index


def close(
    graph: Graph, rules: Rules | None = None, pinned: Mapping[str, str] | None = None
) -> Channels:
    """Ask the rules about every node, and close what they say under all couples.

    `pinned` tensors keep their shape, each for the reason given.
    """
    walk = _Walk(graph, rules)
    for node in graph.nodes:
        walk.visit(node)
    for name in graph.outputs:
        walk.pin(name, "it is an output of the network")
    for name, because in (pinned or {}).items():
        walk.pin(name, because)
    count, label = _components(walk.next_atom, walk.edges)
    frozen: dict[int, str] = {}
    for atoms, because in walk.freezes:
        for number in np.unique(label[atoms]).tolist():
            frozen.setdefault(number, because)
    sets = {dim: label[atoms] for dim, atoms in walk.atoms.items()}
    return Channels(
        graph,
        sets,
        count,
        frozen,
        tuple(dict.fromkeys(dim for one in walk.filters for dim in _stored(one, walk, sets))),
        tuple(walk.balances),
        tuple(walk.sized),
        tuple(walk.mixes),
        tuple(walk.sums),
    )


def _stored(filters: Dim, walk: _Walk, sets: Mapping[Dim, Index]) -> Iterator[Dim]:
    """Yield the axes of parameters that hold the filters of a weight, stored or computed.

    A normalised weight is computed, in every run, from a parameter of the same shape
    and some scales; the filters are the parameter's axis that is cut along.
    """
    if walk.is_param(filters.tensor):
        yield filters
        return
    if filters not in sets:
        return  # computed by something that fixes its length
    for name in sorted(walk.made_of[filters.tensor]):
        for axis in range(len(walk.shape(name))):
            if len(walk.shape(name)) > 1 and np.array_equal(sets[Dim(name, axis)], sets[filters]):
                yield Dim(name, axis)


def _components(size: int, edges: list[tuple[Index, Index]]) -> tuple[int, Index]:
    # SciPy takes a tenth of a second to import, which `import prunus` should not pay.
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    if not edges:
        return size, np.arange(size, dtype=np.intp)
    left = np.concatenate([a for a, _ in edges])
    right = np.concatenate([b for _, b in edges])
    links = coo_array((np.ones(len(left), np.int8), (left, right)), shape=(size, size))
    count, label = connected_components(links, directed=False)
    return int(count), label.astype(np.intp)

"""The judge of rules: NumPy runs one operator whole and cut, and both must agree.

A rule promises that cutting before the operator equals blinding before it and cutting
after it. Blinding is what `core/cut` and the verification mean by it: a cut slice of a
weight is zero, and a cut channel of an activation holds *anything*, for whatever made it
may not answer zeros with zeros. Where a `Mixes` fact says that this would not be the
same, the operator has to ignore what goes: the judge writes NaN there, so a NumPy
function for such an operator must skip NaN (`np.nanmean`, `np.nansum`). And where
neither a `Mixes` nor a `Sums` fact is touched, nothing needs to be blinded at all: what
stays is what it was.

    judge = Judge(node, graph, run)
    judge.failures()   # cuts that the facts allow, and that do not commute
    judge.spare()      # facts that could be left out
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import combinations, islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prunus.core.cut.cut import cut_of
from prunus.core.graph.channels import Channels, close
from prunus.core.graph.facts import Balance, Couple, Fact, Filters, Free, Freeze
from prunus.core.graph.groups import find_groups
from prunus.core.graph.ir import Dim, Graph, Node
from prunus.core.graph.rules import Rules, View, facts_of

__all__ = ["Judge", "Run", "cut_commutes"]

Array = NDArray[Any]
Gone = NDArray[np.bool_]

Run = Callable[..., Any]
"""`run(attrs, *inputs, **params)` returns the output, or a tuple of them."""

_SOURCE = "prunus.testing.source"
_COMPLETIONS = 24
"""How many ways to balance one cut are tried: more would be slower and hardly stricter."""


def cut_commutes(
    node: Node, graph: Graph, facts: Iterable[Fact], run: Run, dim: Dim, index: int
) -> bool:
    """Tell whether cutting before the op equals blinding before it and cutting after it.

    What goes is `index` of `dim` with all that `facts` couple it with; where they ask
    for balance, every smallest balanced cut that holds this index has to commute.
    """
    judge = Judge(node, graph, run)
    facts = tuple(facts)
    channels = judge.close(facts)
    start = int(channels.sets[dim][index])
    return all(judge.commutes(channels, gone) for gone in balanced_cuts(channels, start))


class Judge:
    """One node on its own, the facts of its rule, and numbers to run it on.

    The axes of the node's inputs may be cut, except those in `rigid`, which is how the
    batch and a picture's height look to a rule. `values` gives the inputs that cannot
    be any numbers, such as indices. Several functions in `more` are other spellings of
    the operator that the facts must be right for as well, such as a split in "halves".
    """

    def __init__(
        self,
        node: Node,
        graph: Graph,
        run: Run,
        *,
        more: Sequence[Run] = (),
        rigid: Collection[Dim] = (),
        values: Mapping[str, Array] | None = None,
        rules: Rules | None = None,
    ) -> None:
        self.node = node
        self.runs = (run, *more)
        self.rigid = frozenset(rigid)
        made = [name for name in dict.fromkeys(node.reads()) if not graph.is_param(name)]
        sources = tuple(Node(f"source of {name}", _SOURCE, (), (name,)) for name in made)
        self.graph = Graph((*sources, node), graph.tensors, (), ())
        rng = np.random.default_rng(0)
        self.values = {name: rng.uniform(0.5, 1.5, graph.shape(name)) for name in node.reads()}
        self.values.update(values or {})
        self.facts = self._ask(rules)

    def _ask(self, rules: Rules | None) -> tuple[Fact, ...]:
        asked: list[Fact] = []

        def listen(node: Node, view: View) -> Iterator[Fact]:
            asked.extend(facts_of(node, view, rules))
            yield from asked

        close(self.graph, {_SOURCE: self._source, self.node.op: listen})
        return tuple(asked)

    def _source(self, node: Node, view: View) -> Iterator[Fact]:
        (name,) = node.outputs
        for axis in range(len(view.shape(name))):
            if Dim(name, axis) not in self.rigid:
                yield Free(Dim(name, axis))

    def close(self, facts: Iterable[Fact]) -> Channels:
        """Return the channels as these facts, in place of the rule's, make them."""
        known = tuple(facts)
        return close(self.graph, {_SOURCE: self._source, self.node.op: lambda *_: iter(known)})

    def failures(self, facts: Iterable[Fact] | None = None) -> list[str]:
        """Return, as text, each cut that the facts allow although it does not commute."""
        channels = self.close(self.facts if facts is None else facts)
        found = []
        for start in sorted({int(channels.sets[dim][index]) for dim, index in may_go(channels)}):
            for gone in balanced_cuts(channels, start):
                if not self.commutes(channels, gone):
                    found.append(_described(channels, gone))
        return found

    def spare(self) -> list[Fact]:
        """Return the facts that could be left out, with nothing wrong and nothing lost."""
        return [fact for fact in self.facts if not self.needs(fact)]

    def needs(self, fact: Fact) -> bool:
        """Tell whether leaving `fact` out would allow a wrong cut, or forbid a right one."""
        rest = [other for other in self.facts if other is not fact]
        whole, part = self.close(self.facts), self.close(rest)
        if isinstance(fact, Freeze):
            return self._stays_for_a_reason(fact, part)
        if isinstance(fact, Filters):
            return _names(whole) != _names(part)
        if _cannot_be_judged(whole, fact):
            return True
        lost = bool(whole.sets.keys() - part.sets.keys() or may_go(whole) - may_go(part))
        return lost or bool(self.failures(rest))

    def _stays_for_a_reason(self, fact: Freeze, channels: Channels) -> bool:
        if fact.dim not in channels.sets:
            return True  # a rigid axis, which needs no fact, but has a reason to show
        sets = channels.sets[fact.dim]
        for one in sets if fact.index is None else sets[fact.index]:
            gone = np.zeros(channels.count, bool)
            gone[one] = True
            if not self.commutes(channels, gone):
                return True
        return False

    def commutes(self, channels: Channels, gone: Gone) -> bool:
        """Tell whether taking these sets away before the op equals blinding, and cutting after."""
        return all(self._commutes(run, channels, gone) for run in self.runs)

    def _commutes(self, run: Run, channels: Channels, gone: Gone) -> bool:
        mixed = any(gone[channels.sets[dim]].any() for _, dim in channels.mixes)
        summed = any(gone[channels.sets[dim]].any() for _, dim in channels.sums)
        whole = self._outputs(run, self.node.attrs, self._blinded(channels, gone, mixed))
        if not mixed and not all(np.isfinite(value).all() for value in whole):
            return False  # a NaN in a channel that goes would spread through the network
        try:
            actual = self._outputs(run, self._attrs(channels, gone), self._cut(channels, gone))
        except (ValueError, IndexError, ZeroDivisionError):  # NumPy: shapes no longer fit
            return False
        right = self._agree(whole, actual, channels, gone)
        if right and not mixed and not summed:
            untouched = self._outputs(run, self.node.attrs, self.values)
            right = self._agree(untouched, actual, channels, gone)
        return right

    def _agree(
        self, whole: Sequence[Array], cut: Sequence[Array], channels: Channels, gone: Gone
    ) -> bool:
        """Tell whether `cut` is what stays of `whole`."""
        stays = (
            _without(value, name, channels, gone)
            for name, value in zip(self.node.outputs, whole, strict=True)
        )
        return all(
            one.shape == other.shape and np.allclose(one, other)
            for one, other in zip(stays, cut, strict=True)
        )

    def _outputs(
        self, run: Run, attrs: Mapping[str, Any], values: Mapping[str, Array]
    ) -> tuple[Array, ...]:
        inputs = [values[name] for name in self.node.inputs]
        params = {role: values[name] for role, name in self.node.params.items()}
        with np.errstate(all="ignore"):
            made = run(attrs, *inputs, **params)
        return made if isinstance(made, tuple) else (made,)

    def _blinded(self, channels: Channels, gone: Gone, mixed: bool) -> dict[str, Array]:
        blind = {}
        for name, given in self.values.items():
            value = given.copy()
            if mixed or self.graph.is_param(name):
                for axis in range(value.ndim):
                    lost = channels.lost(Dim(name, axis), gone)
                    if len(lost):
                        value[(slice(None),) * axis + (lost,)] = np.nan if mixed else 0.0
            blind[name] = value
        return blind

    def _cut(self, channels: Channels, gone: Gone) -> dict[str, Array]:
        return {name: _without(value, name, channels, gone) for name, value in self.values.items()}

    def _attrs(self, channels: Channels, gone: Gone) -> dict[str, Any]:
        attrs = copy.deepcopy(dict(self.node.attrs))
        for resize in cut_of(channels, gone).resizes:
            if resize.position is None:
                attrs[resize.attr] = resize.new
            else:
                attrs[resize.attr] = list(attrs[resize.attr])
                attrs[resize.attr][resize.position] = resize.new
        return attrs


def may_go(channels: Channels) -> set[tuple[Dim, int]]:
    """Return every index of every axis that is not frozen."""
    return {
        (dim, index)
        for dim, sets in channels.sets.items()
        for index, one in enumerate(sets.tolist())
        if one not in channels.frozen
    }


def _cannot_be_judged(channels: Channels, fact: Fact) -> bool:
    """Tell whether no cut in this sample has to do with `fact`; another sample must judge it."""
    dims = (fact.a, fact.b) if isinstance(fact, Couple) else (fact.dim,)
    moves = [
        dim in channels.sets
        and channels.graph.size(dim) > 1  # the last channel of an axis is never cut
        and not all(one in channels.frozen for one in channels.sets[dim].tolist())
        for dim in dims
    ]
    # A couple with an axis that stays is the reason why the other axis does.
    return not all(moves)


def balanced_cuts(channels: Channels, start: int) -> Iterator[Gone]:
    """Yield the smallest cuts with the set `start` that every `Balance` allows.

    A cut that leaves an axis empty is none: one channel always stays.
    """
    fits = [axis for axis in channels.balances if axis[1].dim in channels.sets]
    tied = {int(one) for _, fact in fits for one in channels.sets[fact.dim]}
    others = sorted(tied - {start} - channels.frozen.keys())

    def cuts() -> Iterator[Gone]:
        for size in range(len(others) + 1):
            found = False
            for chosen in combinations(others, size):
                gone = np.zeros(channels.count, bool)
                gone[[start, *chosen]] = True
                if all(_even(channels, fact, gone) for _, fact in fits):
                    found = True
                    yield gone
            if found:
                return

    for gone in islice(cuts(), _COMPLETIONS):
        if not any(len(sets) and gone[sets].all() for sets in channels.sets.values()):
            yield gone


def _even(channels: Channels, fact: Balance, gone: Gone) -> bool:
    lost = gone[channels.sets[fact.dim]].reshape(fact.runs, -1).sum(axis=1)
    return bool((lost == lost[0]).all())


def _without(value: Array, name: str, channels: Channels, gone: Gone) -> Array:
    for axis in range(value.ndim):
        value = np.delete(value, channels.lost(Dim(name, axis), gone), axis)
    return value


def _names(channels: Channels) -> tuple[list[tuple[str, ...]], list[str]]:
    groups = find_groups(channels)
    return [group.params for group in groups.groups], [one.name for one in groups.frozen]


def _described(channels: Channels, gone: Gone) -> str:
    lost = {dim: channels.lost(dim, gone).tolist() for dim in channels.sets}
    return ", ".join(f"{dim} without {indices}" for dim, indices in lost.items() if indices)

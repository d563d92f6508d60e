"""LSTM and GRU, as the frameworks run them: all layers and directions in one operator."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from prunus.core.graph.facts import Couple, Fact, Filters, Freeze, Sums
from prunus.core.graph.ir import Dim, Node
from prunus.core.graph.rules._registry import View, rule


@rule("recurrent")
def recurrent(node: Node, view: View) -> Iterator[Fact]:
    """A hidden unit is one row in each gate's block, one column of the recurrent weight.

    inputs: the sequence, then the initial states; outputs: the sequence, then the
    final states. Roles: w_ih_l0, w_hh_l0, b_ih_l0, b_hh_l0, then l0_reverse, l1 ...
    """
    x, *states = node.inputs
    y, *finals = node.outputs
    layers, directions = node.attrs["layers"], 2 if node.attrs["bidirectional"] else 1
    gates = node.attrs["gates"]
    hidden = view.shape(node.params["w_hh_l0"])[1]
    last = len(view.shape(x)) - 1
    if view.shape(node.params["w_ih_l0"])[0] != gates * hidden:
        yield from _projected(node, view)
        return
    for axis in range(last):
        yield Couple(Dim(x, axis), Dim(y, axis))
        if view.flexible(Dim(x, axis)):
            yield Freeze(Dim(x, axis), because=f"{node} runs along it, step by step")
    unit = np.tile(np.arange(hidden), gates)
    row = np.arange(hidden * gates)
    for layer in range(layers):
        for direction in range(directions):
            suffix = f"l{layer}" + "_reverse" * direction
            own = Dim(node.params[f"w_hh_{suffix}"], 1)
            for role in ("w_ih_", "w_hh_", "b_ih_", "b_hh_"):
                if role + suffix in node.params:
                    yield Couple(own, Dim(node.params[role + suffix], 0), unit, row)
            yield Filters(Dim(node.params[f"w_ih_{suffix}"], 0))
            # Every layer and direction shares the final states' axis, so all their
            # units live and die together, place by place; one state says it for all.
            shared = (*states, *finals)
            for state in shared if (layer, direction) == (0, 0) else shared[:1]:
                yield Couple(own, Dim(state, len(view.shape(state)) - 1))
            if layer == layers - 1:
                yield Couple(own, Dim(y, last), None, direction * hidden + np.arange(hidden))
            else:
                for after in range(directions):
                    into = f"w_ih_l{layer + 1}" + "_reverse" * after
                    place = direction * hidden + np.arange(hidden)
                    yield Couple(own, Dim(node.params[into], 1), None, place)
    for direction in range(directions):
        yield Couple(Dim(x, last), Dim(node.params["w_ih_l0" + "_reverse" * direction], 1))
    # Each step adds up over the hidden units, and over what arrives.
    yield Sums(Dim(node.params["w_hh_l0"], 1))
    yield Sums(Dim(x, last))


def _projected(node: Node, view: View) -> Iterator[Fact]:
    """Freeze it all: with projections, a row is not the hidden unit of the same number."""
    for tensor in node.reads():
        for axis in range(len(view.shape(tensor))):
            yield Freeze(Dim(tensor, axis), because=f"{node} projects its hidden units")

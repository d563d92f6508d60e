"""The neutral graph: what a model computes, whatever framework runs it.

NOTE: nothing here imports a framework or holds weights. A `Graph` must be
cheap to pickle, because every distributed worker receives one.

NOTE: nothing here changes once built. A pass that needs another graph makes
one with `dataclasses.replace`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from prunus.core.errors import GraphError

__all__ = ["Dim", "Graph", "Node", "Tensor"]


class Dim(NamedTuple):
    """One axis of one tensor: the thing that is coupled and, in the end, cut."""

    tensor: str
    axis: int

    def __str__(self) -> str:
        return f"{self.tensor}[{self.axis}]"


@dataclass(frozen=True, slots=True)
class Tensor:
    """A named value; `is_param` tells a stored weight or buffer from an activation."""

    name: str
    shape: tuple[int, ...]
    is_param: bool = False
    trainable: bool = True
    """False for a buffer, which holds numbers but is no parameter in anybody's count."""


@dataclass(frozen=True, slots=True)
class Node:
    """One operation: the values that flow through it, and its weights by role.

    A weight is usually a stored parameter, but may be computed by other nodes
    (weight normalisation, generated kernels): a rule does not have to care.
    """

    name: str
    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    params: Mapping[str, str] = field(default_factory=dict)
    """Role to tensor, such as {"weight": "fc.weight"}; an absent bias has no entry."""
    attrs: Mapping[str, Any] = field(default_factory=dict)
    where: str = ""
    """The module that runs it, as the user would write it: "layer1.0.conv2"."""
    source: str = ""
    """What the framework calls it. Several nodes may stand for one framework operator."""
    aside: bool = False
    """Runs in training only: it ties channels together, and costs nothing in use."""

    def reads(self) -> tuple[str, ...]:
        """Return every tensor that goes in, weights included."""
        return (*self.inputs, *self.params.values())

    def __str__(self) -> str:
        name = self.source or self.op
        return f"{name} in {self.where!r}" if self.where else name


@dataclass(frozen=True, slots=True)
class Graph:
    """Nodes in the order they run, and the tensors they pass to each other."""

    nodes: tuple[Node, ...]
    tensors: Mapping[str, Tensor]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    def __post_init__(self) -> None:
        written = {name for name, tensor in self.tensors.items() if tensor.is_param}
        written.update(self.inputs)
        for node in self.nodes:
            for name in node.reads():
                if name not in written:
                    raise GraphError(
                        f"node {node.name!r} ({node.op}) reads {name!r} before any node writes it",
                        fix="list the nodes in the order they run; a backend's `trace` "
                        "gets this from the framework's own topological sort",
                    )
            written.update(node.outputs)

    def shape(self, tensor: str) -> tuple[int, ...]:
        """Return the shape of `tensor`."""
        return self.tensors[tensor].shape

    def size(self, dim: Dim) -> int:
        """Return the length of `dim`."""
        return self.tensors[dim.tensor].shape[dim.axis]

    def is_param(self, tensor: str) -> bool:
        """Tell whether `tensor` is a stored weight or buffer."""
        return self.tensors[tensor].is_param

"""Small graphs, built by hand, for tests of whatever reads a graph: a line of code a layer."""

from __future__ import annotations

from typing import Any

from prunus.core.graph.channels import Channels, close
from prunus.core.graph.groups import Groups, find_groups
from prunus.core.graph.ir import Graph, Node, Tensor

__all__ = ["Net", "chain"]


class Net:
    """A graph under construction: pictures are (1, channels, 4), a method returns what it made."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.tensors: dict[str, Tensor] = {}
        self.inputs: list[str] = []

    def input(self, name: str, *shape: int) -> str:
        """Add an input of the network."""
        self.inputs.append(name)
        return self.tensor(name, *shape)

    def tensor(self, name: str, *shape: int, is_param: bool = False, **kwargs: bool) -> str:
        """Declare a tensor."""
        self.tensors[name] = Tensor(name, shape, is_param, **kwargs)
        return name

    def param(self, name: str, *shape: int, **kwargs: bool) -> str:
        """Add a stored weight."""
        return self.tensor(name, *shape, is_param=True, **kwargs)

    def node(
        self,
        op: str,
        inputs: list[str],
        made: tuple[int, ...],
        params: dict[str, str] | None = None,
        /,
        **attrs: Any,
    ) -> str:
        """Add any operator with one output."""
        name = f"{op}{len(self.nodes)}"
        y = self.tensor(f"{name}.out", *made)
        self.nodes.append(Node(name, op, tuple(inputs), (y,), params or {}, attrs, where=name))
        return y

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of a tensor."""
        return self.tensors[name].shape

    def conv(
        self,
        x: str,
        name: str,
        outputs: int,
        groups: int = 1,
        *,
        bias: bool = False,
        kernel: int = 1,
    ) -> str:
        """Add a convolution with a kernel of one axis."""
        inputs = self.shape(x)[1]
        params = {"weight": self.param(f"{name}.weight", outputs, inputs // groups, kernel)}
        if bias:
            params["bias"] = self.param(f"{name}.bias", outputs)
        return self.node("conv", [x], (1, outputs, 4), params, groups=groups)

    def linear(self, x: str, name: str, outputs: int) -> str:
        """Add a linear layer on the last axis."""
        *lead, inputs = self.shape(x)
        params = {"weight": self.param(f"{name}.weight", outputs, inputs)}
        return self.node("linear", [x], (*lead, outputs), params)

    def norm(self, x: str, name: str, **attrs: Any) -> str:
        """Add a batch norm, or with `groups=` a group norm."""
        channels = self.shape(x)[1]
        params = {"weight": self.param(f"{name}.weight", channels)}
        op = "group_norm" if "groups" in attrs else "batch_norm"
        if op == "batch_norm":
            params["mean"] = self.param(f"{name}.mean", channels, trainable=False)
        return self.node(op, [x], self.shape(x), params, **attrs)

    def add(self, *inputs: str) -> str:
        """Add an element-wise operator on these."""
        return self.node("elementwise", list(inputs), self.shape(inputs[0]))

    def concat(self, *inputs: str) -> str:
        """Join along the channels."""
        channels = sum(self.shape(x)[1] for x in inputs)
        return self.node("concat", list(inputs), (1, channels, 4), axis=1)

    def split(self, x: str, *sizes: int) -> list[str]:
        """Split the channels."""
        name = f"split{len(self.nodes)}"
        made = [self.tensor(f"{name}.{k}", 1, size, 4) for k, size in enumerate(sizes)]
        attrs = {"axis": 1, "sizes": list(sizes)}
        self.nodes.append(Node(name, "split", (x,), tuple(made), {}, attrs, where=name))
        return made

    def slice(self, x: str, start: int, stop: int) -> str:
        """Take a run of channels."""
        attrs = {"axis": 1, "start": start, "stop": stop, "step": 1}
        return self.node("slice", [x], (1, stop - start, 4), **attrs)

    def shuffle(self, x: str, groups: int) -> str:
        """Shuffle the channels, as ShuffleNet does."""
        channels = self.shape(x)[1]
        apart = self.node(
            "reshape",
            [x],
            (1, groups, channels // groups, 4),
            shape=[1, groups, channels // groups, 4],
        )
        turned = self.node(
            "transpose", [apart], (1, channels // groups, groups, 4), order=[0, 2, 1, 3]
        )
        return self.node("reshape", [turned], (1, channels, 4), shape=[1, channels, 4])

    def graph(self, *outputs: str) -> Graph:
        """Return the graph, with these outputs."""
        return Graph(tuple(self.nodes), self.tensors, tuple(self.inputs), outputs)

    def close(self, *outputs: str, **kwargs: Any) -> Channels:
        """Return the channels of the graph."""
        return close(self.graph(*outputs), **kwargs)

    def groups(self, *outputs: str, **kwargs: Any) -> Groups:
        """Return the groups of the graph."""
        return find_groups(self.close(*outputs, **kwargs))


def chain(*widths: int) -> Groups:
    """Return the groups of convolutions a, b, c ..., one after the other, on three channels."""
    net = Net()
    x = net.input("x", 1, 3, 4)
    for name, width in zip("abcdefgh", widths, strict=False):
        x = net.conv(x, name, width)
    return net.groups(x)

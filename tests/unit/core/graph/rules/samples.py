"""One small node or more for every operator that has a rule."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from prunus.core.graph.ir import Dim, Graph, Node, Tensor
from prunus.testing.oracle import Judge, Run, may_go

from . import operators as op

Shapes = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class Sample:
    """One node, small enough to run in NumPy, with the code that runs it."""

    op: str
    run: Run
    inputs: Shapes
    goes: str
    """The axes that may lose channels, as text: "x[0,1]"; "x[1:4/6]" where some of them stay."""
    params: Shapes = field(default_factory=dict)
    attrs: Mapping[str, Any] = field(default_factory=dict)
    rigid: str = ""
    """Axes of the inputs that no weight made, as text: "x[0] x[2]"."""
    more: Sequence[Run] = ()
    """Other spellings, for which the facts have to be right as well."""
    values: Mapping[str, Any] = field(default_factory=dict)
    stored: tuple[str, ...] = ()
    """Inputs that are stored parameters."""

    @cached_property
    def judge(self) -> Judge:
        shapes = {**self.inputs, **self.params}
        values = {name: np.ones(shape) for name, shape in shapes.items()} | dict(self.values)
        inputs, params = [values[k] for k in self.inputs], {k: values[k] for k in self.params}
        made = self.run(self.attrs, *inputs, **params)
        made = dict(
            zip(("y", "z", "u"), made if isinstance(made, tuple) else (made,), strict=False)
        )
        node = Node(
            "node", self.op, tuple(self.inputs), tuple(made), {k: k for k in params}, self.attrs
        )
        tensors = {
            name: Tensor(name, tuple(shape), name in params or name in self.stored)
            for name, shape in (shapes | {name: one.shape for name, one in made.items()}).items()
        }
        graph = Graph((), tensors, (), ())
        return Judge(
            node,
            graph,
            self.run,
            more=self.more,
            rigid=[_dim(text) for text in self.rigid.split()],
            values=self.values,
        )

    def seen_to_go(self) -> str:
        channels = self.judge.close(self.judge.facts)
        count: dict[Dim, int] = defaultdict(int)
        for dim, _ in may_go(channels):
            count[dim] += 1
        found: dict[str, list[str]] = defaultdict(list)
        for dim in sorted(count):
            whole = channels.graph.size(dim)
            part = "" if count[dim] == whole else f":{count[dim]}/{whole}"
            found[dim.tensor].append(f"{dim.axis}{part}")
        return " ".join(f"{name}[{','.join(axes)}]" for name, axes in found.items())


def _dim(text: str) -> Dim:
    name, _, axis = text.rstrip("]").partition("[")
    return Dim(name, int(axis))


def _recurrent(gates: int, layers: int, bidirectional: bool, biases: bool = True) -> Shapes:
    hidden, found = 3, {}
    sides = ["", "_reverse"][: 1 + bidirectional]
    for layer in range(layers):
        for side in sides:
            width = 2 if layer == 0 else hidden * len(sides)
            found[f"w_ih_l{layer}{side}"] = (gates * hidden, width)
            found[f"w_hh_l{layer}{side}"] = (gates * hidden, hidden)
            if biases:
                found[f"b_ih_l{layer}{side}"] = (gates * hidden,)
                found[f"b_hh_l{layer}{side}"] = (gates * hidden,)
    return found


def _cells(gates: int, layers: int, bidirectional: bool, biases: bool = True) -> Sample:
    state = (layers * (1 + bidirectional), 2, 3)
    states = {"h": state, "c": state} if gates == 4 else {"h": state}
    weights = _recurrent(gates, layers, bidirectional, biases)
    units = [f"{name}[0,1]" if len(shape) == 2 else f"{name}[0]" for name, shape in weights.items()]
    units += [f"{name}[2]" for name in ("x", *states, "y", *("z", "u")[: len(states)])]
    return Sample(
        "recurrent",
        op.recurrent,
        {"x": (4, 2, 2), **states},
        " ".join(sorted(units)),
        weights,
        {"gates": gates, "layers": layers, "bidirectional": bidirectional},
    )


_NORM = {"weight": (4,), "bias": (4,)}
_STORED = {**_NORM, "mean": (4,), "var": (4,)}
_FILTERS = {"weight": (6, 4, 2, 2), "bias": (6,)}
_PICTURE = {"x": (2, 4, 3, 3)}
_LINE = {"x": (2, 6, 3)}
_HEADS = {"q": (2, 4, 3, 5), "k": (2, 4, 6, 5), "v": (2, 4, 6, 7)}

SAMPLES = {
    # Contraction.
    "linear": Sample(
        "linear",
        op.linear,
        {"x": (2, 5)},
        "bias[0] weight[0,1] x[0,1] y[0,1]",
        {"weight": (3, 5), "bias": (3,)},
    ),
    "linear on tokens, no bias": Sample(
        "linear", op.linear, {"x": (2, 4, 5)}, "weight[0,1] x[0,1,2] y[0,1,2]", {"weight": (3, 5)}
    ),
    "conv 1d": Sample(
        "conv",
        op.conv,
        {"x": (2, 4, 5)},
        "bias[0] weight[0,1] x[0,1] y[0,1]",
        {"weight": (3, 4, 2), "bias": (3,)},
        {"groups": 1},
    ),
    "conv 2d": Sample(
        "conv", op.conv, _PICTURE, "bias[0] weight[0,1] x[0,1] y[0,1]", _FILTERS, {"groups": 1}
    ),
    "conv of one channel": Sample(
        "conv",
        op.conv,
        {"x": (2, 1, 5)},
        "weight[0,1] x[0,1] y[0,1]",
        {"weight": (3, 1, 2)},
        {"groups": 1},
    ),
    "depthwise": Sample(
        "conv",
        op.conv,
        {"x": (2, 4, 3)},
        "bias[0] weight[0] x[0,1] y[0,1]",
        {"weight": (4, 1, 2), "bias": (4,)},
        {"groups": 4},
    ),
    "depthwise, two outputs a channel": Sample(
        "conv",
        op.conv,
        {"x": (2, 3, 3, 3)},
        "bias[0] weight[0] x[0,1] y[0,1]",
        {"weight": (6, 1, 2, 2), "bias": (6,)},
        {"groups": 3},
    ),
    "depthwise of the network's input": Sample(
        "conv",
        op.conv,
        {"x": (2, 3, 3)},
        "weight[0] y[1]",
        {"weight": (6, 1, 2)},
        {"groups": 3},
        rigid="x[0] x[1] x[2]",
    ),
    "two inputs to one output": Sample(
        "conv",
        op.conv,
        {"x": (2, 6, 3)},
        "bias[0] weight[0] x[0,1] y[0,1]",
        {"weight": (3, 2, 2), "bias": (3,)},
        {"groups": 3},
    ),
    "grouped in 2": Sample(
        "conv",
        op.conv,
        {"x": (2, 4, 3)},
        "bias[0] weight[0,1] x[0,1] y[0,1]",
        {"weight": (6, 2, 2), "bias": (6,)},
        {"groups": 2},
    ),
    "grouped in 3": Sample(
        "conv",
        op.conv,
        {"x": (2, 6, 3)},
        "weight[0,1] x[0,1] y[0,1]",
        {"weight": (6, 2, 2)},
        {"groups": 3},
    ),
    "transposed 1d": Sample(
        "conv_transpose",
        op.conv_transpose,
        {"x": (2, 4, 3)},
        "bias[0] weight[0,1] x[0,1] y[0,1]",
        {"weight": (4, 3, 2), "bias": (3,)},
        {"groups": 1},
    ),
    "transposed 2d": Sample(
        "conv_transpose",
        op.conv_transpose,
        {"x": (2, 3, 3, 3)},
        "weight[0,1] x[0,1] y[0,1]",
        {"weight": (3, 4, 2, 2)},
        {"groups": 1},
    ),
    "transposed depthwise": Sample(
        "conv_transpose",
        op.conv_transpose,
        {"x": (2, 4, 3)},
        "bias[0] weight[0] x[0,1] y[0,1]",
        {"weight": (4, 1, 2), "bias": (4,)},
        {"groups": 4},
    ),
    "transposed depthwise, two outputs a channel": Sample(
        "conv_transpose",
        op.conv_transpose,
        {"x": (2, 3, 3)},
        "bias[0] weight[0] x[0,1] y[0,1]",
        {"weight": (3, 2, 2), "bias": (6,)},
        {"groups": 3},
    ),
    "transposed, two inputs to one output": Sample(
        "conv_transpose",
        op.conv_transpose,
        {"x": (2, 6, 3)},
        "bias[0] weight[0] x[0,1] y[0,1]",
        {"weight": (6, 1, 2), "bias": (3,)},
        {"groups": 3},
    ),
    "transposed, grouped in 2": Sample(
        "conv_transpose",
        op.conv_transpose,
        {"x": (2, 6, 3)},
        "bias[0] weight[0,1] x[0,1] y[0,1]",
        {"weight": (6, 2, 2), "bias": (4,)},
        {"groups": 2},
    ),
    "einsum with a weight": Sample(
        "einsum",
        op.einsum,
        {"x": (2, 4, 3), "weight": (4, 5)},
        "weight[0,1] x[0,1,2] y[0,1,2]",
        attrs={"equation": "nit,io->not"},
        stored=("weight",),
    ),
    "einsum: matmul": Sample(
        "einsum",
        op.einsum,
        {"p": (3, 4), "q": (4, 5)},
        "p[0,1] q[0,1] y[0,1]",
        attrs={"equation": "yz,zx->yx"},
        more=[op.matmul],
    ),
    "einsum: matmul in batches": Sample(
        "einsum",
        op.einsum,
        {"p": (2, 3, 4), "q": (2, 4, 5)},
        "p[0,1,2] q[0,1,2] y[0,1,2]",
        attrs={"equation": "ayz,azx->ayx"},
        more=[op.matmul],
    ),
    "einsum: matmul, a batch of one": Sample(
        "einsum",
        op.einsum,
        {"p": (2, 3, 4), "q": (1, 4, 5)},
        "p[0,1,2] q[1,2] y[0,1,2]",
        attrs={"equation": "ayz,azx->ayx"},
        more=[op.matmul],
    ),
    "einsum: outer product": Sample(
        "einsum",
        op.einsum,
        {"p": (3,), "q": (4,)},
        "p[0] q[0] y[0,1]",
        attrs={"equation": "a,b->ab"},
    ),
    "einsum: sum over a letter": Sample(
        "einsum", op.einsum, {"p": (3, 4)}, "p[0,1] y[0]", attrs={"equation": "ab->a"}
    ),
    "einsum: a weight and a sum": Sample(
        "einsum",
        op.einsum,
        {"x": (3,), "weight": (3, 4)},
        "weight[0,1] x[0] y[0]",
        attrs={"equation": "a,ab->a"},
        stored=("weight",),
    ),
    "einsum: three operands": Sample(
        "einsum",
        op.einsum,
        {"p": (2, 3), "q": (3, 4), "r": (4, 5)},
        "p[0,1] q[0,1] r[0,1] y[0,1]",
        attrs={"equation": "ab,bc,cd->ad"},
    ),
    "einsum: diagonal": Sample(
        "einsum", op.einsum, {"p": (3, 3, 4)}, "p[2] y[1]", attrs={"equation": "aab->ab"}
    ),
    "einsum: trace": Sample(
        "einsum", op.einsum, {"p": (3, 3, 4)}, "p[2] y[0]", attrs={"equation": "aab->b"}
    ),
    "embedding": Sample(
        "embedding",
        op.embedding,
        {"x": (2, 3)},
        "weight[1] y[2]",
        {"weight": (5, 4)},
        rigid="x[0] x[1]",
        values={"x": np.array([[0, 4, 2], [3, 3, 1]])},
    ),
    # Element by element.
    "elementwise": Sample(
        "elementwise", op.add_all, {"p": (2, 3), "q": (2, 3)}, "p[0,1] q[0,1] y[0,1]"
    ),
    "elementwise, one operand": Sample("elementwise", op.add_all, {"p": (2, 3)}, "p[0,1] y[0,1]"),
    "elementwise, fewer axes": Sample(
        "elementwise", op.add_all, {"p": (2, 4, 3), "q": (4, 3)}, "p[0,1,2] q[0,1] y[0,1,2]"
    ),
    "elementwise, both stretched": Sample(
        "elementwise", op.add_all, {"p": (2, 1, 3), "q": (4, 1)}, "p[0,2] q[0] y[0,1,2]"
    ),
    "elementwise, a scale of each channel": Sample(
        "elementwise", op.add_all, {"p": (2, 4, 3)}, "p[0,1,2] scale[0] y[0,1,2]", {"scale": (4, 1)}
    ),
    "elementwise, one channel for all": Sample(
        "elementwise",
        op.add_all,
        {"p": (2, 4, 3), "gate": (2, 1, 3)},
        "gate[0,2] p[0,1,2] y[0,1,2]",
    ),
    "elementwise, a rigid operand": Sample(
        "elementwise", op.add_all, {"p": (2, 4), "q": (2, 4)}, "", rigid="q[0] q[1]"
    ),
    "prelu": Sample(
        "prelu", op.prelu, {"x": (2, 3, 2)}, "weight[0] x[0,1,2] y[0,1,2]", {"weight": (3,)}
    ),
    "prelu, one for all": Sample(
        "prelu", op.prelu, {"x": (2, 3, 2)}, "x[0,1,2] y[0,1,2]", {"weight": (1,)}
    ),
    "frozen": Sample(
        "frozen", op.crossed, {"p": (2, 3), "q": (4,)}, "", attrs={"because": "counts channels"}
    ),
    # Layout.
    "reshape: flatten": Sample(
        "reshape",
        op.reshape,
        {"x": (2, 3, 2, 2)},
        "x[1] y[1]",
        attrs={"shape": [2, 12]},
        rigid="x[0] x[2] x[3]",
    ),
    "reshape: flatten, batch may go": Sample(
        "reshape",
        op.reshape,
        {"x": (2, 3, 2, 2)},
        "x[0,1] y[0,1]",
        attrs={"shape": [2, 12]},
        rigid="x[2] x[3]",
    ),
    "reshape: two live axes folded": Sample(
        "reshape", op.reshape, {"x": (2, 3, 4)}, "x[2] y[1]", attrs={"shape": [2, 12]}, rigid="x[0]"
    ),
    "reshape: unflatten": Sample(
        "reshape",
        op.reshape,
        {"x": (2, 12)},
        "x[1] y[1]",
        attrs={"shape": [2, 3, 2, 2]},
        rigid="x[0]",
    ),
    "reshape: shuffle, apart": Sample(
        "reshape",
        op.reshape,
        {"x": (2, 6, 2)},
        "x[1] y[2]",
        attrs={"shape": [2, 2, 3, 2]},
        rigid="x[0] x[2]",
    ),
    "reshape: shuffle, together": Sample(
        "reshape",
        op.reshape,
        {"x": (2, 3, 2, 2)},
        "x[1] y[1]",
        attrs={"shape": [2, 6, 2]},
        rigid="x[0] x[2] x[3]",
    ),
    "reshape: apart, the short axis carries": Sample(
        "reshape",
        op.reshape,
        {"x": (2, 8, 2)},
        "x[1] y[1]",
        attrs={"shape": [2, 2, 4, 2], "carrier": 1},
        rigid="x[0] x[2]",
    ),
    "reshape: heads apart": Sample(
        "reshape",
        op.reshape,
        {"x": (2, 3, 8)},
        "",
        attrs={"shape": [2, 3, 2, 4]},
        rigid="x[0] x[1]",
    ),
    "reshape: heads apart, by a backend that knows": Sample(
        "reshape",
        op.reshape,
        {"x": (2, 3, 8)},
        "x[2] y[3]",
        attrs={"shape": [2, 3, 2, 4], "carrier": 3},
        rigid="x[0] x[1]",
    ),
    "reshape: heads together": Sample(
        "reshape",
        op.reshape,
        {"x": (2, 3, 2, 4)},
        "x[3] y[2]",
        attrs={"shape": [2, 3, 8]},
        rigid="x[0] x[1] x[2]",
    ),
    "reshape: squeeze": Sample(
        "reshape", op.reshape, {"x": (2, 3, 1, 1)}, "x[0,1] y[0,1]", attrs={"shape": [2, 3]}
    ),
    "reshape: unsqueeze": Sample(
        "reshape", op.reshape, {"x": (2, 3)}, "x[0,1] y[0,2]", attrs={"shape": [2, 1, 3, 1]}
    ),
    "reshape: drops a single channel": Sample(
        "reshape", op.reshape, {"x": (2, 1, 3)}, "", attrs={"shape": [2, 3]}, rigid="x[0] x[2]"
    ),
    "reshape: keeps a single channel": Sample(
        "reshape",
        op.reshape,
        {"x": (2, 1, 6)},
        "x[1] y[1]",
        attrs={"shape": [2, 1, 2, 3]},
        rigid="x[0] x[2]",
    ),
    "reshape: crossing sizes": Sample(
        "reshape", op.reshape, {"x": (4, 6)}, "x[1] y[0]", attrs={"shape": [8, 3]}, rigid="x[0]"
    ),
    "reshape as": Sample(
        "reshape",
        op.reshape_as,
        {"x": (2, 3, 2, 2), "like": (2, 12)},
        "like[0,1] x[0,1] y[0,1]",
        rigid="x[2] x[3]",
    ),
    "reshape as, with a length that stays": Sample(
        "reshape", op.reshape_as, {"x": (2, 12), "like": (4, 6)}, "", rigid="x[0] x[1]"
    ),
    "transpose": Sample(
        "transpose", op.transpose, {"x": (2, 3, 4)}, "x[0,1,2] y[0,1,2]", attrs={"order": [0, 2, 1]}
    ),
    "concat": Sample(
        "concat",
        op.concat,
        {"p": (2, 3, 2), "q": (2, 5, 2)},
        "p[0,1,2] q[0,1,2] y[0,1,2]",
        attrs={"axis": 1},
    ),
    "concat with what no weight made": Sample(
        "concat",
        op.concat,
        {"p": (2, 3), "q": (2, 2)},
        "p[1] y[1:3/5]",
        attrs={"axis": 1},
        rigid="q[0] q[1]",
    ),
    "split, equal": Sample(
        "split",
        op.split,
        {"x": (2, 6)},
        "x[0,1] y[0,1] z[0,1]",
        attrs={"axis": 1, "sizes": [3, 3]},
        more=[op.chunk],
    ),
    "split in three": Sample(
        "split",
        op.split,
        {"x": (2, 6)},
        "u[0,1] x[0,1] y[0,1] z[0,1]",
        attrs={"axis": 1, "sizes": [2, 2, 2]},
        more=[op.chunk],
    ),
    "split into single channels": Sample(
        "split",
        op.split,
        {"x": (2, 3)},
        "u[0,1] x[0,1] y[0,1] z[0,1]",
        attrs={"axis": 1, "sizes": [1, 1, 1]},
    ),
    "split, unequal": Sample(
        "split", op.split, {"x": (2, 6)}, "x[0,1] y[0,1] z[0,1]", attrs={"axis": 1, "sizes": [2, 4]}
    ),
    "slice": Sample(
        "slice",
        op.slice_,
        _LINE,
        "x[0,1,2] y[0,1,2]",
        attrs={"axis": 1, "start": 1, "stop": 5, "step": 1},
    ),
    "slice: one of three equal parts": Sample(
        "slice",
        op.slice_,
        _LINE,
        "x[0,1,2] y[0,1,2]",
        attrs={"axis": 1, "start": 2, "stop": 4, "step": 1},
        more=[op.second_third],
    ),
    "slice: one channel": Sample(
        "slice",
        op.slice_,
        _LINE,
        "x[0,1,2] y[0,1,2]",
        attrs={"axis": 1, "start": 2, "stop": 3, "step": 1},
    ),
    "slice: the whole axis": Sample(
        "slice",
        op.slice_,
        _LINE,
        "x[0,1,2] y[0,1,2]",
        attrs={"axis": 1, "start": 0, "stop": 6, "step": 1},
    ),
    "slice with a step": Sample(
        "slice",
        op.slice_,
        _LINE,
        "x[0,1,2] y[0,1,2]",
        attrs={"axis": 1, "start": 0, "stop": 6, "step": 2},
    ),
    "slice with a step, from 1": Sample(
        "slice",
        op.slice_,
        _LINE,
        "x[0,1,2] y[0,1,2]",
        attrs={"axis": 1, "start": 1, "stop": 6, "step": 2},
    ),
    "slice with a step that does not divide": Sample(
        "slice",
        op.slice_,
        {"x": (2, 5)},
        "x[0] y[0]",
        attrs={"axis": 1, "start": 0, "stop": 5, "step": 2},
    ),
    "slice of a picture": Sample(
        "slice",
        op.slice_,
        _LINE,
        "x[0,1] y[0,1]",
        attrs={"axis": 2, "start": 1, "stop": 3, "step": 1},
        rigid="x[2]",
    ),
    "take: flip": Sample(
        "take", op.flip, _LINE, "x[0,1,2] y[0,1,2]", attrs={"axis": 1, "order": [5, 4, 3, 2, 1, 0]}
    ),
    "roll": Sample(
        "roll", op.roll, _LINE, "x[0,1:4/6,2] y[0,1:4/6,2]", attrs={"axis": 1, "shift": 2}
    ),
    "roll backwards": Sample(
        "roll", op.roll, _LINE, "x[0,1:5/6,2] y[0,1:5/6,2]", attrs={"axis": 1, "shift": -1}
    ),
    "roll by nothing": Sample(
        "roll", op.roll, _LINE, "x[0,1,2] y[0,1,2]", attrs={"axis": 1, "shift": 0}
    ),
    "select": Sample("select", op.select, _LINE, "x[0,2] y[0,1]", attrs={"axis": 1, "index": 2}),
    "expand": Sample(
        "expand",
        op.expand,
        {"x": (2, 1, 3)},
        "x[0,2] y[0,1,2]",
        attrs={"shape": [2, 4, 3]},
        rigid="x[1]",
    ),
    "expand a channel": Sample(
        "expand", op.expand, {"x": (2, 1, 3)}, "x[0,2] y[0,1,2]", attrs={"shape": [2, 4, 3]}
    ),
    "expand to more axes": Sample(
        "expand", op.expand, {"x": (3,)}, "x[0] y[0,1]", attrs={"shape": [2, 3]}
    ),
    "expand as": Sample(
        "expand",
        op.expand_as,
        {"x": (2, 1, 3), "like": (2, 4, 3)},
        "like[0,1,2] x[0,2] y[0,1,2]",
        attrs={"shape": [2, 4, 3]},
    ),
    "expand as, fewer axes": Sample(
        "expand",
        op.expand_as,
        {"x": (1, 3), "like": (2, 4, 3)},
        "like[0,1,2] x[1] y[0,1,2]",
        attrs={"shape": [2, 4, 3]},
        rigid="x[0]",
    ),
    "fill": Sample("fill", op.fill, {}, "y[0,1]", attrs={"shape": [2, 3]}),
    "constant": Sample("constant", op.constant, {}, ""),
    "constant of a length": Sample("constant", op.constant, {"x": (4,)}, ""),
    "pad channels": Sample(
        "pad",
        op.pad,
        _LINE,
        "x[0,1,2] y[0,1:6/9,2]",
        attrs={"amounts": [(0, 0), (1, 2), (0, 0)], "constant": True},
    ),
    "pad a picture": Sample(
        "pad",
        op.pad,
        _LINE,
        "x[0,1] y[0,1]",
        attrs={"amounts": [(0, 0), (0, 0), (1, 1)], "constant": True},
        rigid="x[2]",
    ),
    "pad channels with copies": Sample(
        "pad",
        op.pad_circular,
        _LINE,
        "x[0,2] y[0,2]",
        attrs={"amounts": [(0, 0), (1, 2), (0, 0)], "constant": False},
    ),
    "repeat": Sample("repeat", op.repeat, {"x": (2, 3)}, "x[0,1] y[0,1]", attrs={"times": [1, 2]}),
    "repeat to more axes": Sample(
        "repeat", op.repeat, {"x": (2, 3)}, "x[0,1] y[1,2]", attrs={"times": [2, 1, 3]}
    ),
    "repeat each": Sample(
        "repeat_each", op.repeat_each, _LINE, "x[0,1,2] y[0,1,2]", attrs={"axis": 1, "times": 2}
    ),
    "write": Sample(
        "write",
        op.write,
        {"x": (2, 6), "part": (2, 3)},
        "part[0,1] x[0,1] y[0,1]",
        attrs={"axis": 1, "start": 1, "stop": 4},
    ),
    "write the first half": Sample(
        "write",
        op.write,
        {"x": (2, 6), "part": (2, 3)},
        "part[0,1] x[0,1] y[0,1]",
        attrs={"axis": 1, "start": 0, "stop": 3},
        more=[op.write_first_half],
    ),
    "write one channel": Sample(
        "write",
        op.write,
        {"x": (2, 6), "part": (2, 1)},
        "part[0,1] x[0,1] y[0,1]",
        attrs={"axis": 1, "start": 2, "stop": 3},
    ),
    "write it all": Sample(
        "write",
        op.write,
        {"x": (2, 3), "part": (2, 3)},
        "part[0,1] x[0,1] y[0,1]",
        attrs={"axis": 1, "start": 0, "stop": 3},
    ),
    "windows": Sample("windows", op.windows, _LINE, "x[0,2] y[0,2]", attrs={"axis": 1}),
    "gather": Sample(
        "gather",
        op.take_axis_1,
        {"x": (2, 6, 3), "index": (4,)},
        "x[0,2] y[0,2]",
        attrs={"places": [0, -1, 2]},
        rigid="index[0]",
        values={"index": np.array([0, 5, 3, 3])},
    ),
    "gather by a computed number": Sample(
        "gather",
        op.take_axis_1,
        {"x": (2, 6, 3), "index": (4,)},
        "x[0,2] y[0,2]",
        attrs={"places": [0, -1, 2]},
        values={"index": np.array([0, 5, 3, 3])},
    ),
    "gather: the largest": Sample(
        "gather", op.largest_two, _LINE, "x[0,2] y[0,2]", attrs={"places": [0, -1, 2]}
    ),
    # Normalisation.
    "batch norm": Sample(
        "batch_norm",
        op.batch_norm,
        _PICTURE,
        "bias[0] mean[0] var[0] weight[0] x[0,1,2,3] y[0,1,2,3]",
        _STORED,
        {"from_input": False},
    ),
    "batch norm, no statistics": Sample(
        "batch_norm",
        op.batch_norm,
        _PICTURE,
        "bias[0] weight[0] x[0,1,2,3] y[0,1,2,3]",
        _NORM,
        {"from_input": True},
    ),
    "batch norm of features, no scale": Sample(
        "batch_norm",
        op.batch_norm,
        {"x": (2, 4)},
        "mean[0] var[0] x[0,1] y[0,1]",
        {"mean": (4,), "var": (4,)},
        {"from_input": False},
    ),
    "instance norm": Sample(
        "instance_norm",
        op.instance_norm,
        _PICTURE,
        "bias[0] weight[0] x[0,1,2,3] y[0,1,2,3]",
        _NORM,
        {"from_input": True},
    ),
    "instance norm of a known width": Sample(
        "instance_norm",
        op.instance_norm,
        _PICTURE,
        "x[0,1,2,3] y[0,1,2,3]",
        attrs={"from_input": True, "channels": _PICTURE["x"][1]},
    ),
    "instance norm, no weights": Sample(
        "instance_norm",
        op.instance_norm,
        _PICTURE,
        "x[0,1,2,3] y[0,1,2,3]",
        attrs={"from_input": True, "channels": 4},
    ),
    "layer norm": Sample(
        "layer_norm",
        op.layer_norm,
        {"x": (2, 3, 4)},
        "bias[0] weight[0] x[0,1,2] y[0,1,2]",
        _NORM,
        {"axes": 1, "normalized_shape": [4]},
    ),
    "layer norm over two axes": Sample(
        "layer_norm",
        op.layer_norm,
        {"x": (2, 3, 4)},
        "bias[0,1] weight[0,1] x[0,1,2] y[0,1,2]",
        {"weight": (3, 4), "bias": (3, 4)},
        {"axes": 2, "normalized_shape": [3, 4]},
    ),
    "group norm": Sample(
        "group_norm",
        op.group_norm,
        _PICTURE,
        "bias[0] weight[0] x[0,1,2,3] y[0,1,2,3]",
        _NORM,
        {"groups": 2},
    ),
    "group norm over all": Sample(
        "group_norm",
        op.group_norm,
        _PICTURE,
        "bias[0] weight[0] x[0,1,2,3] y[0,1,2,3]",
        _NORM,
        {"groups": 1},
    ),
    "group norm of single channels": Sample(
        "group_norm",
        op.group_norm,
        _PICTURE,
        "bias[0] weight[0] x[0,1,2,3] y[0,1,2,3]",
        _NORM,
        {"groups": 4},
    ),
    "softmax": Sample("along", op.softmax, _LINE, "x[0,1,2] y[0,1,2]", attrs={"axes": [1]}),
    "cumulative sum": Sample("along", op.cumsum, _LINE, "x[0,1,2] y[0,1,2]", attrs={"axes": [1]}),
    "weight norm": Sample(
        "weight_norm",
        op.weight_norm,
        {},
        "direction[0,1,2] length[0] y[0,1,2]",
        {"direction": (4, 3, 2), "length": (4, 1, 1)},
        {"axis": 0},
    ),
    "weight norm, transposed": Sample(
        "weight_norm",
        op.weight_norm,
        {},
        "direction[0,1] length[1] y[0,1]",
        {"direction": (3, 4), "length": (1, 4)},
        {"axis": 1},
    ),
    "weight norm, one length": Sample(
        "weight_norm",
        op.weight_norm,
        {},
        "direction[0,1] y[0,1]",
        {"direction": (4, 3), "length": ()},
        {"axis": -1},
    ),
    # Gathering over axes, and pictures.
    "pool": Sample("spatial", op.max_pool, {"x": (2, 4, 5)}, "x[0,1] y[0,1]", attrs={"axes": 1}),
    "pool with indices": Sample(
        "spatial",
        op.max_pool_with_indices,
        {"x": (2, 4, 5)},
        "x[0,1] y[0,1] z[0,1]",
        attrs={"axes": 1},
        rigid="x[2]",
    ),
    "mean": Sample(
        "reduce", op.mean, _PICTURE, "x[0,1,2,3] y[0,1]", attrs={"axes": [2, 3], "keepdim": False}
    ),
    "mean over channels": Sample(
        "reduce", op.mean, _PICTURE, "x[0,1,2,3] y[0,2,3]", attrs={"axes": [1], "keepdim": True}
    ),
    "mean and variance": Sample(
        "reduce",
        op.mean_and_variance,
        _LINE,
        "x[0,1,2] y[0,1] z[0,1]",
        attrs={"axes": [1], "keepdim": False},
    ),
    "argmax": Sample(
        "reduce",
        op.argmax,
        _LINE,
        "x[0,2] y[0,1]",
        attrs={"axes": [1], "keepdim": False, "by_number": True},
    ),
    "unfold": Sample(
        "unfold", op.unfold, {"x": (2, 3, 3, 3)}, "x[0,1] y[0,1]", attrs={"window": 4}
    ),
    "fold": Sample("fold", op.fold, {"x": (2, 8, 3)}, "x[0,1] y[0,1]", attrs={"window": 4}),
    # Attention.
    "attention": Sample(
        "attention",
        op.attention,
        _HEADS,
        "k[0,1,2] q[0,1,2] v[0,1,2,3] y[0,1,2,3]",
        attrs={"scaled_by_length": True},
    ),
    "attention, a scale of its own": Sample(
        "attention",
        op.attention,
        _HEADS,
        "k[0,1,2,3] q[0,1,2,3] v[0,1,2,3] y[0,1,2,3]",
        attrs={"scaled_by_length": False},
    ),
    "attention with a mask": Sample(
        "attention",
        op.attention,
        {**_HEADS, "mask": (3, 6)},
        "k[0,1,2] mask[0,1] q[0,1,2] v[0,1,2,3] y[0,1,2,3]",
        attrs={"scaled_by_length": True},
    ),
    "attention with a mask that no weight made": Sample(
        "attention",
        op.attention,
        {**_HEADS, "mask": (3, 6)},
        "k[0,1] q[0,1] v[0,1,3] y[0,1,3]",
        attrs={"scaled_by_length": True},
        rigid="mask[0] mask[1]",
    ),
    "attention with a mask of keys": Sample(
        "attention",
        op.attention,
        {**_HEADS, "mask": (2, 1, 1, 6)},
        "k[0,1,2] mask[0,3] q[0,1,2] v[0,1,2,3] y[0,1,2,3]",
        attrs={"scaled_by_length": True},
        rigid="mask[1] mask[2]",
    ),
    "attention, causal": Sample(
        "attention",
        op.attention,
        {"q": (2, 4, 5), "k": (2, 4, 5), "v": (2, 4, 3)},
        "k[0] q[0] v[0,2] y[0,2]",
        attrs={"scaled_by_length": True, "causal": True},
    ),
    "attention, one key for all queries": Sample(
        "attention",
        op.attention,
        {"q": (2, 4, 3, 5), "k": (2, 1, 6, 5), "v": (2, 1, 6, 7)},
        "k[0,2] q[0,1,2] v[0,2,3] y[0,1,2,3]",
        attrs={"scaled_by_length": True},
        rigid="k[1] v[1]",
    ),
    "attention, the same keys for the whole batch": Sample(
        "attention",
        op.attention,
        {"q": (2, 3, 5), "k": (6, 5), "v": (6, 7)},
        "k[0] q[0,1] v[0,1] y[0,1,2]",
        attrs={"scaled_by_length": True},
    ),
    "attention, grouped queries": Sample(
        "attention",
        op.attention,
        {"q": (2, 4, 3, 5), "k": (2, 2, 6, 5), "v": (2, 2, 6, 7)},
        "k[0,2] q[0,2] v[0,2,3] y[0,2,3]",
        attrs={"scaled_by_length": True},
    ),
    # Recurrent layers.
    "lstm": _cells(4, 1, False),
    "lstm, two layers": _cells(4, 2, False),
    "lstm, both directions": _cells(4, 1, True),
    "lstm, two layers, both directions": _cells(4, 2, True),
    "lstm without biases": _cells(4, 1, False, biases=False),
    "gru": _cells(3, 1, False),
    "gru, two layers": _cells(3, 2, False),
    "gru, two layers, both directions": _cells(3, 2, True),
    "plain recurrent": _cells(1, 1, False),
}

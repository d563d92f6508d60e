"""From a `torch.export` graph to the neutral graph: the walk, and what table entries may call."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind

from prunus.core.graph.ir import Graph, Node, Tensor

__all__ = ["Lowering", "Vocabulary", "joined", "lower", "module_path", "operator_of"]

Shape = tuple[int, ...]
Vocabulary = Mapping[str, Callable[["Lowering", fx.Node], None]]


class Lowering:
    """Builds neutral nodes while it walks over an exported graph."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self.tensors: dict[str, Tensor] = {}
        self.nodes: list[Node] = []
        self.names: dict[fx.Node, Any] = {}
        self._current: fx.Node | None = None

    # What an entry of the vocabulary reads.

    def tensor(self, argument: Any) -> str:
        """Return the neutral name of a tensor argument."""
        name = self.names[argument]
        assert isinstance(name, str)  # noqa: S101  (an invariant of the walk)
        return name

    def tensors_of(self, arguments: Any) -> list[str]:
        """Return the names of all tensors among `arguments`, lists looked into."""
        found = []
        for argument in _flat(arguments):
            if isinstance(argument, fx.Node) and isinstance(self.names.get(argument), str):
                found.append(self.names[argument])
        return found

    def shape(self, name: str) -> Shape:
        """Return the shape of a tensor by neutral name."""
        return self.tensors[name].shape

    def number(self, argument: Any) -> Any:
        """Return an argument with every symbolic number replaced by its value on the example."""
        if isinstance(argument, fx.Node):
            value = argument.meta.get("val")
            return _hint(value) if isinstance(value, torch.SymInt | int | float) else argument
        if isinstance(argument, list | tuple):
            return [self.number(one) for one in argument]
        return argument

    # What an entry of the vocabulary writes.

    def output(self, node: fx.Node) -> str:
        """Declare the single tensor that `node` returns."""
        name = node.name
        self._declare(name, _shape(node.meta["val"]))
        self.names[node] = name
        return name

    def outputs(self, node: fx.Node) -> list[str]:
        """Declare the list of tensors that `node` returns."""
        made = []
        for k, value in enumerate(node.meta["val"]):
            name = f"{node.name}.{k}"
            self._declare(name, _shape(value) if isinstance(value, torch.Tensor) else ())
            made.append(name)
        self.names[node] = made
        return made

    def between(self, shape: Sequence[int]) -> str:
        """Declare a tensor that exists only between two neutral nodes."""
        assert self._current is not None  # noqa: S101
        name = f"{self._current.name}/{len(self.nodes)}"
        self._declare(name, tuple(shape))
        return name

    def emit(
        self,
        op: str,
        inputs: Sequence[str],
        outputs: Sequence[str],
        params: Mapping[str, str] | None = None,
        **attrs: Any,
    ) -> None:
        """Add a neutral node."""
        assert self._current is not None  # noqa: S101
        name = self._current.name
        if self.nodes and self.nodes[-1].name.split("/")[0] == name:
            name = f"{name}/{len(self.nodes)}"
        self.nodes.append(
            Node(
                name,
                op,
                tuple(inputs),
                tuple(outputs),
                dict(params or {}),
                attrs,
                where=module_path(self._current),
                source=operator_of(self._current),
            )
        )

    # The walk.

    def walk(self, nodes: Iterator[fx.Node]) -> None:
        """Lower every operation among `nodes`, in order."""
        for node in nodes:
            if node.op == "call_function":
                self._current = node
                self._call(node)

    def _call(self, node: fx.Node) -> None:
        name = operator_of(node)
        if name == "getitem":
            source, place = self.names.get(node.args[0]), node.args[1]  # type: ignore[arg-type]
            if isinstance(source, list):
                self.names[node] = source[place]  # type: ignore[index]
            return
        if not _tensors_in(node.meta.get("val")):
            return  # sizes, arithmetic on sizes, assertions
        entry = self.vocabulary.get(name) or self.vocabulary.get(name.rstrip("_"))
        if entry is not None:
            entry(self, node)
            return
        made = [self.output(node)] if isinstance(node.meta["val"], torch.Tensor) else None
        made = self.outputs(node) if made is None else made
        # A plain function's own text holds where it lies in memory.
        unknown = str(node.target) if isinstance(node.target, torch._ops.OpOverload) else name
        self.emit(unknown, self.tensors_of((node.args, node.kwargs)), made)

    def _declare(self, name: str, shape: Shape) -> None:
        self.tensors[name] = Tensor(name, shape)

    def declare_stored(self, name: str, value: torch.Tensor, *, trainable: bool) -> None:
        """Declare a parameter or buffer."""
        if name not in self.tensors:
            self.tensors[name] = Tensor(name, tuple(value.shape), True, trainable)

    def declare_constant(self, node: fx.Node, attribute: str) -> None:
        """Declare a tensor that is no parameter or buffer, where nobody can cut it."""
        built = attribute.rpartition(".")[2].startswith("lifted_tensor")
        source = (
            "a tensor that `forward` builds"
            if built
            else f"the plain tensor {attribute!r}, which as a buffer would be cut along"
        )
        name = self.output(node)
        self.nodes.append(Node(node.name, "constant", (), (name,), source=source))


def lower(
    program: ExportedProgram,
    vocabulary: Vocabulary,
    name_of: Callable[[str], str],
    stored: Mapping[str, torch.Tensor],
) -> Graph:
    """Lower an exported program.

    `stored` holds the model's own parameters and buffers; `name_of` gives the name that a
    tensor has there, one for all that are tied.
    """
    lowering = Lowering(vocabulary)
    inputs = []
    specs = program.graph_signature.input_specs
    placeholders = [node for node in program.graph.nodes if node.op == "placeholder"]
    for node, spec in zip(placeholders, specs, strict=True):
        value = node.meta.get("val")
        if not isinstance(value, torch.Tensor):
            continue
        target = name_of(spec.target or "")
        if spec.kind is not InputKind.USER_INPUT and target in stored:
            lowering.declare_stored(
                target, stored[target], trainable=isinstance(stored[target], torch.nn.Parameter)
            )
            lowering.names[node] = target
        elif spec.kind is InputKind.USER_INPUT:
            inputs.append(lowering.output(node))
        else:
            lowering.declare_constant(node, target)
    lowering.walk(iter(program.graph.nodes))
    return Graph(
        tuple(lowering.nodes), lowering.tensors, tuple(inputs), _results(program, lowering)
    )


def joined(graph: Graph, training: Graph) -> Graph:
    """Return `graph`, and beside it what `training` does on the same weights."""

    def apart(name: str) -> str:
        return name if training.is_param(name) else f"training:{name}"

    nodes = (
        replace(
            node,
            name=f"training:{node.name}",
            inputs=tuple(map(apart, node.inputs)),
            outputs=tuple(map(apart, node.outputs)),
            params={role: apart(name) for role, name in node.params.items()},
            aside=True,
        )
        for node in training.nodes
    )
    tensors = {
        apart(name): replace(tensor, name=apart(name)) for name, tensor in training.tensors.items()
    }
    return Graph(
        (*graph.nodes, *nodes),
        {**tensors, **graph.tensors},
        (*graph.inputs, *map(apart, training.inputs)),
        (*graph.outputs, *map(apart, training.outputs)),
    )


def _results(program: ExportedProgram, lowering: Lowering) -> tuple[str, ...]:
    (output,) = (node for node in program.graph.nodes if node.op == "output")
    names = []
    for spec, node in zip(program.graph_signature.output_specs, output.args[0], strict=True):
        name = lowering.names.get(node) if isinstance(node, fx.Node) else None
        if spec.kind is OutputKind.USER_OUTPUT and isinstance(name, str):
            names.append(name)
    return tuple(dict.fromkeys(names))


def operator_of(node: fx.Node) -> str:
    """Return "conv2d" for aten.conv2d.default; other operators keep their full name."""
    target = node.target
    if isinstance(target, torch._ops.OpOverload):
        return target._schema.name.split("::")[1] if target.namespace == "aten" else str(target)
    return getattr(target, "__name__", str(target))


def module_path(node: fx.Node) -> str:
    """Return where the module that ran `node` sits, as the user would write it."""
    stack = node.meta.get("nn_module_stack") or {}
    path = next((value[0] for value in reversed(stack.values())), "")
    path = path.removeprefix("L['self']").removeprefix(".")
    return path.split("@")[0]


def _flat(arguments: Any) -> Iterator[Any]:
    if isinstance(arguments, list | tuple):
        for one in arguments:
            yield from _flat(one)
    elif isinstance(arguments, dict):
        for one in arguments.values():
            yield from _flat(one)
    else:
        yield arguments


def _tensors_in(value: Any) -> bool:
    return any(isinstance(one, torch.Tensor) for one in _flat(value))


def _shape(value: torch.Tensor) -> Shape:
    return tuple(_hint(length) for length in value.shape)


def _hint(value: Any) -> Any:
    """Return a symbolic size's value on the example that was traced."""
    if isinstance(value, torch.SymInt):
        return int(value.node.hint) if value.node.has_hint() else int(value)
    return value

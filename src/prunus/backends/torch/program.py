"""A traced model as a list of steps: quicker than the module, and it can be run in part.

The steps are those of the exported graph, in functional form, in evaluation mode. Batch
norms are folded into the convolutions before them, and activations work in place on what
their own step has just made. Both change results by rounding only; `measure.py` sees to
it that no rounding decides a sample.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx
from torch.export.graph_signature import InputKind
from torch.utils._pytree import TreeSpec, tree_flatten, tree_unflatten

from prunus.backends.torch.lower import operator_of
from prunus.backends.torch.trace import TorchTrace
from prunus.backends.torch.vocabulary import arguments
from prunus.core.graph.ir import Dim

__all__ = ["Program", "Step", "Value", "Weight", "program_of", "resolved"]

Run = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Value:
    """In a step's arguments: what another step has made."""

    name: str


@dataclass(frozen=True, slots=True)
class Weight:
    """In a step's arguments: a stored tensor, or one that is folded from stored ones."""

    name: str


@dataclass(frozen=True, eq=False)
class Step:
    """One call: which operators of the graph it stands for, and what it reads."""

    name: str
    tensor: str
    """What the neutral graph calls the result, where it is a tensor there."""
    operators: tuple[fx.Node, ...]
    run: Run
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    then: tuple[Run, ...] = ()
    """Activations, in place."""
    values: frozenset[str] = field(init=False)
    weights: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        found = list(_references((self.args, dict(self.kwargs))))
        values = frozenset(one.name for one in found if isinstance(one, Value))
        object.__setattr__(self, "values", values)
        weights = frozenset(one.name for one in found if isinstance(one, Weight))
        object.__setattr__(self, "weights", weights)

    def __call__(self, values: Mapping[str, Any], weights: Mapping[str, Any]) -> Any:
        """Run on what earlier steps have made."""
        args = [resolved(one, values, weights) for one in self.args]
        kwargs = {key: resolved(one, values, weights) for key, one in self.kwargs.items()}
        result = self.run(*args, **kwargs)
        for activate in self.then:
            activate(result)
        return result


def resolved(argument: Any, values: Mapping[str, Any], weights: Mapping[str, Any]) -> Any:
    """Return an argument with every reference replaced by what it stands for."""
    if isinstance(argument, Value):
        return values[argument.name]
    if isinstance(argument, Weight):
        return weights[argument.name]
    if isinstance(argument, list | tuple):
        return [resolved(one, values, weights) for one in argument]
    return argument


def _references(argument: Any) -> Iterator[Value | Weight]:
    if isinstance(argument, Value | Weight):
        yield argument
    elif isinstance(argument, list | tuple):
        for one in argument:
            yield from _references(one)
    elif isinstance(argument, dict):
        for one in argument.values():
            yield from _references(one)


@dataclass(eq=False)
class Program:
    """The steps, the weights that they read, and how arguments and results are laid out."""

    steps: tuple[Step, ...]
    weights: dict[str, torch.Tensor]
    dims: Mapping[str, tuple[Dim | None, ...]]
    """For each weight: which axis of a stored tensor each of its own axes follows."""
    inputs: tuple[str, ...]
    takes: TreeSpec
    outputs: tuple[Any, ...]
    gives: TreeSpec

    def read(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the values that a call brings; None where it is laid out otherwise."""
        flat, spec = tree_flatten((tuple(args), dict(kwargs)))
        if spec != self.takes or len(flat) != len(self.inputs):
            return None
        return dict(zip(self.inputs, flat, strict=True))

    def result(self, values: Mapping[str, Any]) -> Any:
        """Return the model's output, laid out as the model does it."""
        flat = [resolved(one, values, self.weights) for one in self.outputs]
        return tree_unflatten(flat, self.gives)

    def results(self) -> frozenset[str]:
        """Return the names of the values that the model returns."""
        return frozenset(one.name for one in self.outputs if isinstance(one, Value))

    def run(self, values: Mapping[str, Any]) -> Any:
        """Run it all."""
        made = dict(values)
        for step in self.steps:
            made[step.name] = step(made, self.weights)
        return self.result(made)

    def cast(self, dtype: torch.dtype) -> None:
        """Bring the weights to another floating type."""
        for name, weight in self.weights.items():
            self.weights[name] = weight.to(dtype) if weight.is_floating_point() else weight

    def order(self, name: str, *, channels_last: bool) -> None:
        """Lay the weight of a convolution out in another order; its input then follows."""
        order = torch.channels_last if channels_last else torch.contiguous_format
        self.weights[name] = self.weights[name].contiguous(memory_format=order)

    def kernels(self) -> list[tuple[Step, str]]:
        """Return the steps that convolve pictures, each with the name of its weight."""
        return [
            (step, name)
            for step in self.steps
            if operator_of(step.operators[0]) == "conv2d"
            for name in sorted(step.weights)
            if self.weights[name].ndim == 4
        ]


def program_of(traced: TorchTrace) -> Program:
    """Return the steps of a trace that is in functional form."""
    return _Builder(traced).build()


class _Builder:
    def __init__(self, traced: TorchTrace) -> None:
        self.traced = traced
        self.exported = traced.program
        self.nodes = list(self.exported.graph.nodes)
        self.references: dict[fx.Node, Any] = {}
        self.weights: dict[str, torch.Tensor] = {}
        self.dims: dict[str, tuple[Dim | None, ...]] = {}
        self.inputs: list[str] = []
        self.steps: list[Step] = []
        self.done: set[fx.Node] = set()

    def build(self) -> Program:
        self._placeholders()
        for node in self.nodes:
            if node.op == "call_function" and node not in self.done:
                self.steps.append(self._step(node))
        (output,) = (node for node in self.nodes if node.op == "output")
        results = self._argument(output.args[0])
        count = len(self.exported.graph_signature.user_outputs)
        call = self.exported.call_spec
        assert call.in_spec is not None  # noqa: S101  (export always writes both)
        assert call.out_spec is not None  # noqa: S101
        return Program(
            tuple(self.steps), self.weights, self.dims, tuple(self.inputs), call.in_spec,
            tuple(results[-count:]), call.out_spec,
        )  # fmt: skip

    def _placeholders(self) -> None:
        specs = self.exported.graph_signature.input_specs
        placeholders = [node for node in self.nodes if node.op == "placeholder"]
        for node, spec in zip(placeholders, specs, strict=True):
            if spec.kind is InputKind.USER_INPUT:
                self.inputs.append(node.name)
                self.references[node] = Value(node.name)
                continue
            name = self.traced.name_of(spec.target)
            stored = self.traced.stored.get(name)
            value = self.exported.constants[spec.target or ""] if stored is None else stored
            self.references[node] = self._weight(name, value.detach(), _own_dims(name, value))

    def _weight(self, name: str, value: torch.Tensor, dims: tuple[Dim | None, ...]) -> Weight:
        self.weights[name] = value
        self.dims[name] = dims
        return Weight(name)

    def _argument(self, argument: Any) -> Any:
        if isinstance(argument, fx.Node):
            return self.references[argument]
        if isinstance(argument, list | tuple):
            return tuple(self._argument(one) for one in argument)
        return argument

    # One step.

    def _step(self, node: fx.Node) -> Step:
        folded = self._folded(node)
        last, operators, run, args, kwargs = folded or self._plain(node)
        then = []
        if folded or _gives_statistics(node) or operator_of(last) in _FRESH:
            follower = _only_reader(last)
            if follower is not None and operator_of(follower) in _IN_PLACE:
                then.append(_activation(follower))
                operators, last = (*operators, follower), follower
        self.done.update(operators)
        self.references[last] = Value(last.name)
        return Step(last.name, tensor_name(last), operators, run, args, kwargs, tuple(then))

    def _plain(self, node: fx.Node) -> tuple[Any, ...]:
        args, kwargs = self.arguments(node)
        run: Any = _RUNS.get(operator_of(node), node.target)
        picked = _only_reader(node)
        if _gives_statistics(node) and picked is not None and picked.args[1:] == (0,):
            return picked, (node, picked), _first_of(run), args, kwargs
        return node, (node,), run, args, kwargs

    def arguments(self, node: fx.Node) -> tuple[tuple[Any, ...], dict[str, Any]]:
        args = tuple(self._argument(one) for one in node.args)
        return args, {key: self._argument(one) for key, one in node.kwargs.items()}

    def _folded(self, node: fx.Node) -> tuple[Any, ...] | None:
        """Return a convolution with the batch norm behind it folded in, where that is all."""
        if operator_of(node) not in _CONVOLUTIONS:
            return None
        norm = _only_reader(node)
        picked = _only_reader(norm) if norm is not None and _gives_statistics(norm) else None
        if norm is None or picked is None or picked.args[1:] != (0,):
            return None
        given = arguments(node)
        weight = self.references.get(given["weight"])
        if not isinstance(weight, Weight) or not self._stored(given["bias"]):
            return None
        new = self._fold(weight, given["bias"], arguments(norm), node.name)
        if new is None:
            return None
        args, kwargs = self.arguments(node)
        names = [one.name for one in node.target._schema.arguments]  # type: ignore[union-attr]
        full = {**dict(zip(names, args, strict=False)), **kwargs}
        full |= {"weight": new[0], "bias": new[1]}
        return picked, (node, norm, picked), _RUNS.get(operator_of(node), node.target), (), full

    def _stored(self, argument: Any) -> bool:
        return argument is None or isinstance(self.references.get(argument), Weight)

    def _fold(
        self, weight: Weight, bias: Any, norm: Mapping[str, Any], name: str
    ) -> tuple[Weight, Weight] | None:
        def value(argument: Any, default: float) -> torch.Tensor:
            if argument is None:
                return torch.full((), default, dtype=torch.float64, device=whole.device)
            return self.weights[self.references[argument].name].double()

        whole = self.weights[weight.name].double()
        statistics = (norm["running_mean"], norm["running_var"])
        if not all(self._stored(one) for one in (*statistics, norm["weight"], norm["bias"])):
            return None
        mean, variance = (value(one, 0.0) for one in statistics)
        scale = value(norm["weight"], 1.0) / (variance + norm["eps"]).sqrt()
        shift = (value(bias, 0.0) - mean) * scale + value(norm["bias"], 0.0)
        dtype = self.weights[weight.name].dtype
        scaled = whole * scale.reshape(-1, *[1] * (whole.ndim - 1))
        dims = self.dims[weight.name]
        return (
            self._weight(f"{name}/weight", scaled.to(dtype), dims),
            self._weight(f"{name}/bias", shift.to(dtype), dims[:1]),
        )


def tensor_name(node: fx.Node) -> str:
    """Return what the neutral graph calls what `node` returns."""
    if operator_of(node) == "getitem" and isinstance(node.args[0], fx.Node):
        return f"{node.args[0].name}.{node.args[1]}"
    return node.name


def _own_dims(name: str, value: torch.Tensor) -> tuple[Dim | None, ...]:
    return tuple(Dim(name, axis) for axis in range(value.ndim))


def _only_reader(node: fx.Node) -> fx.Node | None:
    readers = list(node.users)
    return readers[0] if len(readers) == 1 and readers[0].op == "call_function" else None


def _gives_statistics(node: fx.Node) -> bool:
    """Tell whether `node` is a batch norm in functional form: (result, statistics ...)."""
    return operator_of(node) == "_native_batch_norm_legit_no_training"


def _first_of(run: Run) -> Run:
    def first(*args: Any, **kwargs: Any) -> Any:
        return run(*args, **kwargs)[0]

    return first


def _convolve(
    input: torch.Tensor,  # noqa: A002  (what the operator calls it)
    weight: torch.Tensor,
    *rest: Any,
    **named: Any,
) -> torch.Tensor:
    """Convolve in the order of the weight, which was measured to be the quicker one."""
    flat = weight.is_contiguous()
    last = weight.is_contiguous(memory_format=torch.channels_last)
    if flat != last:  # of a kernel of one pixel, both are true
        input = input.contiguous(  # noqa: A001
            memory_format=torch.channels_last if last else torch.contiguous_format
        )
    result: torch.Tensor = torch.ops.aten.conv2d.default(input, weight, *rest, **named)
    return result


_CONVOLUTIONS = frozenset({"conv1d", "conv2d", "conv3d"})
_FRESH = _CONVOLUTIONS | {"linear", "add", "mul", "cat"}
"""Operators whose result is a tensor of its own, which nobody minds being written to."""
_IN_PLACE: dict[str, Run] = {
    "relu": torch.relu_,
    "hardtanh": torch.nn.functional.hardtanh_,
    "leaky_relu": torch.nn.functional.leaky_relu_,
    "silu": torch.ops.aten.silu_.default,
    "hardswish": torch.ops.aten.hardswish_.default,
    "hardsigmoid": torch.ops.aten.hardsigmoid_.default,
    "sigmoid": torch.sigmoid_,
    "tanh": torch.tanh_,
}
# A view needs its elements in order, which those of a channels-last tensor are not.
_RUNS: dict[str, Run] = {
    "conv2d": _convolve,
    "view": torch.ops.aten.reshape.default,
    "_unsafe_view": torch.ops.aten.reshape.default,
}


def _activation(node: fx.Node) -> Run:
    function, rest = _IN_PLACE[operator_of(node)], node.args[1:]
    kwargs = dict(node.kwargs)

    def activate(value: torch.Tensor) -> None:
        function(value, *rest, **kwargs)

    return activate

"""Is the cut model right? The original, blinded, must compute the same.

Blinded means: every slice that the cut took is zero in the original, both where a
channel is made and where it is used. Where an operator mixes channels (a norm, a
softmax), zeros would still take part; there the original's traced graph is run
with that operator looking only at what stays.

Both sides run in double precision, on fresh random inputs, and on *stirred* weights,
the same on both sides: a branch whose last scale was initialised to zero would
otherwise hide whatever is wrong in it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import fx, nn
from torch.export.graph_signature import InputKind
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map

from prunus.backends.torch.double import in_double, widened
from prunus.backends.torch.edit import Kept, copied, take
from prunus.backends.torch.numbers import Rewritten, resizes_by_operator, rewritten
from prunus.backends.torch.trace import Example, TorchTrace, stored_tensors
from prunus.backends.torch.untouched import evaluating
from prunus.core.cut.cut import Cut
from prunus.core.graph.ir import Dim

__all__ = [
    "Reference",
    "compare",
    "compare_training",
    "first_difference",
    "reference_output",
]


@dataclass(frozen=True)
class Reference:
    """What the cut model has to compute: inputs, weights, and the blinded original's outputs."""

    example: Example
    weights: Mapping[str, torch.Tensor]
    """Stirred, in double precision, whole; by canonical name."""
    outputs: Any
    silent: str
    """Why the outputs tell nothing, where they do not."""
    run: Callable[[int, bool], Any]
    """Run the blinded original, or its training branches, with a seed for what it draws."""
    training: Any = None
    """What the blinded original answers where `forward` takes its training branches."""

    def is_random(self, *, branches: bool = False) -> bool:
        """Tell whether two runs with two seeds differ."""
        return _distance(self.run(1, branches), self.run(2, branches)) > 0


def reference_output(
    model: nn.Module, traced: TorchTrace, cut: Cut, example: Example, like: Reference | None = None
) -> Reference:
    """Run the blinded original; with the inputs and weights of `like`, where that is given."""
    generator = torch.Generator().manual_seed(20_251)
    fresh = like.example if like else _fresh(example, generator)
    if like:
        return _blinded_run(model, traced, cut, fresh, like.weights)
    weights = {name: _stirred(value, generator) for name, value in traced.stored.items()}
    found = _blinded_run(model, traced, cut, fresh, weights)
    if _not_finite(found.outputs):
        # The model may take no other numbers than its own: a logarithm of a weight, a root.
        wide = Example(*tree_map(_widened, (example.args, example.kwargs)))
        own = {name: _widened(value) for name, value in traced.stored.items()}
        plain = _blinded_run(model, traced, cut, wide, own)
        if _not_finite(plain.outputs) < _not_finite(found.outputs):
            return plain
    return found


def _blinded_run(
    model: nn.Module,
    traced: TorchTrace,
    cut: Cut,
    example: Example,
    weights: Mapping[str, torch.Tensor],
) -> Reference:
    blind = _blinded(weights, cut)
    if cut.mixes:
        with evaluating(model), torch.no_grad(), in_double():
            outputs = _Mixing(traced, cut, blind).run_example(example)
    else:
        outputs = _run(model, traced, blind, example)

    def run(seed: int, branches: bool) -> Any:
        return _run(model, traced, blind, example, seed, branches=branches)

    training = _run(model, traced, blind, example, branches=True) if _shown(traced, cut) else None
    return Reference(example, weights, outputs, _silent(outputs), run, training)


def _shown(traced: TorchTrace, cut: Cut) -> bool:
    """Tell whether blinding shows what the training branches have to compute."""
    mixes = (dim for node, dim in cut.channels.mixes if node.aside)
    return traced.branches and not any(len(cut.channels.lost(dim, cut.gone)) for dim in mixes)


def _silent(outputs: Any) -> str:
    tensors = _tensors(outputs)
    if not tensors:
        return "the model returns no tensor that could be compared"
    if not any(tensor.numel() for tensor in tensors):
        return "the model's output is empty on this example"
    if _not_finite(outputs) == sum(tensor.numel() for tensor in tensors):
        return "the model's output is nan or infinite everywhere"
    return ""


def _not_finite(outputs: Any) -> int:
    return sum(int((~tensor.isfinite()).sum()) for tensor in _tensors(outputs))


def _tensors(outputs: Any) -> list[torch.Tensor]:
    return [one for one in tree_leaves(outputs) if isinstance(one, torch.Tensor)]


def compare(model: nn.Module, kept: Kept, reference: Reference, traced: TorchTrace) -> float:
    """Return the largest difference to the reference, relative to its largest value."""
    outputs = _run(model, traced, _small(reference, kept), reference.example)
    return _distance(reference.outputs, outputs)


def compare_training(
    model: nn.Module, kept: Kept, reference: Reference, traced: TorchTrace
) -> float:
    """Return the same of the training branches; 0 where there is nothing to compare with."""
    if reference.training is None:
        return 0.0
    outputs = _run(model, traced, _small(reference, kept), reference.example, branches=True)
    return _distance(reference.training, outputs)


def _small(reference: Reference, kept: Kept) -> dict[str, torch.Tensor]:
    return {
        name: take(value, kept[name]) if name in kept else value
        for name, value in reference.weights.items()
    }


def _run(
    model: nn.Module,
    traced: TorchTrace,
    weights: Mapping[str, torch.Tensor],
    example: Example,
    seed: int | None = None,
    *,
    branches: bool = False,
) -> Any:
    """Run a copy of `model` on other weights."""
    stored, _ = stored_tensors(model, traced.prefix)
    memo: dict[int, Any] = {}
    for name, tensor in stored.items():
        if name not in traced.aliases:
            continue  # what `forward` builds is a buffer of a traced module, and stays as it is
        value = weights[traced.aliases[name]]
        is_parameter = isinstance(tensor, nn.Parameter)
        memo[id(tensor)] = nn.Parameter(value, False) if is_parameter else value.clone()
    double = copied(model, memo)
    for module in double.modules():
        if isinstance(module, nn.RNNBase):
            module._flat_weights = [getattr(module, name) for name in module._flat_weights_names]
    with evaluating(double, branches=branches), torch.no_grad(), in_double():
        if seed is not None:
            random.seed(seed)
            np.random.seed(seed)
            torch.manual_seed(seed)
        return example.call(double)


def _widened(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    return widened(value.detach().clone())


def _stirred(value: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Return `value` in double precision, moved a little, so that nothing in it is zero."""
    if value.is_complex():
        parts = torch.view_as_real(value.detach().resolve_conj())
        parts = nn.Parameter(parts, False) if isinstance(value, nn.Parameter) else parts
        return torch.view_as_complex(_stirred(parts, generator))
    if not value.is_floating_point():
        return value.detach().clone()
    wide = widened(value.detach())
    noise = torch.rand(value.shape, generator=generator, dtype=torch.float64).to(value.device)
    if not isinstance(value, nn.Parameter):
        # A buffer may be a variance: stay on the same side of zero.
        return wide * (1 + 0.2 * noise) + (0.1 * noise if not wide.any() else 0.0)
    scale = float(wide.square().mean().sqrt()) if wide.numel() else 0.0
    return wide + (0.2 * noise - 0.1) * (scale if scale > 0 else 1.0)


def _fresh(example: Example, generator: torch.Generator) -> Example:
    def one(value: Any) -> Any:
        if isinstance(value, torch.Tensor) and value.is_complex():
            return torch.view_as_complex(one(torch.view_as_real(value.detach().resolve_conj())))
        if not isinstance(value, torch.Tensor) or not value.is_floating_point():
            return value
        noise = torch.randn(value.shape, generator=generator, dtype=torch.float64).to(value.device)
        wide = value.detach().double()
        spread = float(wide.std()) if wide.numel() > 1 else 1.0
        return noise * (spread if spread > 0 else 1.0) + wide.mean()

    return Example(tree_map(one, example.args), tree_map(one, example.kwargs))


def _blinded(weights: Mapping[str, torch.Tensor], cut: Cut) -> dict[str, torch.Tensor]:
    blind = dict(weights)
    for dim, lost in cut.removed.items():
        if blind[dim.tensor] is weights[dim.tensor]:
            blind[dim.tensor] = weights[dim.tensor].clone()
        index = torch.from_numpy(lost).to(blind[dim.tensor].device)
        if blind[dim.tensor].is_floating_point() or blind[dim.tensor].is_complex():
            blind[dim.tensor].index_fill_(dim.axis, index, 0)
    return blind


def _distance(expected: Any, actual: Any) -> float:
    left, right = _tensors(expected), _tensors(actual)
    if [one.shape for one in left] != [one.shape for one in right]:
        return float("inf")
    return max((_off(a, b) for a, b in zip(left, right, strict=True)), default=0.0)


def _off(a: torch.Tensor, b: torch.Tensor) -> float:
    """Return the largest difference relative to the largest value, both among finite numbers."""
    if a.is_complex() or b.is_complex():
        a, b = torch.view_as_real(a + 0j), torch.view_as_real(b + 0j)
    a, b = a.double(), b.double()
    finite = a.isfinite() & b.isfinite()
    if not (finite | (a == b) | (a.isnan() & b.isnan())).all():
        return float("inf")
    a, b = a[finite], b[finite]
    if not a.numel():
        return 0.0
    return float((a - b).abs().max()) / (float(a.abs().max()) or 1.0)


class _Mixing(fx.Interpreter):
    """Runs the original's graph; an operator that mixes channels sees only those that stay."""

    def __init__(self, traced: TorchTrace, cut: Cut, blind: Mapping[str, torch.Tensor]) -> None:
        super().__init__(traced.program.graph_module, garbage_collect_values=True)
        self.traced = traced
        self.cut = cut
        self.blind = blind
        self.resizes = resizes_by_operator(cut.resizes)
        self.mixing = {node.name.split("/")[0] for node in cut.mixes}
        self.tensor_names: dict[str, str] = {}

    def run_example(self, example: Example) -> Any:
        """Run on one example, with the blinded weights in the places of the stored ones."""
        given = iter(tree_flatten((example.args, example.kwargs))[0])
        placeholders = [n for n in self.module.graph.nodes if n.op == "placeholder"]  # type: ignore[union-attr]
        values = []
        for node, spec in zip(
            placeholders, self.traced.program.graph_signature.input_specs, strict=True
        ):
            name = self.traced.name_of(spec.target)
            if spec.kind is InputKind.USER_INPUT:
                values.append(next(given))
            elif name in self.blind:
                self.tensor_names[node.name] = name
                values.append(self.blind[name])
            else:
                values.append(self.traced.program.constants[spec.target])
        outputs = self.run(*values)
        count = len(self.traced.program.graph_signature.user_outputs)
        return outputs[-count:] if isinstance(outputs, tuple | list) else outputs

    def run_node(self, n: fx.Node) -> Any:
        """Run one node; a mixing one on what stays, its result laid back into zeros."""
        if n.name not in self.mixing:
            return super().run_node(n)
        target, args, kwargs = self._call(n)

        def load(argument: fx.Node) -> Any:
            value = self.env[argument]
            return self._only_kept(argument, value) if isinstance(value, torch.Tensor) else value

        result = target(*fx.map_arg(args, load), **fx.map_arg(kwargs, load))
        if isinstance(result, torch.Tensor):
            return self._laid_back(n.name, result)
        return type(result)(
            self._laid_back(f"{n.name}.{k}", one) if isinstance(one, torch.Tensor) else one
            for k, one in enumerate(result)
        )

    def _call(self, node: fx.Node) -> Rewritten:
        """Return what the cut graph calls in this place."""
        new = rewritten(node, self.resizes.get(node.name, []))
        return new or (node.target, node.args, dict(node.kwargs))

    def _only_kept(self, node: fx.Node, value: torch.Tensor) -> torch.Tensor:
        """Return the part of a value that stays."""
        name = self.tensor_names.get(node.name, node.name)
        if "getitem" in node.name and isinstance(node.args[0], fx.Node):
            name = f"{node.args[0].name}.{node.args[1]}"
        for axis, kept in self._kept(name, value.ndim).items():
            value = value.index_select(axis, kept.to(value.device))
        return value

    def _laid_back(self, name: str, value: torch.Tensor) -> torch.Tensor:
        for axis, kept in self._kept(name, value.ndim).items():
            whole = list(value.shape)
            whole[axis] = len(self.cut.channels.sets[Dim(name, axis)])
            value = value.new_zeros(whole).index_copy_(axis, kept.to(value.device), value)
        return value

    def _kept(self, name: str, rank: int) -> dict[int, torch.Tensor]:
        sets, gone = self.cut.channels.sets, self.cut.gone
        found = {}
        for axis in range(rank):
            own = sets.get(Dim(name, axis))
            if own is not None and gone[own].any():
                found[axis] = torch.from_numpy((~gone[own]).nonzero()[0])
        return found


class _Difference(Exception):  # noqa: N818  (it carries an answer, and is no error)
    """Ends a run in lockstep at the node where the two sides part."""

    def __init__(self, node: fx.Node) -> None:
        super().__init__(node.name)
        self.node = node  # `args` is what the interpreter writes its own message into


class _Lockstep(_Mixing):
    """Runs the blinded original and the cut graph side by side, up to the first difference."""

    def __init__(self, traced: TorchTrace, cut: Cut, blind: Mapping[str, torch.Tensor]) -> None:
        super().__init__(traced, cut, blind)
        self.garbage_collect_values = False
        self.small: dict[fx.Node, Any] = {}

    def run_node(self, n: fx.Node) -> Any:
        """Run a node on both sides and compare."""
        whole = super().run_node(n)
        if n.op == "output":
            return whole
        if n.op != "call_function":
            value = self._only_kept(n, whole) if isinstance(whole, torch.Tensor) else whole
            self.small[n] = value
            return whole
        target, args, kwargs = self._call(n)
        args, kwargs = fx.map_arg((args, kwargs), lambda one: self.small[one])
        try:
            self.small[n] = target(*args, **kwargs)
        except Exception as error:  # any operator's own complaint about shapes
            raise _Difference(n) from error
        if isinstance(whole, torch.Tensor) and (whole.is_floating_point() or whole.is_complex()):
            expected = self._only_kept(n, whole)
            if _distance(expected, self.small[n]) > 1e-6:
                raise _Difference(n)
        return whole


def first_difference(traced: TorchTrace, cut: Cut, reference: Reference) -> str:
    """Return the first operator after which the cut graph parts from the blinded original."""
    blind = _blinded(reference.weights, cut)
    with torch.random.fork_rng(devices=[]), torch.no_grad(), in_double():
        try:
            _Lockstep(traced, cut, blind).run_example(reference.example)
        except _Difference as found:
            name = found.node.name
            nodes = cut.channels.graph.nodes
            return next((str(node) for node in nodes if node.name.split("/")[0] == name), name)
    return ""

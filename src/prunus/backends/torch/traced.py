"""The traced module with rewritten numbers: what comes back when `forward` holds a number.

It is the exported graph of the user's model for every batch size, on the cut weights,
under the user's own parameter names. Dropout and batch norm follow `train()` and
`eval()` as in the original; what `forward` does in training only is not part of it.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx, nn

from prunus.backends.torch.edit import Kept, smaller
from prunus.backends.torch.lower import module_path, operator_of
from prunus.backends.torch.numbers import resizes_by_operator, rewritten
from prunus.backends.torch.trace import TorchTrace, quiet
from prunus.backends.torch.vocabulary import arguments
from prunus.core.cut.cut import Resize

__all__ = ["BATCH_NORMS", "BatchNorm", "TracedModule", "traced_module"]


class BatchNorm(nn.Module):
    """Batch norm on weights that the traced module holds; follows `train()` and `eval()`."""

    def __init__(self, several: bool) -> None:
        super().__init__()
        self.several = several
        """The operator it stands for returns statistics too, which nobody reads."""

    def forward(
        self,
        x: torch.Tensor,
        weight: Any,
        bias: Any,
        mean: Any,
        var: Any,
        momentum: float,
        eps: float,
    ) -> Any:
        """Return what the operator returns."""
        y = nn.functional.batch_norm(x, mean, var, weight, bias, self.training, momentum, eps)
        return (y,) if self.several else y


class Dropout(nn.Module):
    """Dropout that follows `train()` and `eval()`."""

    def __init__(self, function: str, p: float) -> None:
        super().__init__()
        self.function, self.p = function, p

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        dropped: torch.Tensor = getattr(torch, self.function)(x, self.p, self.training)
        return dropped


class TracedModule(fx.GraphModule):
    """An exported graph as a plain module: it trains, can be copied and pickled."""

    def __init__(self, exported: fx.GraphModule) -> None:
        super().__init__(nn.Module(), fx.Graph())
        # What export hangs on its module (functions that forbid `train`, guards) stays behind.
        for table in ("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set"):
            setattr(self, table, getattr(exported, table))
        for node in exported.graph.nodes:
            if node.op == "get_attr" and "." not in node.target:
                # A tensor that `forward` builds is a plain attribute there; as a buffer it
                # is copied and moved with the module, and stays out of the state dict.
                value = vars(exported).get(node.target)
                if isinstance(value, torch.Tensor):
                    self.register_buffer(node.target, value, persistent=False)
        self.graph = exported.graph

    def __deepcopy__(self, memo: dict[int, Any]) -> fx.GraphModule:
        """Copy without the warning that PyTorch has for its own description of arguments."""
        with quiet():
            return super().__deepcopy__(memo)


def traced_module(
    model: nn.Module, traced: TorchTrace, resizes: tuple[Resize, ...], kept: Kept
) -> nn.Module:
    """Return the traced module of `model`, cut."""
    # Export keeps a guard on every input's shape; a cut changes none of them.
    with quiet():
        module = traced.program.module(check_guards=False)
    assert isinstance(module, fx.GraphModule)  # noqa: S101  (what `module` returns)
    _fill(module, traced, kept)
    by_operator = resizes_by_operator(resizes)
    for node in list(module.graph.nodes):
        if node.op != "call_function":
            continue
        new = rewritten(node, by_operator.get(node.name, []))
        if new is not None:
            node.target, node.args, node.kwargs = new
    _follow_training(module)
    module.graph.lint()
    done = TracedModule(module)
    modes = {path: part.training for path, part in model.named_modules(remove_duplicate=False)}
    for path, part in done.named_modules():
        owner = path.rpartition(".")[0] if isinstance(part, BatchNorm | Dropout) else path
        part.training = modes.get(owner, model.training)
    return done


def _fill(module: fx.GraphModule, traced: TorchTrace, kept: Kept) -> None:
    """Put the cut tensors in place, tied ones tied, with the marks of the originals."""
    made: dict[str, torch.Tensor] = {}
    for path, owner in module.named_modules():
        for table in (owner._parameters, owner._buffers):
            for name in list(table):
                full = f"{path}.{name}" if path else name
                canonical = traced.aliases.get(traced.prefix + full)
                if canonical is None or table[name] is None:
                    continue
                if canonical not in made:
                    made[canonical] = smaller(traced.stored[canonical], kept.get(canonical, {}))
                table[name] = made[canonical]


BATCH_NORMS = {"batch_norm", "_native_batch_norm_legit_no_training"}
"""The operators that normalise with what was learnt, where they are given it."""
_DROPOUTS = {"dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout"}


def _follow_training(module: fx.GraphModule) -> None:
    """Replace what export has fixed to evaluation by modules that look at the mode."""
    for node in list(module.graph.nodes):
        if node.op != "call_function":
            continue
        name = operator_of(node).rstrip("_")
        if name in BATCH_NORMS and arguments(node).get("running_mean") is not None:
            given = arguments(node)
            keys = ("input", "weight", "bias", "running_mean", "running_var", "momentum", "eps")
            layer = BatchNorm(several=name != "batch_norm")
            _replace(module, node, layer, tuple(given[key] for key in keys))
        elif name in _DROPOUTS:
            given = arguments(node)
            _replace(module, node, Dropout(name, given["p"]), (given["input"],))


def _replace(
    module: fx.GraphModule, node: fx.Node, layer: nn.Module, args: tuple[Any, ...]
) -> None:
    # Below the module that called it, so that the user's `model.backbone.eval()` reaches it.
    name = f"{module_path(node)}.{node.name}_layer".removeprefix(".")
    module.add_submodule(name, layer)
    with module.graph.inserting_before(node):
        call = module.graph.call_module(name, args)
    node.replace_all_uses_with(call)
    call.meta = dict(node.meta)
    module.graph.erase_node(node)

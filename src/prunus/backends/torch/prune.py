"""One cut of a PyTorch model, from the choice of channels to the verified result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from prunus.backends.torch.edit import cut_module, kept_indices, repair
from prunus.backends.torch.trace import Example, TorchTrace, evaluating, trace
from prunus.backends.torch.traced import traced_module
from prunus.backends.torch.verify import (
    Reference,
    compare,
    first_difference,
    reference_output,
)
from prunus.core.cut.cut import Cut, cut_of
from prunus.core.errors import PrunusError, VerificationError
from prunus.core.graph.channels import Channels, close
from prunus.core.graph.rules import Rules
from prunus.core.scores.group import Weights

__all__ = ["TOLERANCE", "Fitted", "apply_cut", "weights_of"]

TOLERANCE = 1e-6
"""Largest relative difference of a right cut, both sides in double precision.

Right cuts measure below 1e-9 on every model of the zoo, wrong ones above 1e-4; code
that insists on single precision in a compiled kernel reaches about 1e-7.
"""


@dataclass(frozen=True)
class Fitted:
    """A cut model and how it came about."""

    model: nn.Module
    memo: dict[int, Any]
    error: float | None
    unverified: str
    """Why there is no error, where there is none."""
    how: str
    """"module": a copy of the user's own; "traced": the traced module, numbers rewritten."""
    changed: tuple[str, ...]
    """Attributes of the user's own modules that held a number the cut changed."""


def weights_of(traced: TorchTrace) -> Weights:
    """Return how criteria read this model's weights."""

    def value(name: str) -> np.ndarray[Any, Any]:
        return _numpy(traced.stored[name])

    def gradient(name: str) -> np.ndarray[Any, Any] | None:
        grad = traced.stored[name].grad
        return None if grad is None else _numpy(grad)

    return Weights(value, gradient)


def _numpy(tensor: torch.Tensor) -> np.ndarray[Any, Any]:
    tensor = tensor.detach()
    if tensor.dtype in (torch.bfloat16, torch.float16):
        tensor = tensor.float()
    return tensor.cpu().numpy()


def apply_cut(
    model: nn.Module,
    traced: TorchTrace,
    cut: Cut,
    example: Example,
    rules: Rules | None,
    *,
    verify: bool,
) -> Fitted:
    """Cut `model`: as the user's own module if that computes the right thing, else as a trace."""
    kept = kept_indices(cut)
    reference = reference_output(model, traced, cut, example) if verify else None
    attempts: list[str] = []
    small, memo = cut_module(model, cut, kept, traced)
    error = _judge(small, kept, reference, traced, example, attempts)
    changed: list[str] = []
    if error is None and cut.resizes:
        changed = repair(small, cut.resizes)
        if changed:
            error = _judge(small, kept, reference, traced, example, attempts)
    if error is not None:
        return _outcome(small, memo, error, reference, "module", changed)
    try:
        small = _as_trace(model, cut, example, rules, traced.prefix)
        error = _judge(small, kept, reference, traced, example, attempts)
    except PrunusError:
        raise
    except Exception as failure:  # an exporter's or interpreter's own error, whatever its class
        attempts.append(f"{type(failure).__name__}: {str(failure).splitlines()[0]}")
    if error is None:
        raise _failure(model, traced, cut, reference, attempts)
    return _outcome(small, {}, error, reference, "traced", [])


def _outcome(
    model: nn.Module,
    memo: dict[int, Any],
    error: float,
    reference: Reference | None,
    how: str,
    changed: list[str],
) -> Fitted:
    if reference is None:
        return Fitted(model, memo, None, "verification was turned off", how, tuple(changed))
    return Fitted(model, memo, error, "", how, tuple(changed))


def _judge(
    small: nn.Module,
    kept: Any,
    reference: Reference | None,
    traced: TorchTrace,
    example: Example,
    attempts: list[str],
) -> float | None:
    """Return the error of a right model; None, with a note, for one that is wrong or cannot run."""
    try:
        if reference is None:
            with torch.no_grad(), evaluating(small):
                example.call(small)
            return 0.0
        error = compare(small, kept, reference, traced)
    except Exception as failure:  # the user's own forward may raise anything
        first = (str(failure).splitlines() or [""])[0]
        attempts.append(f"{type(failure).__name__}: {first}")
        return None
    if error <= TOLERANCE:
        return error
    attempts.append(f"its output is off by {error:.1g}, relative to the largest value")
    return None


def _as_trace(
    model: nn.Module, cut: Cut, example: Example, rules: Rules | None, prefix: str
) -> nn.Module:
    """Trace again for every batch size, and make the same cut there."""
    traced = trace(model, example, prefix=prefix, any_batch=True)
    channels = close(traced.graph, rules)
    gone = _same_sets(cut, channels)
    again = cut_of(channels, gone)
    return traced_module(model, traced, again.resizes, kept_indices(cut))


def _same_sets(cut: Cut, channels: Channels) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Mark the channel sets of another trace that hold what `cut` removes."""
    gone = np.zeros(channels.count, bool)
    for dim, lost in cut.removed.items():
        gone[channels.sets[dim][lost]] = True
    return gone


def _failure(
    model: nn.Module, traced: TorchTrace, cut: Cut, reference: Reference | None, attempts: list[str]
) -> VerificationError:
    """Name the group that is wrong, by cutting each by itself, and the operator where it shows."""
    notes = "; then, as a traced module, ".join(dict.fromkeys(attempts))
    if reference is None:
        return VerificationError(
            f"the cut model does not run: {notes}", fix="cut with verify=True to learn which group"
        )
    group, operator = _culprit(model, traced, cut, reference)
    return VerificationError(
        f"group {group!r} cannot be cut, for at {operator} the cut model stops computing what "
        f"the original does without those channels ({notes})",
        fix=f"leave that group out with a ratio of 0: {{{group!r}: 0.0, ...}}; and please report "
        "the model, for either a rule is wrong or `forward` depends on its own sizes",
    )


def _culprit(
    model: nn.Module, traced: TorchTrace, cut: Cut, reference: Reference
) -> tuple[str, str]:
    for name, gone in cut.parts.items():
        part = cut_of(cut.channels, gone)
        alone = reference_output(model, traced, part, reference.example, reference)
        small, _ = cut_module(model, part, kept_indices(part), traced)
        attempts: list[str] = []
        if _judge(small, kept_indices(part), alone, traced, reference.example, attempts) is None:
            return name, first_difference(traced, part, reference) or "a number in `forward`"
    return "(only several together)", first_difference(traced, cut, reference) or "an operator"

"""One cut of a PyTorch model, from the choice of channels to the verified result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from prunus.backends.torch.edit import Kept, cut_module, kept_indices, repair
from prunus.backends.torch.trace import Example, TorchTrace, stored_tensors, trace
from prunus.backends.torch.traced import TracedModule, traced_module
from prunus.backends.torch.untouched import evaluating
from prunus.backends.torch.verify import (
    Reference,
    compare,
    compare_training,
    first_difference,
    reference_output,
)
from prunus.core.cut.cut import Cut, cut_of
from prunus.core.errors import PrunusError, VerificationError
from prunus.core.graph.channels import Channels, close
from prunus.core.graph.rules import Rules
from prunus.core.scores.group import Weights

__all__ = ["TOLERANCE", "Fitted", "apply_cut", "same_sets", "weights_of"]

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


@dataclass(frozen=True)
class _Verdict:
    """What a comparison with the blinded original says of one attempt."""

    right: bool
    error: float | None = None
    unverified: str = ""
    note: str = ""
    """What is wrong."""


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
    notes: list[str] = []

    def judged(small: nn.Module) -> _Verdict:
        verdict = _judge(small, kept, reference, traced, example)
        notes.append(verdict.note)
        return verdict

    small, memo = cut_module(model, cut, kept, traced)
    verdict = judged(small)
    changed: list[str] = []
    if not verdict.right and cut.resizes:
        changed = repair(small, cut.resizes)
        verdict = judged(small) if changed else verdict
    if verdict.right:
        return Fitted(small, memo, verdict.error, verdict.unverified, "module", tuple(changed))
    try:
        small = _as_trace(model, cut, example, rules, traced.prefix)
        verdict = judged(small)
    except PrunusError:
        raise
    except Exception as failure:  # an exporter's or interpreter's own error, whatever its class
        notes.append(_told(failure))
    if not verdict.right:
        raise _failure(model, traced, cut, reference, notes)
    memo = _by_name(traced, small)
    return Fitted(small, memo, verdict.error, verdict.unverified, "traced", ())


def _told(failure: Exception) -> str:
    return f"{type(failure).__name__}: {(str(failure).splitlines() or [''])[0]}"


def _by_name(traced: TorchTrace, small: nn.Module) -> dict[int, Any]:
    """Return what a copy would have noted: old tensors' ids to the traced module's tensors."""
    new, _ = stored_tensors(small, traced.prefix)
    return {id(old): new[name] for name, old in traced.stored.items() if name in new}


def _judge(
    small: nn.Module,
    kept: Kept,
    reference: Reference | None,
    traced: TorchTrace,
    example: Example,
) -> _Verdict:
    """Run the cut model, and compare it with the blinded original where there is one."""
    try:
        if reference is None:
            with torch.no_grad(), evaluating(small):
                example.call(small)
            return _Verdict(True, unverified="verification was turned off")
        error = compare(small, kept, reference, traced)
        training = (
            0.0
            if isinstance(small, TracedModule)
            else compare_training(small, kept, reference, traced)
        )
    except Exception as failure:  # the user's own forward may raise anything
        return _Verdict(False, note=_told(failure))
    if error <= TOLERANCE:
        if training > TOLERANCE and not reference.is_random(branches=True):
            return _Verdict(False, note=f"in training its output is off by {training:.1g}")
        silent = reference.silent
        return _Verdict(True, None if silent else error, silent)
    if reference.is_random():
        return _Verdict(True, unverified=RANDOM)
    return _Verdict(False, note=f"its output is off by {error:.1g}, relative to the largest value")


RANDOM = (
    "two runs of the original on one input differ, for it draws random numbers in evaluation mode "
    "that prunus cannot hold still"
)


def _as_trace(
    model: nn.Module, cut: Cut, example: Example, rules: Rules | None, prefix: str
) -> nn.Module:
    """Trace again for every batch size, and make the same cut there."""
    traced = trace(model, example, prefix=prefix, any_batch=True)
    channels = close(traced.graph, rules)
    gone = same_sets(cut, channels)
    again = cut_of(channels, gone)
    return traced_module(model, traced, again.resizes, kept_indices(cut))


def same_sets(cut: Cut, channels: Channels) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Mark the channel sets of another trace that hold what `cut` removes."""
    gone = np.zeros(channels.count, bool)
    for dim, lost in cut.removed.items():
        if dim in channels.sets:  # a weight of a training branch may not be in this trace
            gone[channels.sets[dim][lost]] = True
    return gone


def _failure(
    model: nn.Module, traced: TorchTrace, cut: Cut, reference: Reference | None, notes: list[str]
) -> VerificationError:
    """Name the group that is wrong, by cutting each by itself, and the operator where it shows."""
    told = "; then ".join(note for note in dict.fromkeys(notes) if note)
    if reference is None:
        return VerificationError(
            f"the cut model does not run: {told}", fix="cut with verify=True to learn which group"
        )
    group, operator = _culprit(model, traced, cut, reference)
    return VerificationError(
        f"group {group!r} cannot be cut, for at {operator} the cut model stops computing what "
        f"the original does without those channels ({told})",
        fix=f"leave that group out with a ratio of 0: {{{group!r}: 0.0, ...}}; and please report "
        "the model, for either a rule is wrong or `forward` depends on its own sizes",
    )


def _culprit(
    model: nn.Module, traced: TorchTrace, cut: Cut, reference: Reference
) -> tuple[str, str]:
    suspect = ""
    for name, gone in cut.parts.items():
        part = cut_of(cut.channels, gone)
        alone = reference_output(model, traced, part, reference.example, reference)
        small, _ = cut_module(model, part, kept_indices(part), traced)
        if not _judge(small, kept_indices(part), alone, traced, reference.example).right:
            # A number in `forward` can be rewritten; an operator that differs cannot.
            operator = first_difference(traced, part, reference)
            if operator:
                return name, operator
            suspect = suspect or name
    if suspect:
        return suspect, "a number in `forward`"
    return "(only several together)", first_difference(traced, cut, reference) or "an operator"

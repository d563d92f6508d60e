"""Really cut models, built when asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import nn

from prunus.core.cut.cut import Cut
from prunus.core.study.cells import Key

__all__ = ["Builder", "evaluation_mode"]


class Builder:
    """Builds the models of a table; remembers the last one, and statistics computed anew."""

    def __init__(
        self,
        cuts: Mapping[Key, Cut],
        apply: Callable[[Cut], nn.Module],
        recalibrate: Callable[[nn.Module], object] | None,
    ) -> None:
        self._cuts, self._apply, self._recalibrate = cuts, apply, recalibrate
        self._last: tuple[Key, nn.Module] | None = None
        self._statistics: dict[Key, dict[str, torch.Tensor]] = {}

    def __call__(self, key: Key) -> nn.Module:
        """Return the cut model of a cell, in evaluation mode."""
        if self._last is not None and self._last[0] == key:
            return self._last[1]
        self._last = None  # two at once would take the room of two
        model = self._apply(self._cuts[key])
        if self._recalibrate is not None:
            self._compute_statistics(key, model)
        self._last = key, evaluation_mode(model)
        return model

    def _compute_statistics(self, key: Key, model: nn.Module) -> None:
        assert self._recalibrate is not None  # noqa: S101  (the caller looked)
        known = self._statistics.get(key)
        if known is None:
            self._recalibrate(model)
            self._statistics[key] = {k: one.detach().clone() for k, one in model.named_buffers()}
            return
        for name, buffer in model.named_buffers():
            buffer.copy_(known[name])


def evaluation_mode(model: nn.Module) -> nn.Module:
    """Put every module into evaluation mode."""
    for module in model.modules():
        # Not `eval()`: some models override it to fuse their branches for good.
        module.training = False
    return model

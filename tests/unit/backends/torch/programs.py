"""A small network as a program with its cuts, for tests of whatever runs one."""

from __future__ import annotations

from prunus.backends.torch.backend import TorchBackend
from prunus.core.engine.table import table_of
from prunus.core.graph.channels import close
from prunus.core.graph.groups import find_groups

__all__ = ["Made", "apart", "values_of"]


class Made:
    """A model, its laboratory, its program, and the cells of it."""

    def __init__(self, model, example, ratios=(0.3, 0.6), within=None, **laboratory):
        self.model, self.backend = model.eval(), TorchBackend()
        self.traced = self.backend.trace(model, example, within)
        groups = find_groups(close(self.traced.graph, None, self.traced.pinned))
        self.cuts = table_of(groups, ratios, None, self.backend.weights(self.traced)).cuts
        options = {"rules": None, "recalibrate": None, **laboratory}
        self.lab = self.backend.laboratory(self.traced, self.cuts, **options)
        self.keys = list(self.cuts)

    def sweep(self):
        return self.lab.sweep(1 << 20)


def values_of(program, *inputs):
    """Return the values that a call brings."""
    return program.read(inputs, {})


def apart(one, other):
    off = (one - other).detach().abs().max()
    return float(off / other.detach().abs().max().clamp(min=1e-12))

"""What a cut changes: which results of the original's run are no longer right.

Where a cut touches no axis that an operator adds up over or mixes, what stays of the
operator's result is what it was. So the results before the first such operator need
not be computed again: they are the original's, without the channels that went. After
it, whatever reads a changed result is changed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from prunus.core.graph.channels import Channels

__all__ = ["changed"]


def changed(channels: Channels, gone: NDArray[np.bool_]) -> frozenset[str]:
    """Return the tensors of which what stays has other values than in the original."""
    touched = {
        node.name
        for node, dim in (*channels.sums, *channels.mixes)
        if gone[channels.sets[dim]].any()
    }
    found: set[str] = set()
    for node in channels.graph.nodes:
        if node.name in touched or not found.isdisjoint(node.reads()):
            found.update(node.outputs)
    return frozenset(found)

"""Declare the operators that torchvision's Python code asks for when it is imported.

Beside a CPU build of torch from another index, torchvision's binary operators do not
load; without these two declarations `import torchvision` fails. Nothing here is run
by a model that we cut, except a detector's non-maximum suppression.
"""

from __future__ import annotations

from typing import Any

import torch

_held: list[Any] = []


def declare() -> None:
    """Declare them, once, where torchvision has not brought its own."""
    if _held or _there():
        return
    library = torch.library.Library("torchvision", "DEF")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    library.impl("nms", _nms, "CPU")
    _held.append(library)
    import torchvision.extension

    torchvision.extension._has_ops = lambda: True


def _there() -> bool:
    try:
        return bool(torch.ops.torchvision.nms)
    except AttributeError:
        return False


def _nms(boxes: torch.Tensor, scores: torch.Tensor, threshold: float) -> torch.Tensor:
    """Keep the best box, drop what overlaps it, repeat."""
    left = scores.argsort(descending=True).tolist()
    areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    keep: list[int] = []
    while left:
        best, rest = left[0], left[1:]
        keep.append(best)
        low = torch.maximum(boxes[best, :2], boxes[rest, :2])
        high = torch.minimum(boxes[best, 2:], boxes[rest, 2:])
        overlap = (high - low).clamp(min=0).prod(1)
        ratio = overlap / (areas[best] + areas[rest] - overlap)
        left = [k for k, value in zip(rest, ratio.tolist(), strict=True) if value <= threshold]
    return torch.tensor(keep, dtype=torch.int64)

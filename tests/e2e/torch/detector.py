"""A small detector of torchvision's: a backbone that can be cut, and the rest around it."""

from __future__ import annotations

import importlib
from typing import Any

import torch
from torch import nn

__all__ = ["built", "declare"]

_held: list[Any] = []


def declare() -> None:
    """Declare operators of torchvision's that do not load beside another build of torch."""
    if _held:
        return
    library = torch.library.Library("torchvision", "FRAGMENT")
    for operator in ("nms", "qnms"):
        if not hasattr(torch.ops.torchvision, operator):
            library.define(f"{operator}(Tensor a, Tensor b, float c) -> Tensor")
    if not torch._C._dispatch_has_kernel_for_dispatch_key("torchvision::nms", "CPU"):
        library.impl("nms", _nms, "CPU")
    _held.append(library)
    importlib.import_module("torchvision.extension")._has_ops = lambda: True


def _nms(boxes, scores, threshold):
    """Keep the best box, drop what overlaps it, repeat."""
    left = scores.argsort(descending=True, stable=True).tolist()
    areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    keep = []
    while left:
        best, rest = left[0], left[1:]
        keep.append(best)
        low = torch.maximum(boxes[best, :2], boxes[rest, :2])
        high = torch.minimum(boxes[best, 2:], boxes[rest, 2:])
        overlap = (high - low).clamp(min=0).prod(1)
        ratio = overlap / (areas[best] + areas[rest] - overlap)
        left = [k for k, value in zip(rest, ratio.tolist(), strict=True) if value <= threshold]
    return torch.tensor(keep, dtype=torch.int64)


def built() -> nn.Module:
    """Return a detector with a backbone of two convolutions."""
    declare()
    detection = importlib.import_module("torchvision.models.detection")
    anchors = importlib.import_module("torchvision.models.detection.anchor_utils")
    backbone = nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=4, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Conv2d(8, 8, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(8, 6, 1),
    )
    backbone.out_channels = 6
    return detection.RetinaNet(
        backbone,
        num_classes=3,
        min_size=32,
        max_size=32,
        anchor_generator=anchors.AnchorGenerator(((8, 16),), ((1.0,),)),
        score_thresh=0.0,
        detections_per_img=5,
        topk_candidates=20,
    ).eval()

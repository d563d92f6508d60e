"""Groups and cut, side by side with Torch-Pruning in one run; and how time grows.

    python bench/speed.py            all
    python bench/speed.py resnet50   some models

What is timed: ours, from the traced graph to the cut copy (facts, groups, l1 scores,
choice, new module); theirs, pruner construction (which traces by itself) and `step()`.
Ours does not include tracing, which `torch.export` does and which is shown apart, nor
verification, which the other does not have. One thread, best of three.
"""

from __future__ import annotations

import copy
import logging
import multiprocessing
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

NAMES = ("resnet50", "mobilenet_v2", "densenet121", "densenet201", "vgg16", "swin_t")
LIMIT = 120.0


def build(name: str) -> tuple[Any, Any]:
    """Return a torchvision model and an example."""
    import torch
    import torchvision_ops

    torchvision_ops.declare()
    from torchvision import models

    torch.manual_seed(0)
    return models.get_model(name, weights=None).eval(), torch.randn(1, 3, 224, 224)


def ours(model: Any, example: Any, repeats: int = 3) -> tuple[float, float]:
    """Return the seconds of tracing, and of everything after it."""
    from prunus.backends.torch.backend import TorchBackend
    from prunus.backends.torch.edit import cut_module, kept_indices
    from prunus.core.cut.cut import make_cut
    from prunus.core.graph.channels import close
    from prunus.core.graph.groups import find_groups
    from prunus.core.scores.group import scores_of

    backend = TorchBackend()
    started = time.perf_counter()
    traced = backend.trace(model, example)
    tracing = time.perf_counter() - started

    def work() -> None:
        groups = find_groups(close(traced.graph))
        weights = backend.weights(traced)
        scores = {k: scores_of(group, "l1", weights) for k, group in enumerate(groups.groups)}
        cut = make_cut(groups, [0.5] * len(groups.groups), scores)
        cut_module(model, cut, kept_indices(cut), traced.inner)

    return tracing, _best(work, repeats)


def theirs(model: Any, example: Any) -> float:
    """Return the seconds of Torch-Pruning's pruner and step."""
    import torch
    import torch_pruning

    best = float("inf")
    for _ in range(2):
        fresh = copy.deepcopy(model)
        (*_, last) = (part for part in fresh.modules() if isinstance(part, torch.nn.Linear))
        started = time.perf_counter()
        pruner = torch_pruning.pruner.BasePruner(
            fresh,
            example,
            importance=torch_pruning.importance.MagnitudeImportance(p=1),
            pruning_ratio=0.5,
            ignored_layers=[last],
        )
        pruner.step()
        best = min(best, time.perf_counter() - started)
    return best


def _best(work: Callable[[], None], repeats: int) -> float:
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return min(times)


def _theirs_in_child(name: str, answer: Any) -> None:
    import torch

    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    answer.put(theirs(*build(name)))


def theirs_or_limit(name: str) -> float:
    """Run the other in a process of its own, for it need not come to an end."""
    spawn = multiprocessing.get_context("spawn")
    answer = spawn.Queue()
    child = spawn.Process(target=_theirs_in_child, args=(name, answer))
    child.start()
    child.join(LIMIT)
    if child.is_alive():
        child.kill()
        return float("inf")
    return float(answer.get(timeout=5)) if child.exitcode == 0 else float("nan")


def compare(names: list[str]) -> bool:
    """Print the table; tell whether we are never the slower one."""
    print("| model | our tracing | ours | Torch-Pruning | ratio |")
    print("|---|---|---|---|---|")
    good = True
    for name in names:
        tracing, own = ours(*build(name))
        other = theirs_or_limit(name)
        shown = f"{other:.2f} s" if other < LIMIT else f"none in {LIMIT:.0f} s"
        ratio = f"{other / own:.1f}x" if other < LIMIT else f"over {LIMIT / own:.0f}x"
        print(f"| {name} | {tracing:.2f} s | {own:.3f} s | {shown} | {ratio} |", flush=True)
        good &= not own > other
    return good


def chain(depth: int, width: int) -> Any:
    """Convolutions one after the other."""
    from torch import nn

    layers: list[Any] = [nn.Conv2d(3, width, 3, padding=1)]
    for _ in range(depth):
        layers += [nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10))


def residual(depth: int, width: int) -> Any:
    """Blocks that add to what they read."""
    from torch import nn

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one = nn.Conv2d(width, width, 3, padding=1)
            self.two = nn.Conv2d(width, width, 3, padding=1)

        def forward(self, x: Any) -> Any:
            return x + self.two(self.one(x).relu())

    blocks = [Block() for _ in range(depth)]
    pool = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10)]
    return nn.Sequential(nn.Conv2d(3, width, 3), *blocks, *pool)


def dense(depth: int, width: int) -> Any:
    """Layers that each read all before them."""
    import torch
    from torch import nn

    class Dense(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(
                nn.Conv2d(3 + k * width, width, 3, padding=1) for k in range(depth)
            )
            self.head = nn.Linear(3 + depth * width, 10)

        def forward(self, x: Any) -> Any:
            for layer in self.layers:
                x = torch.cat([x, layer(x).relu()], 1)
            return self.head(x.mean((2, 3)))

    return Dense()


def growth() -> None:
    """Print seconds for doubled depth and doubled width, and the exponent that fits them."""
    import numpy as np
    import torch

    print("\n| net | what doubles | seconds | exponent |")
    print("|---|---|---|---|")
    for make, depths in ((chain, (40, 80, 160, 320)), (residual, (20, 40, 80, 160)),
                         (dense, (16, 32, 64, 128))):  # fmt: skip
        sizes = [(depth, 16) for depth in depths]
        widths = [(depths[0], width) for width in (16, 32, 64, 128)]
        for what, pairs in (("depth", sizes), ("width", widths)):
            times = [ours(make(*pair).eval(), torch.randn(1, 3, 8, 8))[1] for pair in pairs]
            times_larger = [max(depth / pairs[0][0], width / 16) for depth, width in pairs]
            slope = np.polyfit(np.log2(times_larger), np.log2(times), 1)[0]
            shown = ", ".join(f"{seconds:.3f}" for seconds in times)
            print(f"| {make.__name__} | {what} | {shown} | {slope:.2f} |", flush=True)


def main(names: list[str]) -> int:
    """Print both tables; exit code 1 where the other is faster."""
    import torch

    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    good = compare(names or list(NAMES))
    if not names:
        growth()
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

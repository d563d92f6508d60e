"""Adaptive mode against exact mode, replayed on recorded results of each sample.

    python bench/adaptive.py                     a made-up table
    python bench/adaptive.py NET.npz ...         recorded tables
    python bench/adaptive.py --seeds 20 --budget 0.01 --width 0.002 NET.npz
    python bench/adaptive.py --width 0.005       no budget: every cell to a half width
    python bench/adaptive.py --record resnet56 --nets FOLDER --data FOLDER NET.npz

What is recorded, on a trained net that is really cut, is whether each cut model is right about each
picture. A list of N samples is drawn from the recorded pictures with replacement, each with
its results in all cells, so that cells keep the churn and the correlations that they have; it is
drawn anew for each seed, and so is its order. Exact mode is exact on that list. So what is
made up is the number of pictures, and with it the exact losses; nothing about a picture is.

Columns: `fewer` sample evaluations than exact mode (cells x N), the baseline's own N counted to
adaptive mode, mean and worst seed; `all` the same where each batch that is loaded counts as one
more evaluation, for an engine that runs the original on it; `passes` over the data; `cells`
measured; `miss` the share of intervals that miss the exact loss, mean and worst cell; `bounds`
the share of bounded cells whose bounds do not hold; `agree` the share of layers whose ratio, read
off by the seeds' loss rule, is within one step of the grid of exact mode's; `ends` the cells
that saw every sample.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tables import Table, made_up, record, recorded

from prunus.core.engine.adaptive import FIRST, Adaptive
from prunus.core.study.cells import BOUNDED, EXACT, Key

SIZES = (10_000, 50_000)
TARGETS = {10_000: 5.0, 50_000: 20.0}
HEADER = (
    f"{'table':12} {'N':>6} {'fewer':>7} {'worst':>7} {'all':>6} {'passes':>6} {'cells':>11} "
    f"{'miss':>6} {'worst':>6} {'bounds':>6} {'agree':>6} {'ends':>5} {'s':>5}"
)


def ratio_of(curve: list[tuple[float, float]], target: float) -> float:
    """Return what the seeds' rule reads off a curve of (ratio, loss), ascending.

    From the largest ratio down, the first within the target; between it and the next one
    the loss is a straight line. Nothing is read off beyond what was measured.
    """
    for place in range(len(curve) - 1, -1, -1):
        ratio, loss = curve[place]
        if loss > target:
            continue
        if place == len(curve) - 1:
            return ratio
        ahead, beyond = curve[place + 1]
        return ratio + (target - loss) * (ahead - ratio) / (beyond - loss)
    return 0.0


def chosen(table: Table, losses: dict[Key, float], target: float) -> dict[str, float]:
    curves = defaultdict(list)
    for key, ratio in zip(table.keys, table.ratios, strict=True):
        if key in losses:
            curves[key.group].append((float(ratio), losses[key]))
    return {group: ratio_of(curves[group], target) for group in table.groups}


@dataclass(frozen=True)
class Outcome:
    """One seed."""

    samples: int
    passes: float
    missed: NDArray[np.int8]
    """By cell: 1 missed, 0 held, -1 not measured."""
    unheld: list[bool]
    """For each bounded cell, whether its bounds do not hold."""
    ends: int
    steps: list[float]
    """How far each group's ratio is from the exact one, in steps of the grid."""


def replay(table: Table, options: argparse.Namespace, order: NDArray[np.int64]) -> Outcome:
    policy = Adaptive(
        table.groups, len(order), table.baseline, width=options.width, budget=options.budget,
        alpha=options.alpha, first=options.first,
    )  # fmt: skip
    row = {key: k for k, key in enumerate(table.keys)}
    loaded = 0
    while active := policy.active():
        at = policy.position(active[0])
        batch = order[at : at + options.batch]
        rows = np.array([row[key] for key in active])
        policy.observe(active, table.differences[rows[:, None], batch])
        loaded += len(batch)
    truth = dict(zip(table.keys, table.losses, strict=True))
    results = list(policy.finished())
    holds = {one.key: one.low - 1e-9 <= truth[one.key] <= one.high + 1e-9 for one in results}
    missed = np.full(len(row), -1, np.int8)
    found = {one.key: one.estimate for one in results if one.estimate is not None}
    for key in found:
        missed[row[key]] = not holds[key]
    target = options.budget or 0.02
    ours, theirs = (chosen(table, which, target) for which in (found, truth))
    step = float(np.diff(np.unique(table.ratios)).max())
    return Outcome(
        samples=sum(one.samples for one in results),
        passes=loaded / len(order),
        missed=missed,
        unheld=[not holds[one.key] for one in results if one.kind == BOUNDED],
        ends=sum(one.kind == EXACT for one in results),
        steps=[abs(ours[group] - theirs[group]) / step for group in ours],
    )


def outcomes(table: Table, options: argparse.Namespace, size: int) -> Iterator[Outcome]:
    for seed in range(options.seeds):
        rng = np.random.default_rng([seed, size])
        drawn = table.drawn(rng.integers(0, len(table.correct), size))
        yield replay(drawn, options, rng.permutation(size))


def show(table: Table, options: argparse.Namespace, size: int) -> None:
    started = time.perf_counter()
    seeds = list(outcomes(table, options, size))
    cells = len(table.keys)
    fewer = [cells * size / (one.samples + size) for one in seeds]
    every = [cells * size / (one.samples + size + one.passes * size) for one in seeds]
    missed = np.stack([one.missed for one in seeds])
    tried = (missed >= 0).sum(axis=0)
    often = tried >= max(10, options.seeds // 4)
    by_cell = (missed == 1).sum(axis=0)[often] / tried[often]
    unheld = [bad for one in seeds for bad in one.unheld]
    agree = np.mean([step <= 1 + 1e-9 for one in seeds for step in one.steps])
    miss = (missed == 1).sum() / (missed >= 0).sum()
    passes = np.mean([one.passes for one in seeds])
    measured = f"{(missed >= 0).sum() / len(seeds):.1f} of {cells}"
    print(
        f"{table.name:12} {size:6} {np.mean(fewer):6.1f}x {min(fewer):6.1f}x "
        f"{np.mean(every):5.1f}x {passes:6.2f} {measured:>11} {miss:6.3f} "
        f"{by_cell.max(initial=0):6.3f} {np.mean(unheld or [0]):6.3f} {agree:6.3f} "
        f"{np.mean([one.ends for one in seeds]):5.1f} {time.perf_counter() - started:5.0f}",
        flush=True,
    )
    if options.budget == 0.02 and size in TARGETS:
        wanted = {
            f"{TARGETS[size]:g}x fewer": np.mean(fewer) >= TARGETS[size],
            f"{1 - options.alpha:.0%} of intervals hold": miss <= options.alpha,
            "95% of layers within a step": agree >= 0.95,
        }
        print("".join(f"    {name}: {'yes' if met else 'NO'}" for name, met in wanted.items()))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tables", nargs="*", type=Path)
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--size", type=int, action="append", help="N; may be given repeatedly")
    parser.add_argument("--budget", type=float, help="relative loss; 0.02 where no width is given")
    parser.add_argument("--width", type=float, help="half width; a quarter of a budget by default")
    parser.add_argument("--alpha", type=float, default=0.05)
    parser.add_argument("--batch", type=int, default=100)
    parser.add_argument("--first", type=int, default=FIRST)
    parser.add_argument("--record", metavar="NET", help="make the table instead of reading it")
    parser.add_argument("--nets", type=Path, help="folder of nets.py and the trained weights")
    parser.add_argument("--data", type=Path, help="folder of test_batch.png and test_lables.json")
    parser.add_argument("--pictures", type=int, default=2000)
    parser.add_argument("--groups", type=int, default=9)
    parser.add_argument("--minutes", type=float, default=20)
    options = parser.parse_args()
    if options.record and not (options.nets and options.data and len(options.tables) == 1):
        parser.error("--record needs --nets, --data, and the name of one file to write")
    if options.width is None and options.budget is None:
        options.budget = 0.02
    return options


def main() -> None:
    options = arguments()
    if options.record:
        record(options)
        return
    print(
        f"budget {options.budget}, width {options.width}, alpha {options.alpha}, batches of "
        f"{options.batch}, estimates after {options.first}, {options.seeds} seeds"
    )
    print(HEADER)
    for table in map(recorded, options.tables) if options.tables else [made_up()]:
        for size in options.size or SIZES:
            show(table, options, size)


if __name__ == "__main__":
    main()

"""The zoo: every model of torchvision and of timm's families, cut by half and judged.

    python bench/zoo.py                  all of it (about 25 minutes on two cores)
    python bench/zoo.py resnet18 swin_t  some of it

For each model: traced, cut at ratio 0.5, verified, run at batch 1 and 3, judged by
`zoo_judge.py`, multiply-adds compared with `torch.utils.flop_counter`. Exit code 1
where anything fails. `zoo_models.json` has each model's class and what Torch-Pruning
1.6.1 makes of it (torch 2.13, ratio 0.5, 120 s limit).
"""

from __future__ import annotations

import gc
import json
import logging
import multiprocessing
import sys
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

MODELS = json.loads((Path(__file__).parent / "zoo_models.json").read_text())
ENOUGH = 0.7
"""A convolutional model keeps at most this share of its parameters."""


def build(kind: str, name: str) -> tuple[Any, tuple[Any, ...], str | None]:
    """Return the model, an example, and the sub-module to cut where the whole cannot be traced."""
    import torch
    import torchvision_ops

    torchvision_ops.declare()
    torch.manual_seed(0)
    if kind == "timm":
        import timm

        model = timm.create_model(name, pretrained=False)
        shape = model.default_cfg.get("input_size", (3, 224, 224))
        return model.eval(), (torch.randn(1, *shape),), None
    from torchvision import models

    if kind == "detection":
        model = models.get_model(name, weights=None, weights_backbone=None)
        return model.eval(), ([torch.rand(3, 320, 320)],), "backbone"
    if kind == "video":
        model = models.get_model(name, weights=None)
        if name == "raft_small":
            frame = torch.randn(1, 3, 128, 128)
            return model.eval(), (frame, torch.randn(1, 3, 128, 128)), None
        clip = (14, 224, 224) if name == "s3d" else (16, 112, 112)
        return model.eval(), (torch.randn(1, 3, *clip),), None
    options: dict[str, Any] = {"weights": None}
    if name in ("googlenet", "inception_v3"):
        options["init_weights"] = True
    if kind == "segmentation":
        options["weights_backbone"] = None
    side = 299 if name == "inception_v3" else 224
    return models.get_model(name, **options).eval(), (torch.randn(1, 3, side, side),), None


def run(job: tuple[str, str]) -> dict[str, Any]:
    """Cut and judge one model; whatever happens comes back as a row."""
    kind, name = job
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    row: dict[str, Any] = {"kind": kind, "name": name, **MODELS[kind][name]}
    started = time.perf_counter()
    try:
        row |= _examined(kind, name)
    except Exception as error:  # one model's failure is a row of the table
        row["failed"] = f"{type(error).__name__}: {error}"
        row["trace"] = traceback.format_exc()
    row["seconds"] = round(time.perf_counter() - started, 1)
    gc.collect()
    return row


def _examined(kind: str, name: str) -> dict[str, Any]:
    import torch
    import zoo_judge

    import prunus

    torch.set_num_threads(1)
    model, example, within = build(kind, name)
    zoo_judge.randomise(model)
    started = time.perf_counter()
    pruned = prunus.prune(model, example, 0.5, within=within)
    row: dict[str, Any] = {"prune_seconds": round(time.perf_counter() - started, 2)}
    row |= {
        "numel": pruned.after.numel / pruned.before.numel,
        "macs": pruned.after.macs / pruned.before.macs,
        "error": pruned.error,
        "how": pruned.how,
        "changed": len(pruned.changed),
        "mixes": len(pruned.mixes),
        "frozen": [(one.name, one.because, one.channels) for one in pruned.frozen],
    }
    if pruned.error is None:
        raise AssertionError(f"not verified: {pruned.unverified}")
    if within:
        part, small = model.get_submodule(within), pruned.model.get_submodule(within)
        call = (torch.randn(1, 3, 320, 320),)
        view = _Part(small, {k.removeprefix(f"{within}."): v for k, v in pruned.cut.items()})
        row |= _judged(part, view, call)
        with torch.no_grad():
            pruned.model([torch.rand(3, 320, 320), torch.rand(3, 300, 200)])
        call = example
    else:
        row |= _judged(model, pruned, example)
        row |= _multiply_adds(model, example, pruned.before.macs)
    return row


class _Part:
    def __init__(self, model: Any, cut: Any) -> None:
        self.model, self.cut = model, cut


def _judged(model: Any, pruned: Any, example: tuple[Any, ...]) -> dict[str, Any]:
    import torch
    import zoo_judge
    from torch.utils._pytree import tree_leaves

    small = pruned.model
    with torch.no_grad():
        one = tree_leaves(small(*example))
        three = tree_leaves(small(*(torch.cat([value] * 3) for value in example)))
        whole = tree_leaves(model(*example))
    for a, b, c in zip(whole, one, three, strict=True):
        if a.shape != b.shape or c.shape[1:] != a.shape[1:] or len(c) != 3 * len(a):
            raise AssertionError(f"output shapes: {a.shape}, cut {b.shape}, batch of 3 {c.shape}")
    error, change, normed = zoo_judge.judge(model, pruned, example)
    mixing = bool(getattr(pruned, "mixes", ()))
    exact = error < 1e-6
    judged = "exact" if exact else ("not judged" if mixing else "WRONG")
    return {"judge": judged, "judge_error": error, "change": change, "judge_normed": normed}


def _multiply_adds(model: Any, example: tuple[Any, ...], macs: int) -> dict[str, Any]:
    """Compare with torch's counter, which counts attention and LSTMs only in their plain forms."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    # Its hooks stumble over views of parameters that could learn.
    model.requires_grad_(False)
    counter = FlopCounterMode(display=False)
    plain = torch.backends.mkldnn.flags(enabled=False)
    torch.backends.mha.set_fastpath_enabled(False)
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), plain, counter:
        model(*example)
    return {"macs_here": macs, "macs_torch": counter.get_total_flops() // 2}


def main(names: list[str]) -> int:
    """Run the jobs on two processes, print a line a model, then the tables."""
    jobs = [(kind, name) for kind, many in MODELS.items() for name in many]
    if names:
        jobs = [job for job in jobs if job[1] in names]
    # The giants need several gigabytes each: last, and not side by side.
    giants = {"vit_h_14", "regnet_y_128gf", "vit_l_16", "vit_l_32", "mobilenetv5_300m"}
    spawn = multiprocessing.get_context("spawn")
    rows = []
    for some, processes in (
        ([job for job in jobs if job[1] not in giants], 2),
        ([job for job in jobs if job[1] in giants], 1),
    ):
        if not some:
            continue
        with spawn.Pool(processes, maxtasksperchild=16) as pool:
            for row in pool.imap_unordered(run, some):
                rows.append(row)
                print(f"{len(rows):3d}/{len(jobs)} {line(row)}", flush=True)
    Path("zoo_results.json").write_text(json.dumps(rows, indent=1))
    return summary(rows)


def line(row: dict[str, Any]) -> str:
    """Return one model's line."""
    head = f"{row['kind']}/{row['name']:34s} {row['seconds']:6.1f} s"
    if "failed" in row:
        return f"{head}  FAILED {row['failed'][:300]}"
    return (
        f"{head}  parameters left {row['numel']:4.0%}  error {row['error']:.0e}  "
        f"judge {row['judge']} ({row['judge_error']:.0e}, changed {row['change']:.0e})  "
        f"{row['how']}"
    )


def problems(row: dict[str, Any]) -> list[str]:
    """Return what is not as it should be."""
    if "failed" in row:
        return [f"failed: {row['failed']}"]
    found = []
    if row["judge"] == "WRONG":
        found.append(f"the judge finds it wrong by {row['judge_error']:.1g}")
    if row["change"] < 1e-9:
        found.append("the cut changes nothing, so that it cannot be judged")
    if row["class"] == "convolutional" and row["numel"] > ENOUGH and row["kind"] != "detection":
        found.append(f"keeps {row['numel']:.0%} of its parameters")
    if row.get("macs_here", 0) != row.get("macs_torch", 0):
        found.append(f"{row['macs_here']} multiply-adds, torch counts {row['macs_torch']}")
    return found


def summary(rows: list[dict[str, Any]]) -> int:
    """Print the tables; return the exit code."""
    print("\nwhat stays, and why\n")
    reasons: Counter[str] = Counter()
    where: dict[str, set[str]] = {}
    for row in rows:
        for _, because, channels in row.get("frozen", ()):
            reason = _general(because)
            reasons[reason] += channels
            where.setdefault(reason, set()).add(row["name"])
    for reason, count in reasons.most_common():
        shown = ", ".join(sorted(where[reason])[:3])
        print(f"{count:8d} filters in {len(where[reason]):3d} models: {reason}  ({shown})")
    print("\n| zoo | models | cut | exact | not judged | wrong | Torch-Pruning |")
    print("|---|---|---|---|---|---|---|")
    for kind in MODELS:
        own = [row for row in rows if row["kind"] == kind]
        judged = Counter(row.get("judge", "failed") for row in own)
        cut = len(own) - judged["failed"]
        peer = sum(row["torch_pruning"] == "ok" for row in own)
        print(
            f"| {kind} | {len(own)} | {cut} | {judged['exact']} | {judged['not judged']} | "
            f"{judged['WRONG']} | {peer} |"
        )
    bad = [(row["name"], text) for row in rows for text in problems(row)]
    for name, text in bad:
        print(f"PROBLEM {name}: {text}")
    return 1 if bad else 0


def _general(because: str) -> str:
    """Return a reason without the names and numbers of one model."""
    import re

    return re.sub(r"'[^']*'", "...", re.sub(r"\d+", "n", because))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""What exact mode must agree with: cut each model, run it over all the data, and count.

It shares with the engine what chooses and makes a cut, and no line of what measures.
"""

from __future__ import annotations

import numpy as np
import torch

import prunus

__all__ = ["Counted", "batches", "called", "naive", "top"]


def batches(*sizes, shape=(3, 8, 8), classes=5, seed=1):
    """Pictures with class numbers, in batches of these sizes."""
    generator = torch.Generator().manual_seed(seed)
    return [
        (
            torch.randn(size, *shape, generator=generator),
            torch.randint(0, classes, (size,), generator=generator),
        )
        for size in sizes
    ]


def called(model, inputs):
    """Call a model as the engine does by default."""
    if isinstance(inputs, dict):
        return model(**inputs)
    return model(*inputs) if isinstance(inputs, tuple | list) else model(inputs)


def top(k, pick=lambda output: output):
    """One score a sample: is the target among the k largest?"""

    def scores(output, batch):
        right = (pick(output).topk(k, 1).indices == batch[1].unsqueeze(1)).any(1).double()
        return right.reshape(len(right), -1).mean(1)

    return scores


@torch.no_grad()
def naive(model, example, data, scores, study, *, forward=None, change=None, **options):
    """Return the baseline and {cell: metric}, of the cells that a study has measured.

    Args:
        model: The original.
        example: What it is cut on.
        data: Batches, as a list.
        scores: From an output and a batch to one score a sample.
        study: What the engine has measured.
        forward: How a model is run on a batch.
        change: Done to each cut model before it is measured.
        options: How it is cut.
    """
    forward = forward or (lambda net, batch: called(net, batch[0]))

    def measured(net):
        net.eval()
        return float(
            np.concatenate([scores(forward(net, one), one).double().numpy() for one in data]).mean()
        )

    modes = {module: module.training for module in model.modules()}
    whole = measured(model)
    for module, training in modes.items():
        module.training = training
    found = {}
    for group, counts in study.asked.items():
        for ratio, removed in counts.items():
            if removed and (group, removed) not in found:
                small = prunus.prune(model, example, {group: ratio}, verify=False, **options).model
                if change is not None:
                    change(small)
                found[group, removed] = measured(small)
    return whole, found


class Counted:
    """A metric of one score a sample, which counts its calls by batch, and can break off."""

    def __init__(self, scores, stop=None, error=KeyboardInterrupt):
        self.scores, self.stop, self.error = scores, stop, error
        self.calls = []
        self.__module__, self.__qualname__ = "tests", "counted"

    def __call__(self, output, batch):
        if self.stop is not None and len(self.calls) == self.stop:
            raise self.error
        self.calls.append(float(batch[0].sum()))
        return self.scores(output, batch)

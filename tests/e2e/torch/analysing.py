"""A process that analyses a real network, again and again, and is disturbed by tests.

    python analysing.py WEIGHTS

It reads one job a line, as JSON, and forks a process for each, so that PyTorch is imported
once. That process writes "call TAG" before whatever it evaluates, with one tag for all that
is written to the study together, and is then killed, interrupted, or left without room.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import tempfile

import torch
from safetensors.torch import load_file

import prunus
from prunus.tasks.digits import load, network

RATIOS = (0.25, 0.5, 0.75)
BATCH = 150
SAMPLES = 1797
BATCHES = -(-SAMPLES // BATCH)
EXAMPLE = torch.zeros(1, 1, 8, 8)


def say(*words):
    # One write of one short line: a kill leaves all of it or nothing.
    os.write(1, f"{' '.join(map(str, words))}\n".encode())


class Data:
    """All digits in batches, which counts how often it is gone through."""

    passes = 0

    def __init__(self):
        found = load()
        images = torch.cat([found.images, found.test_images])
        labels = torch.cat([found.labels, found.test_labels])
        self.batches = list(zip(images.split(BATCH), labels.split(BATCH), strict=True))

    def __call__(self):
        self.passes += 1
        yield from self.batches

    def __len__(self):
        return len(self.batches)


class Reads:
    """Tells one reading of a batch from the next, though the same batch may come again."""

    def __init__(self):
        self.number, self.batch = 0, None

    def __call__(self, batch):
        # Kept, so that no later batch can lie where this one did.
        self.number, self.batch = self.number + (batch is not self.batch), batch
        say("call", self.number)


read = Reads()


def right(output, batch):
    read(batch)
    return (output.argmax(1) == batch[1]).double()


def surprise(output, batch):
    read(batch)
    return torch.nn.functional.cross_entropy(output, batch[1], reduction="none")


def guessed(output, batch):
    say("guess", len(output))
    return torch.nn.functional.cross_entropy(output, batch[1])


class Share:
    """The share of right answers, as an object with a state."""

    def __init__(self, data):
        self.data = data
        self.reset()

    def __deepcopy__(self, memo):
        return Share(self.data)

    def reset(self):
        self.right = self.count = 0

    def update(self, output, target):
        say("call", self.data.passes)
        self.right += int((output.argmax(1) == target).sum())
        self.count += len(target)

    def compute(self):
        return self.right / self.count


def opaque(data):
    calls = 0

    def evaluate(model):
        nonlocal calls
        calls += 1
        say("call", calls)
        hits = sum(int((model(images).argmax(1) == y).sum()) for images, y in data.batches)
        return hits / SAMPLES

    return evaluate


def work(mode, data):
    """Return how to evaluate, and the options of the analysis."""
    if mode == "opaque":
        return opaque(data), {}
    if mode == "early":
        return prunus.Evaluation(data, right, bounds=(0, 1)), {"budget": 0.1}
    if mode == "states":
        return prunus.Evaluation(data, Share(data)), {}
    if mode == "guess":
        return prunus.Evaluation(data, right, loss=guessed), {"estimate": True}
    if mode == "surprise":
        return prunus.Evaluation(data, surprise, higher_is_better=False), {}
    return prunus.Evaluation(data, right), {}


def prepare(job):
    if job.get("free"):
        os.unlink(job["free"])
    if job.get("nobody") and os.getuid() == 0:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
    limit = job.get("limit")
    if limit is not None:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL if job.get("die") else signal.SIG_IGN)


def run(job, model, data):
    """Do one job, and return the exit status."""
    prepare(job)
    evaluate, options = work(job["mode"], data)
    if job.get("shard"):
        options["shard"] = tuple(job["shard"])
    ratios = job.get("ratios", RATIOS)
    try:
        prunus.analyze(
            model, EXAMPLE, evaluate, study=job["path"], ratios=ratios, seed=1, **options
        )
    except KeyboardInterrupt:
        say("interrupted")
        return 130
    except prunus.PrunusError as error:
        say("error", str(error).replace("\n", " "))
        return 3
    return 0


def main():
    torch.set_num_threads(1)
    model = network()
    model.load_state_dict(load_file(sys.argv[1]))
    model.eval()
    data = Data()
    with tempfile.TemporaryDirectory() as folder:  # what this imports is there from now on
        prunus.analyze(
            model,
            EXAMPLE,
            prunus.Evaluation(data.batches[:1]),
            study=f"{folder}/a.study",
            ratios=[0.5],
        )
    say("ready")
    for line in sys.stdin:
        pid = os.fork()
        if not pid:
            os._exit(run(json.loads(line), model, data))
        say("pid", pid)
        say("end", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


if __name__ == "__main__":
    main()

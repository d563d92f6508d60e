"""Every backend keeps the same promises: the shipped suite, once a backend."""

import numpy as np
import pytest
import torch

from prunus.backends.torch.backend import TorchBackend
from prunus.testing.backend_suite import BackendSuite

from ..unit.backends.torch.nets import Chain, Held, fingerprint, image, output  # noqa: TID252


class TorchSubject:
    backend = TorchBackend()

    def __init__(self, build, other, example):
        self.build, self.other, self.example = build, other, example

    def run(self, model):
        return output(model, self.example).numpy()

    def call(self, model):
        with torch.no_grad():
            return model(self.example).numpy()

    def score(self, output, batch):
        return np.asarray(output).mean(1)

    def disturb(self, model):
        with torch.no_grad():
            next(model.parameters()).view(-1)[0] += 1

    def state(self, model):
        return fingerprint(model)


class TestTorch(BackendSuite):
    @pytest.fixture(params=[(Chain, Held, 8), (Held, Chain, 4)], ids=["chain", "held"])
    def subject(self, request):
        torch.manual_seed(0)
        build, other, size = request.param
        return TorchSubject(build, other, image(size=size))

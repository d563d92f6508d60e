"""One step, and going on."""

import pytest
import torch

from prunus.core.errors import TrainingError
from prunus.tasks.torch.checkpoint import Checkpoint, State
from prunus.tasks.torch.learner import Learner
from prunus.tasks.torch.optimizers import Precision

from .small import settings, small

CPU = torch.device("cpu")
IMAGES, LABELS = torch.rand(6, 1, 8, 8), torch.tensor([0, 1, 2, 3, 4, 9])


def learner(dtype=None, **given):
    found = Learner(small().train(), settings(**given), None, 10, CPU)
    if dtype is not None:
        found.precision = Precision(True, CPU, dtype)
    return found


@pytest.mark.parametrize("dtype", [None, torch.float16])
def test_going_on_is_to_the_bit(tmp_path, dtype):
    def steps(one, numbers):
        return [one.step(IMAGES, LABELS, 0.01 * number, number) for number in numbers]

    torch.manual_seed(0)
    first = learner(dtype, ema_decay=0.9, clip=1.0)
    steps(first, [1, 2])
    state = State(seed=0)
    Checkpoint(first.written(state), state, {}).save(tmp_path / "c")
    rest = steps(first, [3, 4])
    second = learner(dtype, ema_decay=0.9, clip=1.0)
    second.restore(tmp_path / "c", Checkpoint.load(tmp_path / "c"))
    assert steps(second, [3, 4]) == rest
    assert second.rate == 0.04
    for one, other in zip(first.judged().values(), second.judged().values(), strict=True):
        assert torch.equal(one, other)
    assert first.precision.scaler.state_dict() == second.precision.scaler.state_dict()


def test_labels_below_zero():
    with pytest.raises(TrainingError, match=r"labels of the data go from -1 to 9"):
        learner().step(IMAGES, LABELS - 1, 0.1, 1)


def test_weights_that_are_no_numbers():
    one = learner()
    assert one.is_finite()
    with torch.no_grad():
        one.model.head.bias[0] = float("inf")
    assert not one.is_finite()


def test_a_memory_that_is_too_small(monkeypatch):
    one = learner()

    def full(*_):
        raise torch.OutOfMemoryError("full")

    monkeypatch.setattr(one.precision, "step", full)
    with pytest.raises(TrainingError, match=r"(?s)too small for a batch of 6.*data\.batch_size"):
        one.step(IMAGES, LABELS, 0.1, 1)

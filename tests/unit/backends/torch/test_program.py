"""A trace as steps: the same results as the module's, with norms folded and in other types."""

import pytest
import torch
from torch import nn

from .nets import Chain, image
from .programs import Made, apart, values_of


def learned(model):
    """Give norms statistics that do something."""
    model.train()
    with torch.no_grad():
        for _ in range(3):
            model(image(8) * 2 + 1)
    return model.eval()


@pytest.fixture(scope="module")
def made():
    torch.manual_seed(0)
    return Made(learned(Chain()), image())


@pytest.fixture(scope="module")
def program(made):
    return made.sweep().program


@pytest.mark.parametrize("batch", [1, 2, 5])
@torch.no_grad()
def test_it_runs_any_batch(made, program, batch):
    x = image(batch)
    assert apart(program.run(values_of(program, x)), made.model(x)) < 1e-5


def test_norms_are_folded_and_activations_are_in_place(program):
    names = [step.name for step in program.steps]
    assert len(names) < 9
    assert any(name.endswith("/bias") for name in program.weights)
    assert any(step.then for step in program.steps)
    assert not any("batch_norm" in str(step.run) for step in program.steps)


@torch.no_grad()
def test_what_it_is_given_stays(made, program):
    x = image()
    values = values_of(program, x)
    before = x.clone()
    program.run(values)
    assert torch.equal(x, before)
    assert set(values) == set(program.inputs)


def test_a_call_that_is_laid_out_otherwise_is_not_read(program):
    x = image()
    assert program.read((x,), {}) is not None
    assert program.read((), {"x": x}) is None
    assert program.read((x, x), {}) is None
    assert program.read(((x, x),), {}) is None


@torch.no_grad()
@pytest.mark.parametrize("channels_last", [False, True])
def test_it_runs_in_another_order_and_type(channels_last):
    made = Made(learned(Chain()), image())
    program = made.sweep().program
    x = image(3)
    expected = made.model(x)
    kernels = program.kernels()
    assert len(kernels) == 2
    for _, name in kernels:
        program.order(name, channels_last=channels_last)
    assert apart(program.run(values_of(program, x)), expected) < 1e-5
    program.cast(torch.bfloat16)
    narrow = program.run(values_of(program, x.bfloat16()))
    assert narrow.dtype == torch.bfloat16
    assert 1e-5 < apart(narrow.float(), expected) < 0.1
    assert all(one.dtype == torch.float32 for one in made.model.parameters())


class Forks(nn.Module):
    """What an activation writes to is read elsewhere as well."""

    def __init__(self):
        super().__init__()
        self.a, self.norm, self.b = nn.Conv2d(3, 6, 1), nn.BatchNorm2d(6), nn.Conv2d(6, 4, 1)

    def forward(self, x):
        y = self.a(x)
        return {"z": self.b(self.norm(y).relu()), "y": (y.mean(1), [y.relu().sum(1)])}


@torch.no_grad()
def test_what_several_read_is_not_written_to_and_a_tree_comes_back():
    model = Forks().eval()
    model.norm.running_mean += 1
    program = Made(model, image()).sweep().program
    x = image(3)
    found, expected = program.run(values_of(program, x)), model(x)
    assert list(found) == ["z", "y"]
    assert apart(found["z"], expected["z"]) < 1e-5
    assert apart(found["y"][0], expected["y"][0]) < 1e-5
    assert isinstance(found["y"][1], list)
    assert apart(found["y"][1][0], expected["y"][1][0]) < 1e-5


@torch.no_grad()
def test_weights_of_the_users_are_shared_and_stay():
    model = learned(Chain())
    before = {name: value.clone() for name, value in model.state_dict().items()}
    program = Made(model, image()).sweep().program
    program.run(values_of(program, image()))
    assert program.weights["head.weight"].data_ptr() == model.head.weight.data_ptr()
    assert all(torch.equal(before[name], one) for name, one in model.state_dict().items())

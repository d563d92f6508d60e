"""Cutting in place, and cutting an optimiser's state along."""

import copy

import pytest
import torch
from torch import nn

import prunus
from prunus.core.errors import PrunusError

from .nets import Branching, Chain, Fixed, image

OPTIMISERS = {
    "plain": lambda p: torch.optim.SGD(p, lr=0.1),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    "adam": lambda p: torch.optim.Adam(p, lr=0.01),
    "amsgrad": lambda p: torch.optim.AdamW(p, lr=0.01, amsgrad=True),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=0.01),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.01, momentum=0.5, centered=True),
    "adafactor": lambda p: torch.optim.Adafactor(p, lr=0.01),
}


def sliced(tensor, axes):
    for axis, lost in axes.items():
        if tensor.shape[axis] > 1:
            stay = [k for k in range(tensor.shape[axis]) if k not in lost]
            tensor = tensor.index_select(axis, torch.tensor(stay))
    return tensor


def step(model, optimizer, x):
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()


def by_hand(model, small, cut, optimizer, build):
    """Build an optimiser on a copy of the cut model, and slice the state into it."""
    twin = copy.deepcopy(small)
    new = build(twin)
    names = {id(value): name for name, value in model.named_parameters()}
    target = dict(twin.named_parameters())
    for old, state in optimizer.state.items():
        name = names[id(old)]
        new.state[target[name]] = {
            key: sliced(value, cut.get(name, {})).clone()
            if isinstance(value, torch.Tensor) and value.ndim == old.ndim
            else copy.deepcopy(value)
            for key, value in state.items()
        }
    return twin, new


def two_groups(make):
    def build(model):
        biases = [value for value in model.parameters() if value.ndim < 2]
        return make(
            [
                {"params": [value for value in model.parameters() if value.ndim > 1]},
                {"params": biases, "lr": 0.003, "weight_decay": 0.0},
            ]
        )

    return build


@pytest.mark.parametrize("inplace", [False, True])
@pytest.mark.parametrize("name", OPTIMISERS)
def test_the_next_step_equals_that_of_an_optimiser_built_by_hand(name, inplace):
    torch.manual_seed(3)
    model, x, build = Chain().eval(), image(4), two_groups(OPTIMISERS[name])
    optimizer = build(model)
    for _ in range(3):
        step(model, optimizer, x)
    whole, old = copy.deepcopy((model, optimizer))
    pruned = prunus.prune(model, x, 0.5, optimizer=optimizer, inplace=inplace)
    twin, hand = by_hand(whole, pruned.model, pruned.cut, old, build)
    for _ in range(2):
        step(pruned.model, pruned.optimizer, x)
        step(twin, hand, x)
    for (key, a), b in zip(pruned.model.named_parameters(), twin.parameters(), strict=True):
        assert torch.equal(a, b), key
    assert (pruned.optimizer is optimizer) is inplace
    assert [g["lr"] for g in pruned.optimizer.param_groups] == [g["lr"] for g in hand.param_groups]


def test_the_given_optimiser_stays_with_the_original():
    model, x = Chain(), image()
    optimizer = torch.optim.Adam(model.parameters())
    step(model, optimizer, x)
    before = copy.deepcopy(optimizer.state_dict())
    prunus.prune(model, x, 0.5, optimizer=optimizer)
    after = optimizer.state_dict()
    assert all(
        torch.equal(before["state"][k][key], value)
        for k, state in after["state"].items()
        for key, value in state.items()
    )
    step(model, optimizer, x)


def test_weights_of_other_modules_stay_the_same_tensors():
    model, x, loss = Chain(), image(), nn.Linear(5, 1)
    optimizer = torch.optim.Adam([*model.parameters(), *loss.parameters()])
    pruned = prunus.prune(model, x, 0.5, optimizer=optimizer)
    mine = {id(value) for group in pruned.optimizer.param_groups for value in group["params"]}
    assert mine == {id(value) for value in [*pruned.model.parameters(), *loss.parameters()]}


@pytest.mark.parametrize(
    ("optimizer", "message"),
    [
        ("adam", "optimizer= is a str, and must be a torch.optim.Optimizer"),
        (torch.optim.Adam(nn.Linear(2, 2).parameters()), "the Adam in optimizer= holds no param"),
    ],
)
def test_what_is_no_optimiser_of_this_model_is_refused(optimizer, message):
    with pytest.raises(PrunusError, match=message):
        prunus.prune(Chain(), image(), 0.5, optimizer=optimizer)


@pytest.mark.parametrize("within", [None, "backbone"])
def test_the_optimiser_of_a_traced_result(within):
    model = Fixed() if within is None else Branching(nn.Sequential(Fixed(), nn.Linear(10, 5)))
    x = image(2, 4)
    optimizer = torch.optim.Adam(model.parameters())
    step(model, optimizer, x)
    pruned = prunus.prune(model, x, 0.5, optimizer=optimizer, within=within)
    assert pruned.how == "traced"
    mine = {id(value) for group in pruned.optimizer.param_groups for value in group["params"]}
    assert mine == {id(value) for value in pruned.model.parameters()}
    shapes = {key: value["exp_avg"].shape for key, value in pruned.optimizer.state.items()}
    assert all(shape == key.shape for key, shape in shapes.items())
    step(pruned.model, pruned.optimizer, x)


def test_a_state_that_cannot_be_cut_along_is_refused_and_nothing_changes():
    model, x = Chain(), image()
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=2)

    def loss():
        optimizer.zero_grad()
        value = model(x).square().mean()
        value.backward()
        return value

    optimizer.step(loss)
    with pytest.raises(PrunusError, match=r"'d', which LBFGS keeps for 'a\.weight', is not of the"):
        prunus.prune(model, x, 0.5, optimizer=optimizer, inplace=True)
    assert model.a.weight.shape == (8, 3, 3, 3)


def test_in_place_the_model_and_its_parameters_keep_their_identity():
    model, x = Chain(), image()
    model(x).sum().backward()
    before = {name: (id(value), value.grad.clone()) for name, value in model.named_parameters()}
    pruned = prunus.prune(model, x, 0.5, inplace=True)
    assert pruned.model is model
    assert model.a.weight.shape == (4, 3, 3, 3)
    assert model.a.out_channels == 4
    for name, value in model.named_parameters():
        identity, grad = before[name]
        assert id(value) == identity
        assert torch.equal(value.grad, sliced(grad, pruned.cut.get(name, {})))


def test_in_place_an_optimiser_made_before_goes_on():
    model, x = Chain(), image()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    prunus.prune(model, x, 0.5, inplace=True)
    before = model.a.weight.detach().clone()
    step(model, optimizer, x)
    assert not torch.equal(before, model.a.weight)


def test_in_place_a_model_that_must_be_traced_stays_and_the_traced_module_comes_back():
    model, x = Fixed(), image(2, 4)
    pruned = prunus.prune(model, x, 0.5, inplace=True)
    assert pruned.how == "traced"
    assert model.conv.weight.shape == (8, 3, 3, 3)
    assert pruned.model.conv.weight.shape == (4, 3, 3, 3)


@pytest.mark.parametrize("wrap", [nn.utils.weight_norm, nn.utils.spectral_norm])
@pytest.mark.parametrize("inplace", [False, True])
@pytest.mark.filterwarnings("ignore:.*weight_norm.*:FutureWarning")
def test_the_old_hooks_show_what_they_compute(wrap, inplace):
    model, x = Chain(), image()
    model.a, model.b = wrap(model.a), wrap(model.b)
    model(x)
    pruned = prunus.prune(model, x, 0.5, inplace=inplace).model
    assert pruned.a.weight.shape == (4, 3, 3, 3)
    assert (pruned.b.in_channels, pruned.b.out_channels) == (4, 6)
    pruned(x).sum().backward()


def test_masks_of_the_magnitude_pruner_are_cut_along():
    import torch.nn.utils.prune as masks

    model, x = Chain(), image()
    masks.l1_unstructured(model.b, "weight", amount=0.3)
    pruned = prunus.prune(model, x, 0.5)
    assert pruned.model.b.weight_mask.shape == (6, 4, 3, 3)
    assert pruned.error < 1e-9
    pruned.model(x).sum().backward()

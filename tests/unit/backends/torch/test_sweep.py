"""One run of the original, and from where they part, of every cut."""

import pytest
import torch

from prunus.backends.torch.sweep import Sweep, WeightCache, slices_of

from .nets import Chain, image
from .programs import Made, apart, values_of


@pytest.fixture(scope="module")
def made():
    torch.manual_seed(0)
    return Made(Chain(), image())


@pytest.fixture(scope="module")
def sweep(made):
    return made.sweep()


@torch.no_grad()
@pytest.mark.parametrize(("size", "threads"), [(None, 1), (2, 1), (3, 2), (50, 1)])
def test_every_cut_gives_what_its_model_gives(made, sweep, size, threads):
    x, found = image(7), {}
    values = values_of(sweep.program, x)
    if size is None:
        whole = sweep.run(values, made.keys, found.__setitem__)
    else:
        whole = sweep.run_sliced(values, made.keys, found.__setitem__, size, threads)
    assert apart(whole, made.model(x)) < 1e-5
    assert set(found) == set(made.keys)
    for key in made.keys:
        assert apart(found[key], made.lab.build(key)(x)) < 1e-5
    assert torch.get_num_threads() == 1


@torch.no_grad()
@pytest.mark.parametrize("size", [None, 2])
def test_a_cut_that_does_not_run_is_given_as_its_error(made, sweep, size):
    import dataclasses

    key, other = made.keys[-1], made.keys[0]
    broken = dataclasses.replace(sweep.variants[key], weights={})
    one = Sweep(sweep.program, {**sweep.variants, key: broken}, 0)
    values, found = values_of(one.program, image(5)), {}
    if size is None:
        whole = one.run(values, [key, other], found.__setitem__)
    else:
        whole = one.run_sliced(values, [key, other], found.__setitem__, size, 1)
    assert isinstance(found[key], RuntimeError)
    assert isinstance(found[other], torch.Tensor)
    assert isinstance(whole, torch.Tensor)


@torch.no_grad()
def test_without_cells_only_the_original_runs(made, sweep):
    x = image(3)
    whole = sweep.run(values_of(sweep.program, x), [], lambda key, result: pytest.fail("no cell"))
    assert apart(whole, made.model(x)) < 1e-5


def held(cache, keys):
    own = [
        {name: one for name, one in cache.of(key).items() if one is not cache.program.weights[name]}
        for key in keys
    ]
    return own, sum(one.nbytes for weights in own for one in weights.values())


def test_weights_are_kept_while_there_is_room(made, sweep):
    first, size = held(WeightCache(sweep.program, sweep.variants, 1 << 20), made.keys)
    cache = WeightCache(sweep.program, sweep.variants, size)
    for key in made.keys * 2:
        once, again = cache.of(key), cache.of(key)
        assert all(once[name] is again[name] for name in once)
    assert len(first) == len(made.keys)


def test_without_room_nothing_is_kept(made, sweep):
    cache = WeightCache(sweep.program, sweep.variants, 0)
    key = made.keys[0]
    (own,), _ = held(cache, [key])
    assert own
    assert all(cache.of(key)[name] is not one for name, one in own.items())
    assert all(torch.equal(cache.of(key)[name], one) for name, one in own.items())


def test_slices_are_of_all_tensors():
    values = {"x": torch.arange(7), "y": torch.arange(14).reshape(7, 2), "flag": True}
    slices = slices_of(values, 3)
    assert [len(one["x"]) for one in slices] == [3, 3, 1]
    assert torch.equal(torch.cat([one["y"] for one in slices]), values["y"])
    assert all(one["flag"] is True for one in slices)

"""The demo's data, network and training."""

import pytest
import torch
from safetensors.torch import load_file

from prunus.tasks import digits


@pytest.fixture(scope="module")
def data():
    return digits.load()


@pytest.fixture(autouse=True)
def _one_thread():
    with digits.one_thread():
        yield


def test_four_fifths_are_for_training(data):
    assert data.images.shape == (1437, 1, 8, 8)
    assert data.test_images.shape == (360, 1, 8, 8)
    assert (data.images.min(), data.images.max()) == (0, 1)


def test_one_seed_one_network_and_random_state_is_left_alone():
    before = torch.random.get_rng_state()
    one, same, other = digits.network(1), digits.network(1), digits.network(2)
    assert torch.equal(one.classify.weight, same.classify.weight)
    assert not torch.equal(one.classify.weight, other.classify.weight)
    assert torch.equal(before, torch.random.get_rng_state())


def test_training_teaches(data):
    model = digits.network()
    before = digits.accuracy(model, data)
    digits.train(model, data, epochs=1, rate=3e-3)
    assert digits.accuracy(model, data) > before + 0.3
    assert not model.training


def test_the_largest_difference(data):
    one, other = digits.network(), digits.network()
    assert digits.difference(one, other, data) == 0
    with torch.no_grad():
        other.classify.bias[3] += 0.5
    assert digits.difference(one, other, data) == pytest.approx(0.5, abs=1e-5)


def test_latency_is_one_number_a_model(data):
    found = digits.latency([digits.network(), digits.network(1)], data, repeats=2)
    assert len(found) == 2
    assert min(found) > 0


def test_weights_are_written(data, tmp_path):
    model = digits.network()
    digits.save_weights(model, tmp_path / "w.safetensors")
    assert load_file(tmp_path / "w.safetensors").keys() == model.state_dict().keys()


def test_the_number_of_threads_comes_back():
    before = torch.get_num_threads()
    with digits.one_thread():
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == before

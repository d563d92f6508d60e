"""What is read off a model and its cuts, and what stands behind each number."""

import numpy as np
import pytest
import torch
from torch import nn

from prunus.backends.torch.meter import TorchMeter
from prunus.core.engine.evaluation import Evaluation
from prunus.core.errors import EvaluationError
from prunus.core.study.cells import Key

from .nets import Branching, Chain, image
from .programs import Made


def batches(*sizes):
    return [(image(size), torch.randint(0, 5, (size,))) for size in sizes]


def means(output, batch):
    return output.mean(1)


def meter(made, data, metric=means, memory=1 << 20, precision=None, **how):
    return made.lab.meter(Evaluation(data, metric, **how), precision=precision, memory=memory)


def expected(made, key, batch, score=means):
    with torch.no_grad():
        return score(made.lab.build(key)(batch[0]), batch).double().numpy()


@pytest.mark.parametrize("memory", [0, 1 << 20])
def test_each_batch_is_read_for_each_cell(memory):
    made, data = Made(Chain(), image()), batches(7, 7, 2)
    one = meter(made, data, memory=memory)
    for batch in one.batches():
        found = one.read(batch, made.keys)
        assert found.failures == {}
        assert set(found.scores) == set(made.keys)
        assert np.allclose(found.baseline, means(made.model(batch[0]), batch).detach())
        for key, scores in found.scores.items():
            assert np.allclose(scores, expected(made, key, batch), rtol=1e-5, atol=1e-6)
    assert one.notes == ()
    assert one.length == 3
    assert one.per_sample


class Tied(Chain):
    """Two classes that differ by less than rounding does."""

    def __init__(self):
        super().__init__()
        with torch.no_grad():
            self.head.weight[1] = self.head.weight[0]
            self.head.bias[1] = self.head.bias[0] + 1e-7
            self.head.bias[2:] -= 100


def test_where_rounding_would_decide_the_plain_model_is_asked(monkeypatch):
    made = Made(Tied(), image())
    data = [(image(16), torch.ones(16).long())]
    one, asked = meter(made, data, "top1"), []
    plain = TorchMeter._sure

    def counted(self, metric, output, batch, model):
        return plain(self, metric, output, batch, lambda: asked.append(1) or model())

    monkeypatch.setattr(TorchMeter, "_sure", counted)
    found = one.read(data[0], made.keys)
    assert len(asked) == 1 + len(made.keys)
    with torch.no_grad():
        for key, scores in found.scores.items():
            right = made.lab.build(key)(data[0][0]).argmax(1) == data[0][1]
            assert scores.tolist() == right.double().tolist()


def test_a_cut_that_fails_in_the_rest_of_the_model_is_a_failure():
    made, data = Made(Chain(), image()), batches(4)
    key = Key("a.weight", 5)
    limit = float(made.lab.build(key)(data[0][0]).detach().abs().max())
    others = max(
        float(made.lab.build(one)(data[0][0]).detach().abs().max())
        for one in made.keys
        if one != key
    )

    def forward(net, batch):
        output = net(batch[0])
        if abs(float(output.abs().max()) - limit) < 1e-5:
            raise ValueError("such a result\nhelps nobody")
        return output

    assert abs(limit - others) > 1e-5
    found = meter(made, data, forward=forward).read(data[0], made.keys)
    assert found.failures == {key: "ValueError: such a result"}
    assert set(found.scores) == set(made.keys) - {key}


def test_a_part_that_is_called_twice_is_run_as_whole_models_and_that_is_said():
    made, data = Made(Chain(), image()), batches(4, 3)

    def forward(net, batch):
        return net(batch[0]) + net(batch[0].flip(3))

    one = meter(made, data, forward=forward)
    for batch in data:
        found = one.read(batch, made.keys)
        with torch.no_grad():
            for key, scores in found.scores.items():
                naive = forward(made.lab.build(key), batch).mean(1)
                assert np.array_equal(scores, naive.double().numpy())
    assert len(one.notes) == 1
    assert "is called more than once a batch" in one.notes[0]


def test_the_metrics_own_error_is_the_users():
    made, data = Made(Chain(), image()), batches(4)

    def broken(output, batch):
        raise KeyError("answers")

    with pytest.raises(KeyError, match="answers"):
        meter(made, data, broken).read(data[0], made.keys)


class Count:
    """How many samples, and the mean of what they were given."""

    def reset(self):
        self.sum, self.count = 0.0, 0

    def update(self, output, target):
        self.sum += float(output.mean(1).sum())
        self.count += len(target)

    def compute(self):
        return {"mean": self.sum / self.count, "count": self.count}


def test_a_metric_with_a_state_sees_all_the_data_for_each_cell():
    made, data = Made(Chain(), image()), batches(5, 2)
    one = meter(made, data, Count(), key="mean")
    assert not one.per_sample
    baseline, values, samples = one.read_all(made.keys)
    assert samples == 7
    with torch.no_grad():
        assert baseline == pytest.approx(
            float(torch.cat([made.model(x).mean(1) for x, _ in data]).mean()), rel=1e-4
        )
    for key, value in values.items():
        naive = np.concatenate([expected(made, key, batch) for batch in data]).mean()
        assert value == pytest.approx(naive, rel=1e-4)


def test_a_failure_ends_a_cell_of_a_metric_with_a_state():
    class Fails(nn.Module):
        def forward(self, x):
            raise RuntimeError("no memory")

    made, data = Made(Chain(), image()), batches(5, 2)
    built = []

    def build(key):
        built.append(key)
        return Fails()

    whole = made.lab.meter(Evaluation(data, Count(), key="count"), precision=None, memory=0)
    one = TorchMeter(made.model, whole.evaluation, whole._caller, build, None)
    baseline, values, _ = one.read_all(made.keys)
    assert baseline == 7
    assert set(values.values()) == {"RuntimeError: no memory"}
    assert len(built) == len(made.keys)


def test_data_without_a_batch_are_refused():
    one = meter(Made(Chain(), image()), [])
    with pytest.raises(
        EvaluationError, match="the data has no batch\n  fix: give batches that can"
    ):
        next(one.batches())


def test_a_digest_is_of_contents():
    one = meter(Made(Chain(), image()), [])
    x = torch.arange(6.0)

    class Thing:
        pass

    same = [
        ((x, {"y": 1, "z": "a"}), (x.clone(), {"y": 1, "z": "a"})),
        ((np.arange(5000),), (np.arange(5000),)),
        ((Thing(),), (Thing(),)),
        ((x[::2],), (x[::2].clone(),)),
        ((torch.tensor(True), x.bfloat16()), (torch.tensor(True), x.bfloat16())),
    ]
    for left, right in same:
        assert one.digest(left) == one.digest(right)
    changed = np.arange(5000)
    changed[2500] = 0
    different = [
        ((x,), (x + 1,)),
        ((x,), (x.reshape(2, 3),)),
        ((x,), (x.double(),)),
        (({"y": 1},), ({"y": 2},)),
        ((np.arange(5000),), (changed,)),
    ]
    for left, right in different:
        assert one.digest(left) != one.digest(right)


def test_the_length_is_told_where_the_data_tells():
    made = Made(Chain(), image())
    assert meter(made, batches(2, 2)).length == 2
    assert meter(made, lambda: iter(batches(2, 2))).length is None


def test_samples_in_random_order_come_as_batches():
    data = batches(5, 4)
    makes = meter(Made(Chain(), image()), data).shuffled(0, 4)
    assert [len(make()[0]) for make in makes] == [4, 4, 1]


def test_the_rest_around_a_part_runs_as_it_is():
    made = Made(Branching(Chain()), image(), within="backbone")
    data = batches(5)
    one = meter(made, data)
    found = one.read(data[0], made.keys)
    assert one.notes == ()
    for key, scores in found.scores.items():
        assert np.allclose(scores, expected(made, key, data[0]), rtol=1e-4, atol=1e-5)

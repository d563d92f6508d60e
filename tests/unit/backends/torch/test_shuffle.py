"""The data in one random order, each sample once."""

import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset, Subset, TensorDataset

from prunus.backends.torch.shuffle import shuffled
from prunus.core.engine.evaluation import Evaluation
from prunus.core.errors import EvaluationError

X = torch.arange(23.0).reshape(23, 1)
DATA = TensorDataset(X, torch.arange(23))


class Stream(IterableDataset):
    def __iter__(self):
        return iter(list(DATA))


def read(batches, seed=0, size=5):
    return [make() for make in shuffled(Evaluation(batches), seed, size)]


SOURCES = {
    "list": [(X[:20], torch.arange(20)), (X[20:], torch.arange(20, 23))],
    "function": lambda: iter([(X, torch.arange(23))]),
    "loader": DataLoader(DATA, batch_size=4),
    "shuffled loader": DataLoader(DATA, batch_size=4, shuffle=True),
    "stream": DataLoader(Stream(), batch_size=4),
    "loader of batches": DataLoader(
        [(X[:9], torch.arange(9)), (X[9:], torch.arange(9, 23))], batch_size=None
    ),
}


@pytest.mark.parametrize("name", SOURCES)
def test_each_sample_comes_once_with_its_target(name):
    found = read(SOURCES[name])
    assert [len(x) for x, _ in found] == [5, 5, 5, 5, 3]
    assert sorted(y for _, ys in found for y in ys.tolist()) == list(range(23))
    for x, y in found:
        assert x.flatten().tolist() == y.tolist()


def test_a_seed_is_an_order_and_all_sources_have_the_same():
    orders = {name: [y for _, ys in read(SOURCES[name]) for y in ys.tolist()] for name in SOURCES}
    assert len({tuple(order) for order in orders.values()}) == 1
    assert orders["list"] != list(range(23))
    again = [y for _, ys in read(SOURCES["list"], seed=1) for y in ys.tolist()]
    assert again != orders["list"]


def test_only_what_the_loader_gives_is_read():
    dropped = DataLoader(DATA, batch_size=5, drop_last=True)
    assert sorted(y for _, ys in read(dropped) for y in ys.tolist()) == list(range(20))
    part = DataLoader(Subset(DATA, [3, 4, 5]), batch_size=2)
    assert sorted(y for _, ys in read(part) for y in ys.tolist()) == [3, 4, 5]


def test_a_batch_is_only_made_when_it_is_asked_for():
    asked = []

    class Watched(TensorDataset):
        def __getitem__(self, row):
            asked.append(row)
            return super().__getitem__(row)

    makes = shuffled(Evaluation(DataLoader(Watched(X), batch_size=5)), 0, 5)
    assert asked == []
    makes[0]()
    assert len(asked) == 5


@pytest.mark.parametrize(
    "batches",
    [
        [(X, 5)],
        [(X, torch.arange(22))],
        [(X, torch.tensor(1))],
        [(X,), (X, X)],
        [([X], {"boxes": X[:2]})],
    ],
)
def test_what_has_no_rows_is_refused(batches):
    with pytest.raises(EvaluationError, match="samples cannot be picked out of these") as told:
        read(batches)
    assert "a torch DataLoader" in told.value.fix


@pytest.mark.parametrize("batches", [[], DataLoader(TensorDataset(X[:0]), batch_size=2)])
def test_no_batch_is_refused(batches):
    with pytest.raises(EvaluationError, match="the data has no batch\n  fix: give at least one"):
        read(batches)

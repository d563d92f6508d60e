"""What every backend promises, as tests: a backend joins with one class and one fixture.

    class TestMine(BackendSuite):
        @pytest.fixture
        def subject(self):
            return MySubject()

The subject's model should have at least two convolutions and a norm between them, so
that a cut reaches tensors of several kinds.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from prunus.core.backend import Backend, Laboratory, Outcome, Traced
from prunus.core.cut.cut import Cut, make_cut
from prunus.core.engine.evaluation import Evaluation
from prunus.core.engine.table import table_of
from prunus.core.errors import LoadError, UnknownNameError, VerificationError
from prunus.core.graph.channels import close
from prunus.core.graph.groups import find_groups
from prunus.core.scores.group import scores_of
from prunus.core.study.cells import Key

__all__ = ["BackendSuite", "Subject"]

TOLERANCE = 1e-6


class Subject(Protocol):
    """A backend, a small model of its framework, and how to look at that model."""

    @property
    def backend(self) -> Backend:
        """Return the backend."""
        ...

    @property
    def example(self) -> Any:
        """Return what the model is called with."""
        ...

    def build(self) -> Any:
        """Return the model, freshly built; its weights may differ from call to call."""
        ...

    def other(self) -> Any:
        """Return a model of another architecture."""
        ...

    def run(self, model: Any) -> NDArray[Any]:
        """Return the output on the example, in evaluation mode."""
        ...

    def call(self, model: Any) -> NDArray[Any]:
        """Return the output on the example, in the mode that the model is in."""
        ...

    def score(self, output: Any, batch: Any) -> Any:
        """Return one number a sample, from an output as the framework or `call` gives it."""
        ...

    def disturb(self, model: Any) -> None:
        """Change one number in one weight."""
        ...

    def state(self, model: Any) -> Any:
        """Return all that a user could see change: weights, modes, hooks, random state."""
        ...


def cut_half(subject: Subject, traced: Traced) -> Cut:
    """Return the cut that takes half of every group."""
    groups = find_groups(close(traced.graph, None, traced.pinned))
    weights = subject.backend.weights(traced)
    scores = {k: scores_of(group, "l1", weights) for k, group in enumerate(groups.groups)}
    return make_cut(groups, [0.5] * len(groups.groups), scores)


def table(subject: Subject, traced: Traced) -> Mapping[Key, Cut]:
    """Return two cuts of every group."""
    groups = find_groups(close(traced.graph, None, traced.pinned))
    return table_of(groups, (0.3, 0.6), None, subject.backend.weights(traced)).cuts


def laboratory(subject: Subject, traced: Traced, cuts: Mapping[Key, Cut]) -> Laboratory:
    """Return the models of a table, with the rules that come with prunus."""
    return subject.backend.laboratory(traced, cuts, rules=None, recalibrate=None)


def cut_wrong(cut: Cut) -> Cut:
    """Return a cut that takes other channels from one weight than from those around it."""
    removed = dict(cut.removed)
    dim = next(dim for dim, lost in removed.items() if len(lost) < cut.channels.graph.size(dim))
    stays = np.setdiff1d(np.arange(cut.channels.graph.size(dim)), removed[dim])
    removed[dim] = np.sort(np.append(removed[dim][1:], stays[-1]))
    return dataclasses.replace(cut, removed=removed)


class BackendSuite:
    """The promises of `prunus.core.backend.Backend`."""

    def test_it_knows_its_own_models(self, subject: Subject) -> None:
        """A model of the framework is its own, and anything else is not."""
        assert subject.backend.owns(subject.build())
        assert not subject.backend.owns("a text")
        assert not subject.backend.owns(None)

    def test_looking_changes_nothing(self, subject: Subject) -> None:
        """`trace` and `weights` leave the model as it was."""
        model = subject.build()
        before = subject.state(model)
        traced = subject.backend.trace(model, subject.example, None)
        read = subject.backend.weights(traced)
        for tensor in traced.graph.tensors.values():
            if tensor.is_param:
                read.value(tensor.name)
                read.gradient(tensor.name)
        assert subject.state(model) == before

    def test_weights_are_those_of_the_graph(self, subject: Subject) -> None:
        """Every stored tensor of the graph can be read, in its shape."""
        traced = subject.backend.trace(subject.build(), subject.example, None)
        read = subject.backend.weights(traced)
        stored = [tensor for tensor in traced.graph.tensors.values() if tensor.is_param]
        assert stored
        for tensor in stored:
            assert read.value(tensor.name).shape == tensor.shape

    def test_a_cut_is_smaller_and_right(self, subject: Subject) -> None:
        """The cut model runs, keeps the output's shape, and was compared with the original."""
        model = subject.build()
        before, whole = subject.state(model), subject.run(model)
        outcome = self._cut(subject, model)
        small = subject.run(outcome.model)
        assert subject.state(model) == before
        assert outcome.unverified == ""
        assert outcome.error is not None
        assert outcome.error < TOLERANCE
        assert small.shape == whole.shape
        assert not np.allclose(small, whole)
        again = subject.backend.trace(outcome.model, subject.example, None)
        assert _numel(again) < _numel(subject.backend.trace(model, subject.example, None))

    def test_a_wrong_cut_is_refused(self, subject: Subject) -> None:
        """A cut that does not compute the right thing is an error, and nothing has changed."""
        model = subject.build()
        before = subject.state(model)
        traced = subject.backend.trace(model, subject.example, None)
        wrong = cut_wrong(cut_half(subject, traced))
        for inplace in (False, True):
            try:
                subject.backend.apply(
                    traced, wrong, rules=None, verify=True, inplace=inplace, optimizer=None
                )
            except VerificationError as error:
                assert "stops computing what the original does" in str(error)
            else:
                raise AssertionError("a wrong cut was returned")
            assert subject.state(model) == before

    def test_in_place_is_the_same_cut(self, subject: Subject) -> None:
        """`inplace` changes the model itself, to what a copy would have become."""
        model = subject.build()
        expected = subject.run(self._cut(subject, model).model)
        outcome = self._cut(subject, model, inplace=True)
        assert outcome.model is model
        assert np.array_equal(subject.run(model), expected)

    def test_a_fingerprint_changes_with_a_weight_and_not_otherwise(self, subject: Subject) -> None:
        """Two looks at a model give one fingerprint; a model with other weights has another."""
        model = subject.build()
        before = subject.state(model)
        trace = subject.backend.trace
        first = subject.backend.fingerprint(trace(model, subject.example, None))
        assert subject.backend.fingerprint(trace(model, subject.example, None)) == first
        assert subject.state(model) == before
        subject.disturb(model)
        assert subject.backend.fingerprint(trace(model, subject.example, None)) != first

    def test_versions_are_named(self, subject: Subject) -> None:
        """Numbers depend on the framework's version, so a study keeps it."""
        versions = subject.backend.versions()
        assert versions
        assert all(isinstance(text, str) and text for text in versions.values())

    def test_a_laboratory_builds_really_cut_models(self, subject: Subject) -> None:
        """What it builds is smaller, is right, and is in evaluation mode; the model stays."""
        model = subject.build()
        before, whole = subject.state(model), subject.run(model)
        traced = subject.backend.trace(model, subject.example, None)
        cuts = table(subject, traced)
        with laboratory(subject, traced, cuts) as lab:
            assert np.array_equal(subject.call(lab.original()), whole)
            assert lab.original() is not model
            for key, cut in cuts.items():
                lab.verify(cut)
                small = lab.build(key)
                apart = subject.backend.apply(
                    traced, cut, rules=None, verify=False, inplace=False, optimizer=None
                )
                assert np.array_equal(subject.call(small), subject.run(apart.model))
                again = subject.backend.trace(small, subject.example, None)
                assert _numel(again) < _numel(traced)
        assert subject.state(model) == before

    def test_a_laboratory_finds_a_wrong_cut(self, subject: Subject) -> None:
        """`verify` raises, and the model stays."""
        model = subject.build()
        before = subject.state(model)
        traced = subject.backend.trace(model, subject.example, None)
        with laboratory(subject, traced, {}) as lab:
            try:
                lab.verify(cut_wrong(cut_half(subject, traced)))
            except VerificationError as error:
                assert "stops computing what the original does" in str(error)
            else:
                raise AssertionError("a wrong cut was believed")
        assert subject.state(model) == before

    def test_a_meter_gives_the_naive_loops_numbers(self, subject: Subject) -> None:
        """Read batch by batch, every cell scores what its really cut model scores."""
        model = subject.build()
        before = subject.state(model)
        traced = subject.backend.trace(model, subject.example, None)
        cuts = table(subject, traced)
        work = Evaluation([subject.example, subject.example], subject.score)
        with laboratory(subject, traced, cuts) as lab:
            meter = lab.meter(work, precision=None, memory=1 << 20)
            assert meter.per_sample
            assert meter.length == 2
            digests = set()
            for batch in meter.batches():
                digests.add(meter.digest(batch))
                found = meter.read(batch, list(cuts))
                assert not found.failures
                assert set(found.scores) == set(cuts)
                expected = subject.score(subject.call(lab.original()), batch)
                assert np.allclose(found.baseline, expected, rtol=1e-5, atol=1e-6)
                for key, scores in found.scores.items():
                    expected = subject.score(subject.call(lab.build(key)), batch)
                    assert np.allclose(scores, expected, rtol=1e-5, atol=1e-6)
            assert len(digests) == 1
        assert subject.state(model) == before

    def test_what_is_saved_can_be_loaded(self, subject: Subject, tmp_path: Path) -> None:
        """A freshly built model loads the file and computes the same."""
        outcome = self._cut(subject, subject.build())
        path = tmp_path / "small.safetensors"
        subject.backend.save(outcome.model, path, outcome.recipe)
        assert [one.name for one in tmp_path.iterdir()] == [path.name]
        loaded = subject.backend.load(subject.build(), path, None)
        assert np.array_equal(subject.run(loaded), subject.run(outcome.model))

    def test_a_file_of_another_model_is_refused(self, subject: Subject, tmp_path: Path) -> None:
        """Another architecture is named, and left as it was."""
        outcome = self._cut(subject, subject.build())
        path = tmp_path / "small.safetensors"
        subject.backend.save(outcome.model, path, outcome.recipe)
        other = subject.other()
        before = subject.state(other)
        try:
            subject.backend.load(other, path, None)
        except LoadError as error:
            assert "belongs to another architecture" in str(error)
        else:
            raise AssertionError("a file of another model was loaded")
        assert subject.state(other) == before

    def test_a_part_that_does_not_exist_is_named(self, subject: Subject) -> None:
        """`within` takes the name of a part."""
        try:
            subject.backend.trace(subject.build(), subject.example, "no.such.part")
        except UnknownNameError as error:
            assert "'no.such.part'" in str(error)
        else:
            raise AssertionError("a part that does not exist was traced")

    def _cut(self, subject: Subject, model: Any, *, inplace: bool = False) -> Outcome:
        traced = subject.backend.trace(model, subject.example, None)
        return subject.backend.apply(
            traced,
            cut_half(subject, traced),
            rules=None,
            verify=True,
            inplace=inplace,
            optimizer=None,
        )


def _numel(traced: Traced) -> int:
    return sum(
        int(np.prod(tensor.shape)) for tensor in traced.graph.tensors.values() if tensor.is_param
    )

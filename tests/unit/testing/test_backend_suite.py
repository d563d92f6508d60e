"""The suite can fail: each fault of a backend is found by the test that is there for it."""

import dataclasses

import numpy as np
import pytest
import torch

from prunus.backends.torch.backend import TorchBackend
from prunus.testing.backend_suite import BackendSuite

from ..backends.torch.nets import Chain, Held, fingerprint, image, output  # noqa: TID252


class Subject:
    def __init__(self, backend):
        self.backend, self.example = backend, image()
        self.build, self.other = Chain, Held

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


class OwnsAll(TorchBackend):
    def owns(self, model):
        return True


class TurnsToEvaluation(TorchBackend):
    def trace(self, model, example, within=None):
        return super().trace(model.eval(), example, within)


class ReadsTransposed(TorchBackend):
    def weights(self, traced):
        read = super().weights(traced)
        return dataclasses.replace(read, value=lambda name: np.transpose(read.value(name)))


class CutsNothing(TorchBackend):
    def apply(self, traced, cut, **given):
        return dataclasses.replace(super().apply(traced, cut, **given), model=traced.whole)


class BelievesEveryCut(TorchBackend):
    def apply(self, traced, cut, **given):
        outcome = super().apply(traced, cut, **{**given, "verify": False})
        return dataclasses.replace(outcome, error=0.0, unverified="")


class NeverInPlace(TorchBackend):
    def apply(self, traced, cut, **given):
        return super().apply(traced, cut, **{**given, "inplace": False})


class LeavesAPart(TorchBackend):
    def save(self, model, path, recipe):
        super().save(model, path, recipe)
        path.with_name("a.part").touch()


class LoadsNothing(TorchBackend):
    def load(self, model, path, rules=None):
        return model


class TracesTheWhole(TorchBackend):
    def trace(self, model, example, within=None):
        return super().trace(model, example, None)


class AlwaysTheSame(TorchBackend):
    def fingerprint(self, traced):
        return "0" * 64


class HasNoVersion(TorchBackend):
    def versions(self):
        return {}


class WithOther(TorchBackend):
    """A laboratory of which a method does something else."""

    def laboratory(self, traced, cuts, **given):
        lab = super().laboratory(traced, cuts, **given)
        self.change(lab)
        return lab


class BuildsTheWhole(WithOther):
    def change(self, lab):
        lab.build = lambda key: lab.original()


class BuildsForTraining(WithOther):
    def change(self, lab):
        build = lab.build
        lab.build = lambda key: build(key).train()


class BelievesInTheLaboratory(WithOther):
    def change(self, lab):
        lab.verify = lambda cut: None


class ReadsTheWhole(WithOther):
    def change(self, lab):
        def meter(work, **given):
            found = type(lab).meter(lab, work, **given)
            read = found.read

            def same(batch, keys):
                readings = read(batch, keys)
                scores = dict.fromkeys(keys, readings.baseline)
                return dataclasses.replace(readings, scores=scores)

            found.read = same
            return found

        lab.meter = meter


FAULTS = {
    AlwaysTheSame: "test_a_fingerprint_changes_with_a_weight_and_not_otherwise",
    HasNoVersion: "test_versions_are_named",
    BuildsTheWhole: "test_a_laboratory_builds_really_cut_models",
    BuildsForTraining: "test_a_laboratory_builds_really_cut_models",
    BelievesInTheLaboratory: "test_a_laboratory_finds_a_wrong_cut",
    ReadsTheWhole: "test_a_meter_gives_the_naive_loops_numbers",
    OwnsAll: "test_it_knows_its_own_models",
    TurnsToEvaluation: "test_looking_changes_nothing",
    ReadsTransposed: "test_weights_are_those_of_the_graph",
    CutsNothing: "test_a_cut_is_smaller_and_right",
    BelievesEveryCut: "test_a_wrong_cut_is_refused",
    NeverInPlace: "test_in_place_is_the_same_cut",
    LeavesAPart: "test_what_is_saved_can_be_loaded",
    LoadsNothing: "test_a_file_of_another_model_is_refused",
    TracesTheWhole: "test_a_part_that_does_not_exist_is_named",
}


def run(backend, name, folder):
    torch.manual_seed(0)
    torch.set_num_threads(1)
    more = (folder,) if "file" in name or "saved" in name else ()
    getattr(BackendSuite(), name)(Subject(backend), *more)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_fault_is_found(fault, tmp_path):
    run(TorchBackend(), FAULTS[fault], tmp_path)
    with pytest.raises(AssertionError):  # noqa: PT011  (an assertion has no text)
        run(fault(), FAULTS[fault], tmp_path)


def test_every_test_of_the_suite_has_a_fault():
    assert {name for name in vars(BackendSuite) if name.startswith("test_")} == set(FAULTS.values())

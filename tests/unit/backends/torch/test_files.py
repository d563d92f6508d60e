"""Save and load: one file, no pickle, the same model again, or a refusal with the reason."""

import copy
import json
import os
import signal
import subprocess
import sys
import time
from typing import NamedTuple

import pytest
import safetensors.torch
import torch
from torch import nn

import prunus
from prunus.core.errors import LoadError, PrunusError

from .nets import Branching, Chain, Fixed, Held, Within, image, learn, output
from .test_prune import Fancy, Shared, Tied


def same(a, b):
    stored = ({**dict(m.named_parameters()), **dict(m.named_buffers())} for m in (a, b))
    left, right = stored
    assert list(left) == list(right)
    return all(torch.equal(left[key], right[key]) for key in left)


CASES = {
    "module": (Chain, image(), None),
    "numbers in modules": (Held, image(2, 4), None),
    "traced": (Fixed, image(2, 4), None),
    "part": (lambda: Branching(Chain()), image(), "backbone"),
    "traced part": (lambda: Within(Fixed()), image(2, 4), "outer.inner"),
    "tied": (Tied, torch.randn(2, 6), None),
    "shared": (Shared, torch.randn(2, 6), None),
    "buffers and norms": (Fancy, image(), None),
    "part with numbers": (lambda: Within(Held()), image(2, 4), "outer.inner"),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_loaded_is_what_was_saved(name, tmp_path):
    build, x, within = CASES[name]
    torch.manual_seed(1)
    model = build()
    pruned = prunus.prune(model, x, 0.5, within=within)
    learn(pruned.model, x, steps=2)
    prunus.save(pruned, tmp_path / "small.safetensors")
    torch.manual_seed(1)  # buffers that are not stored are built, not loaded
    fresh = build()
    with torch.no_grad():
        for value in fresh.parameters():
            value.add_(1)
    again = prunus.load(fresh, tmp_path / "small.safetensors")
    assert (again is fresh) is (name != "traced")
    assert same(again, pruned.model)
    assert torch.equal(output(again, x), output(pruned.model, x))
    assert type(again) is type(pruned.model) or name == "traced"
    assert learn(again, x, steps=2)[-1] >= 0
    assert os.listdir(tmp_path) == ["small.safetensors"]


def test_layers_show_their_new_sizes(tmp_path):
    prunus.save(prunus.prune(Chain(), image(), 0.5), tmp_path / "small")
    again = prunus.load(Chain(), tmp_path / "small")
    assert (again.a.out_channels, again.norm.num_features, again.head.in_features) == (4, 4, 6)


def test_ties_hold_after_loading(tmp_path):
    prunus.save(prunus.prune(Tied(), torch.randn(2, 6), 0.5), tmp_path / "small")
    again = prunus.load(Tied(), tmp_path / "small")
    assert again.a.weight is again.b.weight
    assert len(safetensors.torch.load_file(tmp_path / "small")) == 5


def test_two_views_of_one_weight_are_written(tmp_path):
    model = Tied()
    model.b.weight = nn.Parameter(model.a.weight.data)  # one memory, two parameters
    pruned = prunus.prune(model, torch.randn(2, 6), 0.5, inplace=True)
    pruned.model.b.weight.data = pruned.model.a.weight.data
    prunus.save(pruned, tmp_path / "small")
    fresh = Tied()
    fresh.b.weight = nn.Parameter(fresh.a.weight.detach().clone())
    assert same(prunus.load(fresh, tmp_path / "small"), pruned.model)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("build", [Chain, Fixed])
def test_every_precision(build, dtype, tmp_path):
    x = image(2, 4).to(dtype)
    pruned = prunus.prune(build().to(dtype), x, 0.5)
    prunus.save(pruned, tmp_path / "small")
    again = prunus.load(build().to(dtype), tmp_path / "small")
    assert {value.dtype for value in again.parameters()} == {dtype}
    assert same(again, pruned.model)
    assert prunus.load(build(), tmp_path / "small").conv if build is Fixed else True


@pytest.mark.parametrize("wrap", [nn.utils.weight_norm, nn.utils.spectral_norm])
@pytest.mark.filterwarnings("ignore:.*weight_norm.*:FutureWarning")
def test_the_old_hooks(wrap, tmp_path):
    def build():
        model = Chain()
        model.a, model.b = wrap(model.a), wrap(model.b)
        return model

    pruned = prunus.prune(build(), image(), 0.5)
    prunus.save(pruned, tmp_path / "small")
    again = prunus.load(build(), tmp_path / "small")
    assert again.b.in_channels == 4
    x = image()
    assert torch.equal(output(again, x), output(pruned.model, x))


def test_a_cut_with_rules_of_ones_own_loads_with_them(tmp_path):
    rules = prunus.default_rules()
    mine = {**rules, "my_relu": rules["elementwise"]}
    lacking = {key: rule for key, rule in rules.items() if key != "batch_norm"}
    pruned = prunus.prune(Fixed(), image(2, 4), 0.5, rules=mine)
    prunus.save(pruned, tmp_path / "small")
    assert same(prunus.load(Fixed(), tmp_path / "small", rules=mine), pruned.model)
    with pytest.raises(LoadError, match="does not fit what this model computes") as told:
        prunus.load(Fixed(), tmp_path / "small", rules=lacking)
    assert "pass load the rules=" in told.value.fix


# What is refused.


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "small.safetensors"
    prunus.save(prunus.prune(Chain(), image(), 0.5), path)
    return path


class Wider(Chain):
    def __init__(self):
        super().__init__()
        self.b = nn.Conv2d(8, 14, 3, padding=1)
        self.head = nn.Linear(14, 5)


class Renamed(Chain):
    def __init__(self):
        super().__init__()
        self.first = self.a
        del self.a


class More(Chain):
    def __init__(self):
        super().__init__()
        self.extra = nn.Linear(2, 2)


@pytest.mark.parametrize(
    ("build", "difference"),
    [
        (Wider, r"'b\.weight' was \(12, 8, 3, 3\) in the original, and is \(14, 8, 3, 3\) here"),
        (Renamed, r"the file is of a model with 'a\.weight', which this model lacks"),
        (More, r"this model has 'extra\.weight', which the file's original lacks"),
    ],
)
def test_another_architecture_is_refused_with_the_first_difference(file, build, difference):
    model = build()
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(LoadError, match=f"belongs to another architecture: {difference}"):
        prunus.load(model, file)
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())


def test_a_model_that_is_cut_already_is_refused(file):
    cut = prunus.prune(Chain(), image(), 0.5).model
    with pytest.raises(LoadError, match=r"'a\.weight' was \(8, 3, 3, 3\) in the original") as told:
        prunus.load(cut, file)
    assert "exactly as it was before pruning" in told.value.fix


@pytest.mark.parametrize("length", [0, 5, 100, -1])
def test_a_truncated_file_is_refused(file, length):
    file.write_bytes(file.read_bytes()[:length])
    with pytest.raises(LoadError, match="cannot be read as a safetensors file"):
        prunus.load(Chain(), file)


def test_a_foreign_file_is_refused(tmp_path):
    (tmp_path / "text").write_text("weights, honestly")
    with pytest.raises(LoadError, match="cannot be read as a safetensors file"):
        prunus.load(Chain(), tmp_path / "text")
    safetensors.torch.save_file(Chain().state_dict(), tmp_path / "plain")
    with pytest.raises(LoadError, match="was not written by prunus.save") as told:  # noqa: RUF043
        prunus.load(Chain(), tmp_path / "plain")
    assert "load_state_dict" in told.value.fix


def test_a_missing_file_and_a_folder_are_refused(tmp_path):
    with pytest.raises(LoadError, match="cannot be read as a safetensors file: No such file"):
        prunus.load(Chain(), tmp_path / "nowhere")
    with pytest.raises(LoadError, match="cannot be read as a safetensors file"):
        prunus.load(Chain(), tmp_path)


def test_a_folder_that_cannot_be_written_to_is_told(tmp_path):
    pruned = prunus.prune(Chain(), image(), 0.5)
    (tmp_path / "no-folder").write_text("")
    for path in (tmp_path / "absent" / "small", tmp_path / "no-folder" / "small", tmp_path):
        with pytest.raises(LoadError, match="cannot write ") as told:
            prunus.save(pruned, path)
        assert "choose a folder" in told.value.fix
    assert os.listdir(tmp_path) == ["no-folder"]


def test_only_a_result_of_prune_can_be_saved(tmp_path):
    with pytest.raises(PrunusError, match="save takes what prune returned, and got a Chain"):
        prunus.save(Chain(), tmp_path / "small")


def test_a_model_that_was_rebuilt_since_the_cut_is_not_saved(tmp_path):
    pruned = prunus.prune(Chain(), image(), 0.5)
    pruned.model.head = nn.Linear(6, 9)
    with pytest.raises(LoadError, match=r"'head\.weight', now \(9, 6\), is not what the cut left"):
        prunus.save(pruned, tmp_path / "small")
    pruned.model.new = nn.Linear(2, 2)
    with pytest.raises(LoadError, match=r"'new\.weight', now \(2, 2\), is not what the cut left"):
        prunus.save(pruned, tmp_path / "small")


def test_a_traced_module_needs_an_example_that_can_be_written(tmp_path):
    class Pair(NamedTuple):
        first: torch.Tensor
        second: torch.Tensor

    class Summed(Fixed):
        def forward(self, pair):
            return super().forward(pair.first + pair.second)

    pruned = prunus.prune(Summed(), (Pair(image(2, 4), image(2, 4)),), 0.5)
    assert pruned.how == "traced"
    with pytest.raises(LoadError, match="its example holds more than tensors"):
        prunus.save(pruned, tmp_path / "small")


def test_examples_of_every_plain_kind_come_back(tmp_path):
    class Nested(Fixed):
        def forward(self, pair, options, scale=1.0):
            first, (second,) = pair
            return super().forward((first + second) * options["gain"][0] * scale)

    x = image(2, 4)
    example = {"pair": (x, [x]), "options": {"gain": [2.0, None, "text", True]}, "scale": 0.5}
    pruned = prunus.prune(Nested(), example, 0.5)
    assert pruned.how == "traced"
    prunus.save(pruned, tmp_path / "small")
    again = prunus.load(Nested(), tmp_path / "small")
    assert torch.equal(output(again, **example), output(pruned.model, **example))


KILLED = """
import sys, torch, prunus, safetensors.torch
from torch import nn
model = nn.Sequential(nn.Conv2d(3, 8, 1), nn.ReLU(), nn.Conv2d(8, 4, 1))
pruned = prunus.prune(model, torch.randn(1, 3, 4, 4), 0.5)
whole = safetensors.torch.save_file
def slow(tensors, path, metadata):
    whole(tensors, path, metadata)
    data = open(path, "rb").read()
    open(path, "wb").write(data[: len(data) // 2])
    print("half", flush=True)
    sys.stdin.read()
safetensors.torch.save_file = slow
prunus.save(pruned, sys.argv[1])
"""


def test_a_kill_in_the_middle_leaves_the_old_file(file):
    before = file.read_bytes()
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(file)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert process.stdout.readline() == b"half\n"
        process.send_signal(signal.SIGKILL)
        assert process.wait(10) == -signal.SIGKILL
    finally:
        process.kill()
        process.communicate()
    assert file.read_bytes() == before
    prunus.load(Chain(), file)


def test_an_interrupt_in_the_middle_leaves_the_old_file_and_nothing_else(file, monkeypatch):
    before = file.read_bytes()

    def stop(tensors, path, metadata):
        path.write_bytes(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(safetensors.torch, "save_file", stop)
    with pytest.raises(KeyboardInterrupt):
        prunus.save(prunus.prune(Chain(), image(), 0.5), file)
    assert file.read_bytes() == before
    assert os.listdir(file.parent) == [file.name]


# A header that somebody wrote by hand.


def rewritten(path, **entries):
    with safetensors.safe_open(path, "pt") as opened:
        header = opened.metadata()
        tensors = {key: opened.get_tensor(key) for key in opened.keys()}  # noqa: SIM118
    for key, value in entries.items():
        if value is None:
            header.pop(key)
        else:
            header[key] = value if isinstance(value, str) else json.dumps(value)
    safetensors.torch.save_file(tensors, path, header)


def test_a_file_of_a_newer_format_is_refused(file):
    rewritten(file, prunus="2")
    with pytest.raises(LoadError, match="is of format '2', and this version reads '1'") as told:
        prunus.load(Chain(), file)
    assert "install the version" in told.value.fix


ATTRIBUTES = {
    "dunder": {"a": {"__class__": 3}},
    "dunder of the model": {"": {"__dict__": {"training": 1}}},
    "no such module": {"a.b.c": {"width": 3}},
    "no such attribute": {"a": {"weird": 3}},
    "a method": {"": {"forward": 3}},
    "a property of the class": {"a": {"__doc__": 3}},
    "a tensor": {"a": {"weight": 3}},
    "a table inside": {"a": {"_parameters": {}}},
    "a truth": {"a": {"training": 1}},
    "a text": {"a": {"padding_mode": 3}},
    "not a number": {"a": {"out_channels": "import os"}},
    "not whole": {"a": {"out_channels": 1.5}},
    "true": {"a": {"out_channels": True}},
    "null": {"a": {"out_channels": None}},
    "a list for a number": {"a": {"out_channels": [1]}},
    "a number for a list": {"a": {"kernel_size": 3}},
    "a longer list": {"a": {"kernel_size": [3, 3, 3]}},
    "a list of text": {"a": {"kernel_size": ["3", "x"]}},
    "a list for a module": {"a": [1]},
    "a list": [],
    "a number": 3,
    "broken": "{",
    "deep": "[" * 100_000,
}


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_a_header_sets_nothing_but_whole_numbers_that_are_there(file, name):
    rewritten(file, attributes=ATTRIBUTES[name])
    model = Chain()
    before = [dict(vars(module)) for module in model.modules()]
    with pytest.raises(LoadError, match="is damaged, or was not written by prunus.save: "):  # noqa: RUF043
        prunus.load(model, file)
    assert [dict(vars(module)) for module in model.modules()] == before
    assert model.a.weight.shape == (8, 3, 3, 3)


def test_an_attribute_before_a_wrong_one_is_not_set_either(file):
    rewritten(file, attributes={"a": {"out_channels": 5, "wrong": 1}})
    model = Chain()
    with pytest.raises(LoadError, match=r"a\.wrong cannot become 1"):
        prunus.load(model, file)
    assert model.a.out_channels == 8


REMOVED = {
    "no such axis": {"a.weight": {"9": [0]}},
    "a negative axis": {"a.weight": {"-1": [0]}},
    "an absurd axis": {"a.weight": {"1e9": [0]}},
    "a huge axis": {"a.weight": {str(10**30): [0]}},
    "an index outside": {"a.weight": {"0": [8]}},
    "a negative index": {"a.weight": {"0": [-1]}},
    "a huge index": {"a.weight": {"0": [10**30]}},
    "twice the same": {"a.weight": {"0": [1, 1]}},
    "all": {"a.weight": {"0": list(range(8))}},
    "no list": {"a.weight": {"0": 3}},
    "text": {"a.weight": {"0": "012"}},
    "not a table": {"a.weight": [1]},
    "another weight": {"other": {"0": [1]}},
    "nothing": {},
    "a list": [1],
}


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("name", REMOVED)
def test_absurd_cuts_are_refused(tmp_path, name, traced):
    path, build = tmp_path / "small", Fixed if traced else Chain
    prunus.save(prunus.prune(build(), image(2, 4), 0.5), path)
    removed = REMOVED[name]
    if traced and isinstance(removed, dict):
        removed = {key.replace("a.w", "conv.w"): value for key, value in removed.items()}
    rewritten(path, removed=removed)
    with pytest.raises(LoadError, match="is damaged, or was not written by prunus.save: "):  # noqa: RUF043
        prunus.load(build(), path)


OTHERS = {
    "how": ["", "other", None],
    "original": ["", "[]", {"a.weight": 3}, {"a.weight": [1.5]}, {"a.weight": [-1]}, None],
    "within": ["nowhere", "conv", "__class__"],
    "example": [
        "", "[]", "{}", "[[], {}]", [[1], 3], {"tuple": []}, None,
        [{"tuple": [{"tensor": [2, 3, 4, 4], "dtype": "torch.nope"}]}, {"dict": {}}],
        [{"tuple": [{"tensor": [2, 3, 4, 4], "dtype": "os.system"}]}, {"dict": {}}],
        [{"tuple": [{"tensor": [10**6, 10**6], "dtype": "torch.float32"}]}, {"dict": {}}],
        [{"tuple": [{"tensor": [-1], "dtype": "torch.float32"}]}, {"dict": {}}],
        [{"tuple": [{"tensor": "x", "dtype": "torch.float32"}]}, {"dict": {}}],
        [{"tuple": [{"tensor": [2, 4, 4, 4], "dtype": "torch.float32"}]}, {"dict": {}}],
        [{"tuple": [{"tensor": [0, 3, 4, 4], "dtype": "torch.complex64"}]}, {"dict": {}}],
        [{"tuple": [{"unknown": 1}]}, {"dict": {}}],
        [{"tuple": []}, {"dict": {"y": 3}}],
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("key", "value"), [(key, value) for key, values in OTHERS.items() for value in values]
)
def test_every_other_entry_is_checked_too(tmp_path, key, value):
    path = tmp_path / "small"
    prunus.save(prunus.prune(Fixed(), image(2, 4), 0.5), path)
    rewritten(path, **{key: value})
    model = Fixed()
    with pytest.raises(LoadError, match=r"is damaged|another architecture|does not fit"):
        prunus.load(model, path)
    assert model.conv.weight.shape == (8, 3, 3, 3)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda t: t.pop("a.weight"), r"it lacks 'a\.weight'"),
        (lambda t: t.update(other=torch.ones(1)), "it holds 'other', which its own original lacks"),
        (lambda t: t.update({"a.bias": torch.ones(5)}), r"'a\.bias' is \(5,\), and the cut leaves"),
        (lambda t: t.update({"a.bias": torch.ones(4).int()}), r"'a\.bias' is of type torch\.int32"),
    ],
)
def test_tensors_that_do_not_fit_the_header_are_refused_before_anything_changes(
    file, change, problem
):
    with safetensors.safe_open(file, "pt") as opened:
        header = opened.metadata()
        tensors = {key: opened.get_tensor(key) for key in opened.keys()}  # noqa: SIM118
    change(tensors)
    safetensors.torch.save_file(tensors, file, header)
    model = Chain()
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(LoadError, match=problem):
        prunus.load(model, file)
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())


def test_saving_does_not_take_long(tmp_path):
    model = nn.Sequential(*[nn.Conv2d(4, 4, 1) for _ in range(150)])
    pruned = prunus.prune(model, torch.randn(1, 4, 2, 2), 0.5, verify=False)
    start = time.perf_counter()
    prunus.save(pruned, tmp_path / "small")
    assert time.perf_counter() - start < 1

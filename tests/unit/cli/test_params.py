"""`prunus params`: every line that it can print, and every error that it can end in."""

import json

import pytest
from typer.testing import CliRunner

from prunus.cli.main import app

NETS = '''
import torch
from torch import nn


def small():
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 6, 1), nn.Conv2d(6, 5, 1))


ready = small()


class Odd(nn.Module):
    """Its names look like markup; one filter is looked at by number."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleDict({"[bold]a": nn.Conv2d(3, 4, 1), "b": nn.Conv2d(4, 2, 1)})

    def forward(self, x):
        return self.layers["b"](self.layers["[bold]a"](x))


class Holder:
    build = Odd


class Many(nn.Module):
    """Thirteen layers that stay, each for a reason of its own."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Picks() for _ in range(13))

    def forward(self, x):
        return sum(layer(x) for layer in self.layers)


class Picks(nn.Conv2d):
    def __init__(self):
        super().__init__(3, 4, 1)

    def forward(self, x):
        return super().forward(x)[:, 1]


class Sorted(nn.Module):
    """Has an operator that prunus has no rule for."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 4, 1), nn.Conv2d(4, 2, 1)

    def forward(self, x):
        return self.b(torch.special.i0(self.a(x)).histc(4).view(1, 4, 1, 1))


class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 4, 1), nn.Conv2d(4, 2, 1)

    def forward(self, x, y):
        return self.b(self.a(x) + self.a(y))


class Half(Odd):
    def __init__(self):
        super().__init__()
        self.half()


class Nothing(nn.Module):
    def forward(self, x):
        return x + 1


class Branching(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 4, 1), nn.Conv2d(4, 2, 1))

    def forward(self, x):
        y = self.body(x)
        return y if y.sum() > 0 else -y


def needs(width):
    return width


def fails():
    raise KeyError("no [weights]")


def number():
    return 3


def none():
    return None


def silent():
    raise ValueError
'''


@pytest.fixture
def nets(tmp_path, monkeypatch):
    (tmp_path / "nets.py").write_text(NETS)
    (tmp_path / "broken.py").write_text("import nets\nnets.small().to('nowhere')\n")
    (tmp_path / "lacking.py").write_text("import surely_not_installed\n")
    (tmp_path / "empty.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("nets", "broken", "lacking", "empty"):
        monkeypatch.delitem(__import__("sys").modules, name, raising=False)
    return run


def run(*arguments):
    return CliRunner().invoke(app, ["params", *arguments])


def error_of(*arguments):
    result = run(*arguments)
    assert result.exit_code == 1, result.output
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    problem, fix = result.stderr.removeprefix("error: ").rstrip().split("\n  fix: ")
    return problem, fix


def test_the_table(nets):
    result = nets("nets:small", "--shape", "1,3,6,6")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert " ".join(lines[0].split()) == "group channels weights MACs of all parameters of all"
    # 8 channels of 27 weights and a bias make them, 6 weights use each: 16 places of the picture.
    assert lines[1].split() == ["0.weight", "8", "1", "4.22", "k", "89.8", "%", "272", "86.9", "%"]
    assert lines[2].split() == ["2.weight", "6", "1", "1.25", "k", "26.5", "%", "84", "26.8", "%"]
    assert lines[4] == "2 groups of 14 channels; the whole model: 4.70 k MACs, 313 parameters"
    assert lines[5].startswith("What lies between two groups counts for both")
    assert lines[7] == "What stays, and why:"
    assert lines[8] == "  1 weight, because it is an output of the network: 3.weight"
    assert lines[10].startswith("next: prunus.prune(model, example, 0.5) in Python")
    assert "{'0.weight': 0.5}" in lines[10]


def test_json(nets):
    found = json.loads(nets("nets:small", "--shape", "1,3,6,6", "--json").stdout)
    assert found == {
        "macs": 4704,
        "numel": 313,
        "groups": [
            {"name": "0.weight", "channels": 8, "params": ["0.weight"], "macs": 4224, "numel": 272},
            {"name": "2.weight", "channels": 6, "params": ["2.weight"], "macs": 1248, "numel": 84},
        ],
        "frozen": [
            {
                "name": "3.weight",
                "because": "it is an output of the network",
                "channels": 5,
                "of": 5,
            }
        ],
        "unknown": [],
    }


@pytest.mark.parametrize("spec", ["nets:ready", "nets:Holder.build", "nets:Half"])
def test_a_ready_model_a_dotted_name_and_half_precision_will_do(nets, spec):
    assert nets(spec, "--shape", "1,3,6,6").exit_code == 0


def test_names_that_look_like_markup_are_shown_as_they_stand(nets):
    result = nets("nets:Odd", "--shape", "1,3,6,6")
    assert "\nlayers.[bold]a.weight" in result.stdout


def test_within(nets):
    result = nets("nets:Branching", "--shape", "1,3,6,6", "--within", "body")
    assert "\nbody.0.weight" in result.stdout


def test_one_shape_an_input(nets):
    result = nets("nets:Two", "--shape", "1,3,6,6", "--shape", "1,3,1,1")
    assert result.exit_code == 0, result.output
    assert "\na.weight" in result.stdout


def test_many_reasons_are_folded_and_frozen_lists_all(nets):
    folded = nets("nets:Many", "--shape", "1,3,6,6").stdout
    assert "  and 1 more reason: --frozen lists every weight\n" in folded
    assert (
        "  1 weight, because select in 'layers.0' picks one channel by number: layers.0.weight"
        in folded
    )
    assert "0 groups of 0 channels; the whole model: 5.62 k MACs, 208 parameters\n" in folded
    assert "next: nothing here can be cut; the reasons above say what stands in the way" in folded
    whole = nets("nets:Many", "--shape", "1,3,6,6", "--frozen").stdout
    assert all(f"  layers.{k}.weight: " in whole for k in range(13))


def test_an_operator_without_a_rule_is_named(nets):
    result = nets("nets:Sorted", "--shape", "1,3,6,6")
    assert (
        "Without a rule: aten.histc.default, aten.special_i0.default; what they touch stays"
        in result.stdout
    )


def test_nothing_is_frozen(nets):
    result = nets("nets:Nothing", "--shape", "1,3", "--frozen")
    assert "Nothing stays whole.\n" in result.stdout
    assert "What stays" not in nets("nets:Nothing", "--shape", "1,3").stdout


@pytest.mark.parametrize("spec", ["nets", "nets:", ":small"])
def test_no_colon(nets, spec):
    problem, fix = error_of(spec, "--shape", "1,3,6,6")
    assert problem == f"{spec!r} does not say which model: it must read MODULE:FACTORY"
    assert "torchvision.models:resnet18" in fix


@pytest.mark.parametrize(("module", "missing"), [("nts", "nts"), ("nts.models", "nts")])
def test_no_such_module(nets, module, missing):
    problem, fix = error_of(f"{module}:small", "--shape", "1,3,6,6")
    assert problem == f"there is no module {missing!r}"
    assert fix == "run prunus from the folder that holds it, or install the package it is in"


def test_a_module_that_lacks_a_package(nets):
    problem, fix = error_of("lacking:small", "--shape", "1,3,6,6")
    assert problem.startswith(
        "module 'lacking' fails while it is imported: ModuleNotFoundError: No module named "
    )
    assert fix == 'see the whole traceback with: python -c "import lacking"'


def test_a_module_that_raises(nets):
    problem, _ = error_of("broken:small", "--shape", "1,3,6,6")
    assert problem.startswith("module 'broken' fails while it is imported: RuntimeError: ")


def test_a_name_that_is_not_there(nets):
    problem, fix = error_of("nets:smal", "--shape", "1,3,6,6")
    assert problem == "module 'nets' has no 'smal'"
    assert fix.startswith("the nearest names are 'small'")


def test_a_module_without_names(nets):
    _, fix = error_of("empty:net", "--shape", "1,3,6,6")
    assert fix == "define it there: empty has no public function or class"


def test_a_factory_that_raises(nets):
    problem, fix = error_of("nets:fails", "--shape", "1,3,6,6")
    assert problem == "'nets:fails' fails when called without arguments: KeyError: 'no [weights]'"
    assert 'python -c "import nets; nets.fails()"' in fix


def test_a_factory_that_raises_without_a_word(nets):
    problem, _ = error_of("nets:silent", "--shape", "1,3,6,6")
    assert problem == "'nets:silent' fails when called without arguments: ValueError"


def test_a_factory_that_needs_arguments(nets):
    problem, fix = error_of("nets:needs", "--shape", "1,3,6,6")
    assert "missing 1 required positional argument: 'width'" in problem
    assert "where it needs arguments, write a function that passes them" in fix


@pytest.mark.parametrize(
    ("name", "what"), [("number", "an object of class int"), ("none", "nothing (None)")]
)
def test_a_factory_that_gives_no_model(nets, name, what):
    problem, fix = error_of(f"nets:{name}", "--shape", "1,3,6,6")
    assert problem == f"'nets:{name}' gives {what}, which is no model"
    assert fix == "name a function or class that gives a torch.nn.Module"


@pytest.mark.parametrize("name", ["number.__code__", "__dict__"])
def test_a_name_that_is_no_factory(nets, name):
    problem, _ = error_of(f"nets:{name}", "--shape", "1,3,6,6")
    assert "neither a model nor a function that gives one" in problem


@pytest.mark.parametrize("shape", ["", "1,3,x", "1,3,0,6", "-1", "1.5", "1x3x6x6"])
def test_no_shape(nets, shape):
    problem, fix = error_of("nets:small", f"--shape={shape}")
    assert problem == f"{shape!r} is no shape of an input"
    assert fix.endswith("--shape 1,3,224,224")


def test_a_shape_that_the_model_does_not_accept(nets):
    problem, _ = error_of("nets:small", "--shape", "1,4,6,6")
    assert problem.startswith("the model does not run on this example: RuntimeError: ")


def test_a_model_that_cannot_be_traced(nets):
    problem, fix = error_of("nets:Branching", "--shape", "1,3,6,6")
    assert problem.startswith("the model runs, but cannot be traced: ")
    assert "in forward" in problem
    assert "within=" in fix
    assert "\n" not in fix


def test_a_sub_module_that_is_not_there(nets):
    problem, fix = error_of("nets:Branching", "--shape", "1,3,6,6", "--within", "bod")
    assert problem == "the model has no sub-module 'bod'"
    assert "'body'" in fix


def test_no_shape_at_all_is_a_usage_error(nets):
    result = nets("nets:small")
    assert result.exit_code == 2
    assert "--shape" in result.stderr

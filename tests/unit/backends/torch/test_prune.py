"""What comes back is the user's own model: all that worked on the original works on it."""

import copy
import io

import numpy as np
import onnxruntime
import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations

import prunus
from prunus.core.errors import NothingToCutError, PrunusError, VerificationError
from prunus.core.graph.facts import Couple
from prunus.core.graph.ir import Dim

from .nets import Chain, Fixed, Held, Helped, fingerprint, image, learn, output


def sliced(tensor, axes):
    for axis, lost in axes.items():
        stay = [k for k in range(tensor.shape[axis]) if k not in lost]
        tensor = tensor.index_select(axis, torch.tensor(stay))
    return tensor


def test_class_and_tensors_are_the_originals_without_what_went():
    model = Chain()
    pruned = prunus.prune(model, image(), 0.5)
    assert type(pruned.model) is Chain
    assert pruned.how == "module"
    assert pruned.error < 1e-9
    assert pruned.unverified == ""
    small = pruned.model.state_dict()
    assert list(small) == list(model.state_dict())
    for name, value in model.state_dict().items():
        assert torch.equal(small[name], sliced(value, pruned.cut.get(name, {}))), name
    assert (pruned.model.a.out_channels, pruned.model.b.in_channels) == (4, 4)
    assert (pruned.model.norm.num_features, pruned.model.head.in_features) == (4, 6)


@pytest.mark.parametrize("build", [Chain, Fixed, Held])
def test_nothing_of_the_original_changes(build):
    x = image(size=4)
    model = build().train()
    model(x).sum().backward()
    before = fingerprint(model)
    prunus.trace(model, x)
    assert fingerprint(model) == before
    prunus.prune(model, x, 0.5)
    assert fingerprint(model) == before
    with pytest.raises(NothingToCutError, match="no channel goes"):
        prunus.prune(model, x, 0.001)
    assert fingerprint(model) == before


def test_nothing_of_the_original_changes_where_the_cut_fails():
    model, x = Chain(), image()
    before = fingerprint(model)
    with pytest.raises(VerificationError, match=r"group 'a\.weight'"):
        prunus.prune(
            model, x, 0.5, rules={**prunus.default_rules(), "elementwise": _couples_nothing}
        )
    assert fingerprint(model) == before


def _couples_nothing(node, graph):
    """A wrong rule: each channel that goes in comes out one place further."""

    x, y = node.inputs[0], node.outputs[0]
    for axis, length in enumerate(graph.shape(x)):
        turned = np.roll(np.arange(length), 1) if axis == 1 and length == 8 else None
        yield Couple(Dim(x, axis), Dim(y, axis), turned)


@pytest.mark.parametrize("build", [Chain, Fixed])
def test_it_learns(build):
    x = image(4, 4)
    pruned = prunus.prune(build(), x, 0.5).model
    losses = learn(pruned, x)
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("build", [Chain, Fixed])
def test_it_can_be_copied_and_its_state_taken(build):
    x = image(3, 4)
    pruned = prunus.prune(build(), x, 0.5).model
    again = copy.deepcopy(pruned)
    with torch.no_grad():
        for value in again.parameters():
            value.zero_()
    again.load_state_dict(pruned.state_dict())
    assert torch.equal(output(again, x), output(pruned, x))
    assert not {id(t) for t in again.parameters()} & {id(t) for t in pruned.parameters()}


@pytest.mark.parametrize("build", [Chain, Fixed])
@pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")
def test_it_can_be_pickled(build):
    x = image(3, 4)
    pruned = prunus.prune(build(), x, 0.5).model
    file = io.BytesIO()
    torch.save(pruned, file)
    file.seek(0)
    again = torch.load(file, weights_only=False)
    assert torch.equal(output(again, x), output(pruned, x))


@pytest.mark.parametrize("build", [Chain, Fixed])
def test_it_can_be_compiled(build):
    x = image(3, 4)
    pruned = prunus.prune(build(), x, 0.5).model.eval()
    compiled = torch.compile(pruned, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(output(compiled, x), output(pruned, x))


@pytest.mark.parametrize("build", [Chain, Fixed])
@pytest.mark.filterwarnings("ignore")
def test_it_can_be_exported_to_onnx(build, tmp_path):
    x = image(3, 4)
    pruned = prunus.prune(build(), x, 0.5).model.eval()
    torch.onnx.export(pruned, (x,), tmp_path / "small.onnx", dynamo=True, verbose=False)
    session = onnxruntime.InferenceSession(tmp_path / "small.onnx")
    (name,) = [one.name for one in session.get_inputs()]
    (actual,) = session.run(None, {name: x.numpy()})
    torch.testing.assert_close(torch.from_numpy(actual), output(pruned, x), rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("build", [Chain, Fixed])
def test_each_submodule_keeps_its_mode(build):
    model = build().train()
    model.norm.eval()
    pruned = prunus.prune(model, image(2, 4), 0.5).model
    modes = dict(pruned.named_modules())
    for name, module in model.named_modules():
        assert name not in modes or modes[name].training is module.training, name
    seen = pruned.norm.running_mean.clone()
    pruned(image(2, 4))
    assert torch.equal(seen, pruned.norm.running_mean)
    pruned.norm.train()
    if build is Fixed:
        pruned.train()
    pruned(image(2, 4))
    assert not torch.equal(seen, pruned.norm.running_mean)


def test_hooks_go_on_firing():
    fired = []
    model = Chain()
    model.a.register_forward_hook(lambda *_: fired.append("forward"))
    model.a.register_forward_pre_hook(lambda *_: fired.append("before"))
    model.a.register_full_backward_hook(lambda *_: fired.append("backward"))
    pruned = prunus.prune(model, image(), 0.5).model
    fired.clear()
    pruned(image().requires_grad_()).sum().backward()
    assert fired == ["before", "forward", "backward"]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("build", [Chain, Fixed])
def test_precision_is_kept(build, dtype):
    model, x = build().to(dtype), image(2, 4).to(dtype)
    pruned = prunus.prune(model, x, 0.5)
    assert pruned.error < 1e-6
    assert {value.dtype for value in pruned.model.parameters()} == {dtype}
    assert output(pruned.model, x).dtype == dtype


@pytest.mark.parametrize("width", [None, 8])
def test_a_head_that_runs_in_training_only_is_cut_along(width, tmp_path):
    model, x = Helped(width).train(), image()
    before = fingerprint(model)
    pruned = prunus.prune(model, x, 0.5)
    assert fingerprint(model) == before
    assert pruned.error < 1e-9
    assert pruned.how == "module"
    assert pruned.model.helper[0].weight.shape == (3, 4, 1, 1)
    assert {"helper.0.weight", "helper.2.weight"} <= set(pruned.cut)
    main, aux = pruned.model(x)
    (main.square().mean() + aux.square().mean()).backward()
    assert pruned.model.helper[0].weight.grad.any()
    prunus.save(pruned, tmp_path / "small.safetensors")
    again = prunus.load(Helped(width), tmp_path / "small.safetensors")
    assert torch.equal(again.eval()(x), pruned.model.eval()(x))


def test_a_head_that_runs_in_training_only_costs_nothing_in_use():
    model, x = Helped(), image()
    found = prunus.trace(model, x)
    del model.helper
    alone = prunus.trace(model, x)
    assert found.macs == alone.macs
    assert found.numel == alone.numel + (8 * 6 + 6) + 2 * 6 + (6 * 5 + 5)


def test_a_training_branch_that_would_break_is_not_returned():
    class Numbered(Helped):
        def forward(self, x):
            y = self.a(x).relu()
            result = self.head(y.mean((2, 3)))
            return (result, self.helper(y.view(-1, 8, 8, 8))) if self.training else result

    pruned = prunus.prune(Numbered(), image(), 0.5)
    assert pruned.how == "traced"  # which has no training branch
    assert pruned.error < 1e-9
    assert learn(pruned.model, image())


def test_a_training_branch_that_cannot_be_traced_is_left_alone():
    class Targets(Helped):
        def forward(self, x, targets=None):
            y = self.a(x).relu()
            result = self.head(y.mean((2, 3)))
            return self.helper(y) - targets["boxes"] if self.training else result

    pruned = prunus.prune(Targets(), image(), 0.5)
    assert pruned.error < 1e-9
    assert "helper.0.weight" not in pruned.cut


def test_weights_that_nothing_ever_reads_stay():
    model = Chain()
    model.spare = nn.Linear(3, 4)
    pruned = prunus.prune(model, image(), 0.5)
    assert pruned.model.spare.weight.shape == (4, 3)


@pytest.mark.parametrize("build", [Chain, Fixed])
def test_what_is_cut_in_inference_mode_can_be_trained(build, tmp_path):
    model, fresh, x = build(), build(), image(size=4)
    with torch.inference_mode():
        pruned = prunus.prune(model, x.clone(), 0.5)
        prunus.save(pruned, tmp_path / "small.safetensors")
        loaded = prunus.load(fresh, tmp_path / "small.safetensors")
    for each in (pruned.model, loaded):
        each(x).sum().backward()


def test_a_model_that_was_made_in_inference_mode_stays_what_it_is():
    with torch.inference_mode():
        model = Chain()
    assert prunus.prune(model, image(), 0.5).error < 1e-9


def test_weights_that_do_not_learn_are_cut_too():
    model = Chain()
    model.a.requires_grad_(False)
    pruned = prunus.prune(model, image(), 0.5).model
    assert pruned.a.weight.shape == (4, 3, 3, 3)
    learns = {name: value.requires_grad for name, value in pruned.named_parameters()}
    assert learns == {name: value.requires_grad for name, value in model.named_parameters()}


def test_gradients_marks_and_memory_order_are_kept():
    model, x = Chain().to(memory_format=torch.channels_last), image()
    model(x).sum().backward()
    model.a.weight.no_decay = True
    model.head.bias.no_decay = True
    pruned = prunus.prune(model, x, 0.5)
    small = dict(pruned.model.named_parameters())
    for name, value in model.named_parameters():
        assert torch.equal(small[name].grad, sliced(value.grad, pruned.cut.get(name, {}))), name
    assert small["a.weight"].no_decay
    assert small["head.bias"].no_decay
    assert small["b.weight"].is_contiguous(memory_format=torch.channels_last)


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(6, 10)
        self.b = nn.Linear(6, 10)
        self.c = nn.Linear(10, 6)
        self.b.weight = self.a.weight

    def forward(self, x):
        return self.c(self.a(x).relu() + self.b(x).sigmoid())


class Shared(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(6, 8)
        self.again = nn.Linear(8, 8)
        self.alias = self.again
        self.last = nn.Linear(8, 3)

    def forward(self, x):
        y = self.again(self.first(x).relu()).relu()
        return self.last(self.alias(y).relu())


class Fancy(nn.Module):
    """Weights and buffers of every other kind, all along one channel axis."""

    def __init__(self):
        super().__init__()
        self.a = parametrizations.weight_norm(nn.Conv2d(3, 8, 3, padding=1))
        self.scale = nn.Parameter(torch.rand(8, 1, 1) + 0.5)
        self.place = nn.Parameter(torch.rand(1, 8, 8, 8))
        self.register_buffer("blur", torch.rand(8, 1, 3, 3), persistent=False)
        self.register_buffer("frozen_scale", torch.rand(8) + 0.5)
        self.b = parametrizations.spectral_norm(nn.Conv2d(8, 6, 1))
        self.c = nn.Conv2d(6, 2, 1)

    def forward(self, x):
        y = self.a(x) * self.scale + self.place
        y = nn.functional.conv2d(y, self.blur, padding=1, groups=self.blur.shape[0])
        return self.c(self.b(y * self.frozen_scale[None, :, None, None]).relu())


def test_tied_weights_stay_tied():
    pruned = prunus.prune(Tied(), torch.randn(2, 6), 0.5).model
    assert pruned.a.weight is pruned.b.weight
    assert pruned.a.weight.shape == (5, 6)


def test_a_module_that_is_called_twice_is_cut_once_and_right():
    pruned = prunus.prune(Shared(), torch.randn(2, 6), 0.5)
    assert pruned.model.again is pruned.model.alias
    assert pruned.model.again.weight.shape == (4, 4)
    assert pruned.error < 1e-9


def test_buffers_bare_parameters_and_computed_weights_are_cut_along():
    model = Fancy().eval()
    pruned = prunus.prune(model, image(), 0.5)
    small = pruned.model
    assert small.scale.shape == (4, 1, 1)
    assert small.place.shape == (1, 4, 8, 8)
    assert small.blur.shape == (4, 1, 3, 3)
    assert small.frozen_scale.shape == (4,)
    assert small.a.weight.shape == (4, 3, 3, 3)
    assert small.b.weight.shape == (3, 4, 1, 1)
    assert pruned.error < 1e-9
    assert "blur" not in small.state_dict()
    assert learn(small, image())[-1] > 0


def test_a_zero_scale_does_not_hide_an_error():
    class Residual(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Conv2d(3, 8, 1), nn.Conv2d(8, 8, 1)
            self.norm = nn.BatchNorm2d(8)
            self.head = nn.Conv2d(8, 2, 1)
            nn.init.zeros_(self.norm.weight)

        def forward(self, x):
            y = self.a(x)
            return self.head(y + self.norm(self.b(y.relu())))

    rules = {**prunus.default_rules(), "elementwise": _couples_nothing}
    with pytest.raises(VerificationError, match=r"group '[ab]\.weight' cannot be cut"):
        prunus.prune(Residual().eval(), image(), 0.5, rules=rules)


def test_a_wrong_rule_is_named_with_group_and_operator():
    rules = {**prunus.default_rules(), "elementwise": _couples_nothing}
    with pytest.raises(
        VerificationError, match=r"group 'a\.weight' cannot be cut, for at relu"
    ) as told:
        prunus.prune(Chain(), image(), 0.5, rules=rules)
    assert "leave that group out with a ratio of 0: {'a.weight': 0.0, ...}" in told.value.fix


def test_a_number_in_forward_does_not_draw_suspicion_from_a_wrong_rule():
    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.fixed, self.chain = Fixed(), Chain()

        def forward(self, x):
            return self.fixed(x), self.chain(x)

    rules = {**prunus.default_rules(), "linear": _loses_inputs}
    with pytest.raises(
        VerificationError, match=r"group 'chain\.b\.weight' .* at linear in 'chain\.head'"
    ):
        prunus.prune(
            Both(), image(2, 4), {"fixed.conv.weight": 0.5, "chain.b.weight": 0.5}, rules=rules
        )


def _loses_inputs(node, graph):

    length = graph.shape(node.params["weight"])[1]
    wrong = np.roll(np.arange(length), 1) if length == 12 else None
    yield Couple(Dim(node.inputs[0], 1), Dim(node.params["weight"], 1), wrong)


def test_without_verification_it_says_so():
    pruned = prunus.prune(Chain(), image(), 0.5, verify=False)
    assert pruned.error is None
    assert pruned.unverified == "verification was turned off"


def test_without_verification_a_cut_that_does_not_run_is_refused():
    rules = {**prunus.default_rules(), "linear": _couples_nothing_at_all}
    with pytest.raises(VerificationError, match=r"the cut model does not run: RuntimeError: mat1"):
        prunus.prune(Chain(), image(), 0.5, verify=False, rules=rules)


def _couples_nothing_at_all(node, graph):
    """Calls every axis free to change by itself."""
    for tensor in (node.inputs[0], node.params["weight"]):
        for axis in range(len(graph.shape(tensor))):
            yield Couple(Dim(tensor, axis), Dim(tensor, axis))


def test_a_model_that_cannot_be_copied_says_what_stands_in_the_way():
    model = Chain()
    model.rows = (k for k in range(3))
    with pytest.raises(PrunusError, match=r"cannot be copied: TypeError: .*generator"):
        prunus.prune(model, image(), 0.5)


def test_what_forward_remembers_does_not_stand_in_the_way():
    class Remembers(Chain):
        def forward(self, x):
            self.seen = [self.a(x)]
            self.calls = getattr(self, "calls", 0) + 1
            return super().forward(x)

    model = Remembers()
    model(image())
    seen = model.seen[0]
    pruned = prunus.prune(model, image(), 0.5)
    assert pruned.error < 1e-9
    assert model.seen[0] is seen
    assert model.calls == 1


def test_numbers_held_by_modules_are_changed_and_named():
    pruned = prunus.prune(Held(), image(2, 4), 0.5)
    assert pruned.how == "module"
    assert pruned.changed == ("width: 8 -> 4", "shape: (8, (4, 4)) -> (4, (4, 4))")
    assert pruned.model.width == 4
    assert pruned.error < 1e-9

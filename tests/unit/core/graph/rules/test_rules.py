"""Every rule against NumPy: what it allows is right, and nothing in it is spare."""

from __future__ import annotations

import numpy as np
import pytest

from prunus.core.errors import RegistryError
from prunus.core.graph.channels import close
from prunus.core.graph.facts import Couple, Freeze, Mixes, Sums
from prunus.core.graph.ir import Dim, Graph, Node, Tensor
from prunus.core.graph.rules import default_rules, registered_ops
from prunus.core.graph.rules._registry import rule
from prunus.testing.oracle import Judge, cut_commutes, may_go

from . import operators as op
from .samples import SAMPLES, Sample

every_sample = pytest.mark.parametrize("sample", SAMPLES.values(), ids=SAMPLES)


@every_sample
def test_cutting_before_the_op_equals_cutting_after_it(sample: Sample):
    assert sample.judge.failures() == []


@every_sample
def test_no_fact_can_be_left_out(sample: Sample):
    assert sample.judge.spare() == []


@every_sample
def test_what_may_go_is_what_the_table_says(sample: Sample):
    assert sample.seen_to_go() == sample.goes


@every_sample
def test_whatever_is_frozen_has_a_reason_that_names_the_operator(sample: Sample):
    channels = sample.judge.close(sample.judge.facts)
    for because in channels.frozen.values():
        # A rigid axis was made by the judge's own source.
        assert sample.op in because or "source" in because


def test_every_registered_op_has_a_sample():
    assert {sample.op for sample in SAMPLES.values()} == set(registered_ops())


def test_every_kind_of_fact_is_judged_to_be_needed_somewhere():
    kinds = {type(fact).__name__ for sample in SAMPLES.values() for fact in sample.judge.facts}
    assert kinds == {"Couple", "Freeze", "Balance", "Sized", "Mixes", "Sums", "Filters", "Free"}


# An operator that nobody knows.


def _mystery() -> tuple[Node, Graph]:
    node = Node("node", "mystery", ("x",), ("y",), {"weight": "w"}, where="stem.act")
    tensors = {
        "x": Tensor("x", (2, 3)), "w": Tensor("w", (3,), is_param=True), "y": Tensor("y", (2, 3))
    }  # fmt: skip
    return node, Graph((node,), tensors, ("x",), ())


def test_an_op_without_a_rule_freezes_what_it_reads_and_says_why():
    node, graph = _mystery()
    judge = Judge(node, graph, lambda attrs, x, weight: x * weight)
    because = "operator 'mystery' has no rule"
    assert [(fact.dim, fact.because) for fact in judge.facts] == [
        (Dim("x", 0), because), (Dim("x", 1), because), (Dim("w", 0), because)
    ]  # fmt: skip
    channels = judge.close(judge.facts)
    assert may_go(channels) == set()
    assert set(channels.frozen.values()) == {because}


def test_rules_of_ones_own_are_used_in_place_of_ours():
    node, graph = _mystery()

    def known(node, view):
        yield from (Couple(Dim("x", 1), Dim("y", 1)), Couple(Dim("w", 0), Dim("y", 1)))

    rules = {**default_rules(), "mystery": known}
    run = lambda attrs, x, weight: x * weight  # noqa: E731
    judge = Judge(node, graph, run, rules=rules, rigid=[Dim("x", 0)])
    assert judge.failures() == []
    assert judge.spare() == []
    assert Dim("y", 1) in judge.close(judge.facts).sets
    assert "mystery" not in default_rules()


def test_two_rules_for_one_op_are_refused():
    with pytest.raises(RegistryError, match=r"op 'conv' already has a rule: .*contraction\.conv\n"):
        rule("conv")(lambda node, view: iter(()))


# The judge itself finds what is wrong.


def _judge_of(op_name, run, shapes, facts, *, attrs=None, params=(), **kwargs) -> Judge:
    *read, _ = shapes
    node = Node(
        "node", op_name, tuple(name for name in read if name not in params), ("y",),
        {name: name for name in params}, attrs or {},
    )  # fmt: skip
    tensors = {name: Tensor(name, shape, name in params) for name, shape in shapes.items()}
    rules = {op_name: lambda node, view: iter(facts)}
    return Judge(node, Graph((), tensors, (), ()), run, rules=rules, **kwargs)


def test_a_missing_couple_is_found():
    facts = [Couple(Dim("p", 0), Dim("y", 0)), Mixes(Dim("q", 0))]
    judge = _judge_of("add", op.add_all, {"p": (3,), "q": (3,), "y": (3,)}, facts)
    assert "p[0] without [0], y[0] without [0]" in judge.failures()


def test_a_couple_with_the_wrong_channel_is_found():
    facts = [Couple(Dim("x", 0), Dim("y", 0), None, np.array([1, 2, 0]))]
    judge = _judge_of("copy", lambda attrs, x: x, {"x": (3,), "y": (3,)}, facts)
    assert judge.failures() == [
        "x[0] without [0], y[0] without [1]",
        "x[0] without [1], y[0] without [2]",
        "x[0] without [2], y[0] without [0]",
    ]


def test_a_couple_too_many_is_found():
    same = Couple(Dim("x", 0), Dim("y", 0))
    too_many = Couple(Dim("x", 0), Dim("y", 0), None, np.array([1, 2, 0]))
    judge = _judge_of("copy", lambda attrs, x: x, {"x": (3,), "y": (3,)}, [same, too_many])
    assert judge.spare() == [too_many]


def test_a_freeze_without_need_is_found():
    facts = [Couple(Dim("x", 0), Dim("y", 0)), Freeze(Dim("x", 0), "it might be needed")]
    judge = _judge_of("copy", lambda attrs, x: x, {"x": (3,), "y": (3,)}, facts)
    assert judge.spare() == [facts[1]]


def test_a_mixes_without_need_is_found():
    facts = [Couple(Dim("x", 0), Dim("y", 0)), Mixes(Dim("x", 0))]
    judge = _judge_of("copy", lambda attrs, x: x, {"x": (3,), "y": (3,)}, facts)
    assert judge.spare() == [facts[1]]


def test_a_missing_mixes_is_found():
    facts = [Couple(Dim("x", 0), Dim("y", 0))]
    centred = lambda attrs, x: x - np.nanmean(x)  # noqa: E731
    judge = _judge_of("centre", centred, {"x": (3,), "y": (3,)}, facts)
    assert len(judge.failures()) == 3


def _linear_judge(*more) -> Judge:
    facts = [Couple(Dim("w", 0), Dim("y", 1)), Couple(Dim("w", 1), Dim("x", 1)), *more]
    shapes = {"x": (2, 4), "w": (3, 4), "y": (2, 3)}
    run = lambda attrs, x, w: op.linear(attrs, x, weight=w)  # noqa: E731
    return _judge_of("linear", run, shapes, facts, params=["w"], rigid=[Dim("x", 0)])


def test_a_missing_sums_is_found():
    # What stays of the output would be taken for what it was in the original.
    assert len(_linear_judge().failures()) == 4
    assert _linear_judge(Sums(Dim("x", 1))).failures() == []


def test_a_sums_without_need_is_found():
    judge = _linear_judge(Sums(Dim("x", 1)), Sums(Dim("y", 1)))
    assert judge.spare() == [judge.facts[-1]]


def test_a_blinded_channel_that_is_no_number_is_found():
    # It is cut away after the operator, but would spread through a network.
    facts = [Couple(Dim("w", 0), Dim("y", 0))]
    inverse = lambda attrs, w: 1 / w  # noqa: E731
    judge = _judge_of("inverse", inverse, {"w": (3,), "y": (3,)}, facts, params=["w"])
    assert len(judge.failures()) == 3


def test_one_axis_and_index_can_be_asked_about():
    facts = [Couple(Dim("w", 0), Dim("y", 1)), Couple(Dim("w", 1), Dim("x", 1)), Sums(Dim("x", 1))]
    shapes = {"x": (2, 4), "w": (3, 4), "y": (2, 3)}
    tensors = {name: Tensor(name, shape, name == "w") for name, shape in shapes.items()}
    node, graph = (
        Node("node", "linear", ("x",), ("y",), {"weight": "w"}),
        Graph((), tensors, (), ()),
    )
    assert cut_commutes(node, graph, facts, op.linear, Dim("w", 0), 2)
    assert cut_commutes(node, graph, facts, op.linear, Dim("x", 1), 0)
    assert not cut_commutes(node, graph, facts[:1], op.linear, Dim("w", 1), 0)


# Cases that a table of samples cannot hold.


def test_einsum_with_one_tensor_twice():
    # A Gram matrix: a channel is a row and a column of it.
    node = Node("node", "einsum", ("x", "x"), ("y",), attrs={"equation": "ac,bc->ab"})
    tensors = {"x": Tensor("x", (3, 4)), "y": Tensor("y", (3, 3))}
    judge = Judge(node, Graph((), tensors, (), ()), op.einsum)
    assert judge.failures() == []
    channels = judge.close(judge.facts)
    assert channels.sets[Dim("y", 0)].tolist() == channels.sets[Dim("y", 1)].tolist()
    assert (Dim("y", 1), 0) in may_go(channels)


def test_attention_of_a_tensor_with_itself():
    node = Node("node", "attention", ("x", "x", "x"), ("y",), attrs={"scaled_by_length": False})
    tensors = {"x": Tensor("x", (2, 3, 4)), "y": Tensor("y", (2, 3, 4))}
    judge = Judge(node, Graph((), tensors, (), ()), op.attention)
    assert judge.failures() == []
    assert (Dim("x", 2), 0) in may_go(judge.close(judge.facts))


def test_a_recurrent_layer_with_projections_stays():
    params = {"w_ih_l0": (12, 2), "w_hh_l0": (12, 2)}  # three units, projected to two
    node = Node(
        "node", "recurrent", ("x",), ("y",), {name: name for name in params},
        {"gates": 4, "layers": 1, "bidirectional": False}, where="rnn",
    )  # fmt: skip
    tensors = {name: Tensor(name, shape, True) for name, shape in params.items()}
    tensors |= {"x": Tensor("x", (4, 1, 2)), "y": Tensor("y", (4, 1, 2))}
    channels = close(Graph((node,), tensors, ("x",), ()))
    assert set(channels.frozen.values()) == {"recurrent in 'rnn' projects its hidden units"}

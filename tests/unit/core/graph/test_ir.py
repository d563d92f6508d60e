"""The neutral graph."""

from __future__ import annotations

import pickle

import pytest

from prunus.core.errors import GraphError
from prunus.core.graph.ir import Dim, Graph, Node, Tensor
from prunus.testing.networks import Net

TENSORS = {"x": Tensor("x", (2, 3)), "y": Tensor("y", (2, 4)), "w": Tensor("w", (4, 3), True)}
LINEAR = Node("fc", "linear", ("x",), ("y",), {"weight": "w"}, where="head.fc", source="addmm")


def test_a_graph_answers_questions_about_its_tensors():
    graph = Graph((LINEAR,), TENSORS, ("x",), ("y",))
    assert graph.shape("w") == (4, 3)
    assert graph.size(Dim("y", 1)) == 4
    assert graph.is_param("w")
    assert not graph.is_param("y")


def test_a_node_reads_its_weights_too():
    assert LINEAR.reads() == ("x", "w")


def test_a_node_is_shown_as_the_user_knows_it():
    assert str(LINEAR) == "addmm in 'head.fc'"
    assert str(Node("n", "linear", ("x",), ("y",), where="fc")) == "linear in 'fc'"
    assert str(Node("n", "linear", ("x",), ("y",))) == "linear"


def test_a_dim_is_shown_like_an_index():
    assert str(Dim("fc.weight", 1)) == "fc.weight[1]"


def test_nodes_out_of_order_are_refused():
    after = Node("relu", "elementwise", ("y",), ("z",))
    tensors = {**TENSORS, "z": Tensor("z", (2, 4))}
    with pytest.raises(GraphError, match=r"node 'relu' \(elementwise\) reads 'y' before any node"):
        Graph((after, LINEAR), tensors, ("x",), ("z",))
    assert Graph((LINEAR, after), tensors, ("x",), ("z",)).nodes == (LINEAR, after)


def test_an_input_that_nobody_gives_is_refused():
    with pytest.raises(GraphError, match="reads 'x' before any node writes it"):
        Graph((LINEAR,), TENSORS, (), ("y",))


def test_a_weight_may_be_computed():
    net = Net()
    x = net.input("x", 1, 3, 4)
    v, g = net.param("v", 5, 3, 1), net.param("g", 5, 1, 1)
    weight = net.node("weight_norm", [], (5, 3, 1), {"direction": v, "length": g}, axis=0)
    y = net.node("conv", [x], (1, 5, 4), {"weight": weight}, groups=1)
    assert net.graph(y).nodes[1].params["weight"] == weight


def test_a_graph_goes_through_pickle():
    graph = Graph((LINEAR,), TENSORS, ("x",), ("y",))
    assert pickle.loads(pickle.dumps(graph)) == graph

"""Exported graphs as later walks want them: no region apart, no assertion, no view written to."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram

from prunus.backends.torch.lower import operator_of

__all__ = ["tidy", "writes_into_views"]

_PARTS = {"slice", "select", "narrow", "chunk", "split", "split_with_sizes", "unbind", "diagonal"}
_WHOLE = {"view", "reshape", "flatten", "transpose", "permute", "squeeze", "unsqueeze", "getitem"}


def writes_into_views(program: ExportedProgram) -> bool:
    """Tell whether a part of a tensor is written to, so that the whole changes too.

    A write into all of a tensor, through whatever view, couples nothing new: the
    channels are those that were there.
    """
    return any(
        node.op == "call_function"
        and operator_of(node).endswith("_")
        and bool(node.args)
        and _is_part(node.args[0])
        for node in program.graph.nodes
    )


def _is_part(node: Any) -> bool:
    while isinstance(node, fx.Node) and node.op == "call_function":
        name = operator_of(node)
        if name in _PARTS:
            return True
        if name not in _WHOLE:
            return False
        node = node.args[0]
    return False


def tidy(program: ExportedProgram) -> None:
    """Lay regions that run under another setting open, and drop what only asserts.

    A region (`with torch.autocast(...)` in `forward`) holds a graph of its own, which
    every later walk would have to look into.
    """
    graph = program.graph
    for node in list(graph.nodes):
        name = getattr(node.target, "__name__", "")
        if node.op == "call_function" and name.startswith("wrap_with_"):
            _lay_open(program, node)
        elif node.op == "call_function" and "_assert" in str(node.target) and not node.users:
            graph.erase_node(node)
        elif node.op == "call_function" and node.target is torch.ops.aten.copy.default:
            _make_differentiable(graph, node)
    program.graph_module.recompile()


def _make_differentiable(graph: fx.Graph, node: fx.Node) -> None:
    """Write `copy`, which functional form leaves behind and nobody can train, as what it does."""
    target, source = node.args[:2]
    dtype = node.meta["val"].dtype
    with graph.inserting_before(node):
        cast = graph.call_function(torch.ops.aten.to.dtype, (source, dtype))
        cast.meta = {**node.meta, "val": source.meta["val"].to(dtype)}  # type: ignore[union-attr]
        wide = graph.call_function(torch.ops.aten.expand_as.default, (cast, target))
        wide.meta = dict(node.meta)
    node.replace_all_uses_with(wide)
    graph.erase_node(node)


def _lay_open(program: ExportedProgram, region: fx.Node) -> None:
    place = next(
        k for k, one in enumerate(region.args) if isinstance(one, fx.Node) and one.op == "get_attr"
    )
    holder = region.args[place]
    assert isinstance(holder, fx.Node)  # noqa: S101  (found by that above)
    body = getattr(program.graph_module, str(holder.target))
    given = iter(region.args[place + 1 :])
    inside: dict[fx.Node, Any] = {}
    results: Any = ()
    with program.graph.inserting_before(region):
        for node in body.graph.nodes:
            if node.op == "placeholder":
                inside[node] = next(given)
            elif node.op == "output":
                results = fx.map_arg(node.args[0], lambda one: inside[one])
            else:
                inside[node] = program.graph.node_copy(node, lambda one: inside[one])
    for user in list(region.users):
        user.replace_all_uses_with(results[user.args[1]])  # each user picks one result
        program.graph.erase_node(user)
    program.graph.erase_node(region)
    if not holder.users:
        program.graph.erase_node(holder)

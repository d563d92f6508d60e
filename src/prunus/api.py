"""The verbs: what users call, in the order they call it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from prunus.analysis import Choice, How, Subject, run
from prunus.core.backend import Backend
from prunus.core.cut.counts import asked_count
from prunus.core.cut.cut import Cut, make_cut
from prunus.core.cut.ratios import ratios_of
from prunus.core.engine.evaluation import Evaluation, Opaque
from prunus.core.engine.report import Listener
from prunus.core.engine.table import RATIOS
from prunus.core.errors import (
    CriterionError,
    EvaluationError,
    NothingToCutError,
    PrunusError,
    RatioError,
)
from prunus.core.graph.channels import close
from prunus.core.graph.costs import macs, numel
from prunus.core.graph.groups import Groups, find_groups
from prunus.core.graph.rules import Rules, registered_ops
from prunus.core.plan.plan import Plan
from prunus.core.results import Cost, Pruned, Trace, trace_of
from prunus.core.scores.criteria import Criterion
from prunus.core.scores.group import scores_of
from prunus.core.study.merge import merge
from prunus.core.study.study import Study

__all__ = ["analyze", "load", "merge", "prune", "save", "trace"]


def backend_of(model: object) -> Backend:
    """Return the backend that owns `model`; only its framework is imported."""
    modules = {cls.__module__.split(".")[0] for cls in type(model).__mro__}
    if "torch" in modules:
        from prunus.backends.torch.backend import TorchBackend

        if TorchBackend().owns(model):
            return TorchBackend()
    if isinstance(model, type):
        raise PrunusError(
            f"prunus cannot work on the class {model.__name__}",
            fix=f"pass a model that was made of it, such as {model.__name__}()",
        )
    raise PrunusError(
        f"prunus cannot work on a {type(model).__module__}.{type(model).__name__}",
        fix="pass a torch.nn.Module",
    )


def trace(
    model: Any, example: Any, *, within: str | None = None, rules: Rules | None = None
) -> Trace:
    """Find out which channels of `model` can go, which cannot, and why.

    Args:
        model: A `torch.nn.Module`.
        example: A tensor, a tuple of arguments, or a dict of keywords.
        within: A sub-module to look at, where the whole cannot be traced.
        rules: Rules for operators, as `{**prunus.default_rules(), "my_op": my_rule}`.
    """
    traced = backend_of(model).trace(model, example, within)
    return trace_of(_analysed(traced, rules), _unknown(traced.graph.nodes, rules))


def _analysed(traced: Any, rules: Rules | None) -> Groups:
    if rules is not None and not isinstance(rules, Mapping):
        raise PrunusError(
            f"rules is a {type(rules).__name__}, and must be a table from operator to rule",
            fix='pass rules={**prunus.default_rules(), "my_op": my_rule}',
        )
    return find_groups(close(traced.graph, rules, traced.pinned))


def _unknown(nodes: Any, rules: Rules | None) -> tuple[str, ...]:
    known = set(registered_ops() if rules is None else rules)
    return tuple(sorted({node.op for node in nodes} - known))


def prune(
    model: Any,
    example: Any,
    plan: float | Mapping[str, float] | Plan,
    *,
    criterion: str | Criterion | None = None,
    align: int | None = None,
    within: str | None = None,
    rules: Rules | None = None,
    verify: bool = True,
    inplace: bool = False,
    optimizer: Any = None,
    seed: int = 0,
) -> Pruned[Any]:
    """Take channels out of `model`, and check that what is left computes the right thing.

    Args:
        model: A `torch.nn.Module`; it is left as it is, and a new one is returned.
        example: A tensor, a tuple of arguments, or a dict of keywords.
        plan: One ratio for every group, `{weight or pattern: ratio}`, or a plan.
        criterion: Which channels go first: "l1", "l2", "fpgm", "bn_scale", "taylor",
            "random", or a function from filters (an array, one filter a row) to scores.
            None is what the plan was made with, or "l1".
        align: Leave a multiple of this many channels, where a group has that many. None is
            what the plan says, or 1.
        within: A sub-module to cut, where the whole cannot be traced.
        rules: Rules for operators, as in `trace`.
        verify: Compare with the blinded original; a cut that fails is never returned.
        inplace: Change `model` itself.
        optimizer: Cut its state along; `pruned.optimizer` goes on with the cut model.
        seed: For the criterion "random".

    Raises:
        PrunusError: With a `fix`, for anything that cannot be done as asked.
    """
    if isinstance(plan, Plan):
        align = plan.align if align is None else align
        criterion = plan.criterion or None if criterion is None else criterion
    align = 1 if align is None else align
    criterion = "l1" if criterion is None else criterion
    _check(align, seed)
    backend = backend_of(model)
    traced = backend.trace(model, example, within)
    groups = _analysed(traced, rules)
    ratios = ratios_of(groups, plan.ratios if isinstance(plan, Plan) else plan)
    weights = backend.weights(traced)
    cutting = _reached(groups, ratios)
    scores = {k: scores_of(groups.groups[k], criterion, weights, seed) for k in cutting}
    cut = make_cut(groups, ratios, scores, align)
    if not cut.removed and any(ratios):
        raise _nothing(cut, align)
    whole, gone = cut.channels, cut.gone
    before = Cost(macs(traced.graph), numel(traced.graph))
    after = Cost(macs(traced.graph, whole, gone), numel(traced.graph, whole, gone))
    outcome = backend.apply(
        traced, cut, rules=rules, verify=verify, inplace=inplace, optimizer=optimizer
    )
    return Pruned(
        model=outcome.model,
        cut=cut.by_name(),
        before=before,
        after=after,
        error=outcome.error,
        unverified=outcome.unverified,
        mixes=tuple(str(node) for node in cut.mixes),
        how=outcome.how,
        changed=outcome.changed,
        achieved=cut.achieved,
        frozen=groups.frozen,
        recipe=outcome.recipe,
        optimizer=outcome.optimizer,
    )


def analyze(
    model: Any,
    example: Any,
    evaluate: Evaluation | Callable[[Any], float],
    *,
    study: str | Path,
    ratios: Iterable[float] = RATIOS,
    params: Sequence[str] | None = None,
    criterion: str | Criterion = "l1",
    align: int = 1,
    within: str | None = None,
    rules: Rules | None = None,
    higher_is_better: bool = True,
    adaptive: float | None = None,
    budget: float | None = None,
    estimate: bool = False,
    recalibrate: Iterable[Any] | None = None,
    precision: str | None = None,
    shard: tuple[int, int] | None = None,
    verify: bool = True,
    memory: int = 1 << 30,
    seed: int = 0,
    progress: Listener | None = None,
) -> Study:
    """Measure what each group of channels is worth: the metric, when they really go.

    Whatever is measured is in the study at once. Interrupt it as you like; the same call
    goes on from there.

    Args:
        model: As for `trace`; it is left as it is.
        example: As for `trace`.
        evaluate: An `Evaluation`, whose data the engine reads once for all cells; or your
            own function from a model to one number, which is called once a cell.
        study: The file that is made, or gone on with.
        ratios: The shares of each group to try without.
        params: Names or patterns of weights; None is all.
        criterion: Which channels go first, as for `prune`.
        align: Leave a multiple of this many channels.
        within: A sub-module to cut, where the whole cannot be traced.
        rules: As for `trace`.
        higher_is_better: For a function of your own; an `Evaluation` says it itself.
        adaptive: Stop each cell when its relative loss is known within this much.
        budget: Measure only what is needed to find where each group loses this much.
        estimate: Begin with a guess from gradients, shown apart from what is measured.
        recalibrate: Batches on which each cut model's statistics are computed anew.
        precision: "bfloat16" or "float16" in place of the model's own precision.
        shard: (k, n): measure only the k-th of n parts; `merge` puts the studies together.
        verify: First see that every group's cut is right; one that is not is not measured.
        memory: Bytes that may be taken beside what a run of the model takes.
        seed: Of the criterion "random", and of the order in which samples are read early.
        progress: Is told how far it has come.

    Raises:
        PrunusError: With a `fix`, for anything that cannot be done as asked.
    """
    _check(align, seed)
    if isinstance(evaluate, Evaluation) and not higher_is_better and evaluate.higher_is_better:
        raise EvaluationError(
            "higher_is_better=False is said of a function of your own, and this is an Evaluation",
            fix="say it there: prunus.Evaluation(..., higher_is_better=False)",
        )
    work = evaluate if isinstance(evaluate, Evaluation) else Opaque(evaluate, higher_is_better)
    backend = backend_of(model)
    traced = backend.trace(model, example, within)
    subject = Subject(backend, traced, _analysed(traced, rules), rules, within)
    several = ratios if isinstance(ratios, Iterable) else (ratios,)
    choice = Choice(tuple(several), params, criterion, align, seed)
    how = How(adaptive, budget, estimate, recalibrate, precision, shard, verify, memory)
    return run(subject, choice, work, how, Path(study), progress)


def save(pruned: Pruned[Any], path: str | Path) -> None:
    """Write a cut model to one safetensors file, from which `load` makes it again.

    What is written are the weights that `pruned.model` has now, so fine-tune first.
    """
    if not isinstance(pruned, Pruned):
        raise PrunusError(
            f"save takes what prune returned, and got a {type(pruned).__name__}",
            fix="write pruned = prunus.prune(...), train pruned.model, then "
            "prunus.save(pruned, path)",
        )
    backend_of(pruned.model).save(pruned.model, Path(path), pruned.recipe)


def load(model: Any, path: str | Path, *, rules: Rules | None = None) -> Any:
    """Give a freshly built `model` the shapes and weights of a file that `save` wrote.

    Precision and device stay those of `model`, as with `load_state_dict`.

    Args:
        model: Built as the original was, before the cut.
        path: The file.
        rules: What the model was cut with, if that were not the default rules.

    Returns:
        `model` itself; for a file of a traced module, that module.
    """
    return backend_of(model).load(model, Path(path), rules)


def _check(align: object, seed: object) -> None:
    if isinstance(align, bool) or not isinstance(align, int) or align < 1:
        raise RatioError(
            f"align is {align!r}, and must be a whole number from 1", fix="try align=8"
        )
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise CriterionError(
            f"seed is {seed!r}, and must be a whole number from 0", fix="try seed=0"
        )


def _reached(groups: Groups, ratios: list[float]) -> list[int]:
    """Return the groups that may lose channels: asked for, or balanced with one that is."""
    if any(ratios) and groups.channels.balances:
        return list(range(len(groups.groups)))
    return [k for k, ratio in enumerate(ratios) if ratio]


def _nothing(cut: Cut, align: int) -> NothingToCutError:
    asked = ", ".join(
        f"{one.group} ({one.size} {'channel' if one.size == 1 else 'channels'} at ratio "
        f"{one.asked:g})"
        for one in cut.achieved[:3]
    )
    return NothingToCutError(f"no channel goes: {asked}", fix=_instead(cut, align))


def _instead(cut: Cut, align: int) -> str:
    """Return what to ask for, where what was asked takes no channel."""
    if all(one.size == 1 for one in cut.achieved):
        return "name other groups: of each of these there is one channel, and one always stays"
    if align > 1:
        return f"ask for a larger ratio, or a smaller align than {align}"
    if any(asked_count(one.size, one.asked) for one in cut.achieved):
        return (
            "ask for a larger ratio, or name other groups: these channels lie in runs that must "
            "lose the same number each (the groups of a norm, equal parts of a split)"
        )
    return "ask for a larger ratio: a group of n channels loses min(n - 1, round(n * ratio))"

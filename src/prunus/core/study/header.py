"""What a study is of: fingerprints, the groups and what is frozen, the costs of the graph.

All that a plan, a table or a report needs, so that none of them needs the model.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

from prunus.core.errors import StudyError

__all__ = ["RELATIVE_LOSS", "FrozenRow", "GroupRow", "Header", "Identity", "Scalar"]

RELATIVE_LOSS = "relative loss"
"""The metric of a study that was imported from losses, without what they are relative to.

It is a loss already, of which the whole model has none: nothing is divided by a baseline.
No function that evaluates a model is called so, for a name of code has no space."""

Scalar = str | int | float | bool | None

_Kind = TypeVar("_Kind")


@dataclass(frozen=True, slots=True)
class GroupRow:
    """A group as the study keeps it: channels that get one ratio."""

    name: str
    params: tuple[str, ...]
    """The weights whose filters these are; each of the names stands for the group."""
    size: int
    macs: int
    numel: int


@dataclass(frozen=True, slots=True)
class FrozenRow:
    """A weight whose filters stay, all or some of them, and the reason."""

    name: str
    because: str
    channels: int
    of: int


@dataclass(frozen=True)
class Identity:
    """What must agree for two measurements to be comparable. Fingerprints are hex text."""

    model: str
    data: str
    metric: str
    higher_is_better: bool
    criterion: str
    options: Mapping[str, Scalar] = field(default_factory=dict)
    """What else changes the numbers, such as {"precision": "float32", "recalibrate": 0}."""

    def __post_init__(self) -> None:
        for name, value in self.options.items():
            # NaN would differ from itself, and no study could be gone on with.
            if not isinstance(name, str) or not isinstance(value, Scalar) or _is_nan(value):
                raise StudyError(
                    f"the option {name!r} of a study is {value!r:.60}",
                    fix="give text, a number, a boolean or None as the value of an option",
                )
        object.__setattr__(self, "options", dict(sorted(self.options.items())))

    def difference(self, other: Identity, own: str = "in the study", others: str = "here") -> str:
        """Return the first thing that differs, with both values, in words; "" where none does."""
        for name, mine, yours in self._beside(other):
            if (type(mine), mine) != (type(yours), yours):
                shown = _shortened(mine, yours) if name in {"model", "data"} else (mine, yours)
                return f"the {name}: {shown[0]} {own}, {shown[1]} {others}"
        return ""

    def _beside(self, other: Identity) -> list[tuple[str, Any, Any]]:
        pairs = [
            ("model", self.model, other.model),
            ("data", self.data, other.data),
            ("metric", self.metric, other.metric),
            ("direction", _better(self), _better(other)),
            ("criterion", self.criterion, other.criterion),
        ]
        for name in sorted({*self.options, *other.options}):
            pairs.append(
                (f"option {name!r}", *(_option(one.options, name) for one in (self, other)))
            )
        return pairs


@dataclass(frozen=True)
class Header:
    """All of a study but what was measured."""

    identity: Identity
    groups: tuple[GroupRow, ...]
    """In the order the network runs them."""
    frozen: tuple[FrozenRow, ...]
    macs: int
    numel: int
    costs: Mapping[str, Any] = field(default_factory=dict)
    """What a plan needs to know the cost of joint cuts; plain JSON that only plans read."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """What the numbers were made with, such as {"prunus": "0.2", "torch": "2.6"}."""
    note: str = ""

    def group(self, name: str) -> GroupRow | None:
        """Return the group of that name."""
        return next((group for group in self.groups if group.name == name), None)

    def difference(self, other: Header, own: str = "in the study", others: str = "here") -> str:
        """Return the first thing that differs and must not, in words; "" where none does.

        Costs, versions and notes may differ: no number depends on them.
        """
        found = self.identity.difference(other.identity, own, others)
        if found or self.groups == other.groups:
            return found
        if len(self.groups) != len(other.groups):
            return f"the groups: {len(self.groups)} {own}, {len(other.groups)} {others}"
        mine, yours = next(
            pair for pair in zip(self.groups, other.groups, strict=True) if pair[0] != pair[1]
        )
        return f"a group: {_described(mine)} {own}, {_described(yours)} {others}"

    def essence(self) -> str:
        """Return, as text, what `difference` looks at: the same for all files of one study."""
        return json.dumps([asdict(self.identity), [asdict(group) for group in self.groups]])

    def to_json(self) -> str:
        """Return the header as text."""
        try:
            return json.dumps(asdict(self), sort_keys=True, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise StudyError(
                f"the header of a study must be plain JSON: {error}",
                fix="keep to dicts, lists, text, numbers, booleans and None in options and costs",
            ) from error

    @classmethod
    def from_json(cls, text: str) -> Header:
        """Read what `to_json` wrote; nothing in it is believed before it is looked at."""
        try:
            found = json.loads(text)
        except (TypeError, ValueError, RecursionError) as error:
            raise _bad(f"is no JSON ({error})") from error
        read = _Reader(found, "header")
        identity = _Reader(read.get("identity", dict), "identity")
        return cls(
            Identity(
                identity.get("model", str),
                identity.get("data", str),
                identity.get("metric", str),
                identity.get("higher_is_better", bool),
                identity.get("criterion", str),
                identity.get("options", dict),
            ),
            _groups(read.get("groups", list)),
            tuple(_frozen(_Reader(one, "frozen")) for one in read.get("frozen", list)),
            read.get("macs", int),
            read.get("numel", int),
            read.get("costs", dict),
            {name: str(value) for name, value in read.get("versions", dict).items()},
            read.get("note", str),
        )


class _Reader:
    """A JSON object whose entries are looked at one by one."""

    def __init__(self, found: object, what: str) -> None:
        if not isinstance(found, dict):
            raise _bad(f"has {what!r} as {type(found).__name__}")
        self._found = found
        self._what = what

    def get(self, name: str, kind: type[_Kind]) -> _Kind:
        """Return an entry that must be there, and of that type."""
        value = self._found.get(name)
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise _bad(f"has {name!r} of {self._what!r} as {value!r:.60}, not {kind.__name__}")
        return value


def _groups(found: Sequence[object]) -> tuple[GroupRow, ...]:
    groups = tuple(_group(_Reader(one, "groups")) for one in found)
    if len({group.name for group in groups}) != len(groups):
        raise _bad("names two groups alike")
    return groups


def _group(read: _Reader) -> GroupRow:
    params = read.get("params", list)
    if not all(isinstance(name, str) for name in params):
        raise _bad(f"has params {params!r:.60}")
    size = read.get("size", int)
    if size < 1:
        raise _bad(f"has a group of size {size}")
    return GroupRow(
        read.get("name", str), tuple(params), size, read.get("macs", int), read.get("numel", int)
    )


def _frozen(read: _Reader) -> FrozenRow:
    return FrozenRow(
        read.get("name", str),
        read.get("because", str),
        read.get("channels", int),
        read.get("of", int),
    )


def _is_nan(value: Scalar) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _bad(problem: str) -> StudyError:
    return StudyError(
        f"the header of the study {problem}",
        fix="take a copy of the file from before, or measure again in a new one",
    )


def _better(identity: Identity) -> str:
    return "higher is better" if identity.higher_is_better else "lower is better"


def _option(options: Mapping[str, Scalar], name: str) -> Any:
    return options.get(name, "(not set)")


def _shortened(mine: str, yours: str) -> tuple[str, str]:
    """Shorten fingerprints, as far as they can still be told apart."""
    for most in (12, 24):
        short = [text if len(text) <= most else f"{text[:most]}..." for text in (mine, yours)]
        if short[0] != short[1]:
            return short[0], short[1]
    return mine, yours


def _described(group: GroupRow) -> str:
    more = ", ..." if len(group.params) > 3 else ""
    return (
        f"{group.name!r} of {group.size} channels ({', '.join(group.params[:3])}{more}; "
        f"{group.macs} MACs, {group.numel} parameters)"
    )

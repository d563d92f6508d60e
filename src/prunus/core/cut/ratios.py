"""What a user asks for, as one ratio a group."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from numbers import Real

from prunus.core.errors import NothingToCutError, RatioError, UnknownNameError, nearest
from prunus.core.graph.groups import Group, Groups

__all__ = ["check_ratio", "ratios_of"]


def check_ratio(name: str, ratio: float) -> None:
    """Refuse what is no name, and what is no share of channels."""
    if not isinstance(name, str):
        raise RatioError(
            f"{name!r} is no name of a weight, group or pattern",
            fix='write {"conv1.weight": 0.5}; prunus.trace(...).groups has the names',
        )
    if isinstance(ratio, bool) or not isinstance(ratio, Real) or not 0 <= ratio < 1:
        raise RatioError(
            f"the ratio of {name!r} is {ratio!r}, and must lie in [0, 1)",
            fix="give the share of channels to remove, such as 0.5; one channel always stays",
        )


def ratios_of(groups: Groups, asked: float | Mapping[str, float]) -> list[float]:
    """Return a ratio for each group: one number for all, or names and shell patterns.

    A name is a weight's or a group's. An exact name goes before a pattern; two that
    ask different ratios of channels that live and die together are refused.
    """
    for name, ratio in (asked if isinstance(asked, Mapping) else {"all groups": asked}).items():
        check_ratio(name, ratio)
    if not groups.groups:
        raise NothingToCutError(
            f"nothing in this model can be cut: {_reasons(groups)}",
            fix="print prunus.trace(...).frozen for all reasons; an operator without a rule "
            "can be given one with rules=",
        )
    if isinstance(asked, Mapping):
        return _by_name(groups, asked)
    return [float(asked)] * len(groups.groups)


def _by_name(groups: Groups, asked: Mapping[str, float]) -> list[float]:
    exact: dict[str, tuple[str, float]] = {}
    loose: dict[str, tuple[str, float]] = {}
    for name, ratio in asked.items():
        members, is_pattern = _members(groups, name)
        for group in members:
            table = loose if is_pattern else exact
            first = table.setdefault(group.name, (name, float(ratio)))
            if first[1] != ratio:
                raise RatioError(
                    f"{first[0]!r} asks {first[1]} and {name!r} asks {ratio} of the same channels: "
                    f"group {group.name!r} ({', '.join(group.params[:4])}) lives and dies together",
                    fix="give that group one ratio, under one of its names",
                )
    chosen = {**loose, **exact}
    return [chosen[group.name][1] if group.name in chosen else 0.0 for group in groups.groups]


def _members(groups: Groups, name: str) -> tuple[list[Group], bool]:
    named = groups.named()
    by_group = {group.name: group for group in groups.groups}
    if name in by_group and name not in named:
        return [by_group[name]], False
    if name in named:
        return named[name], False
    matching = {
        group.name: group
        for key, members in named.items()
        for group in members
        if fnmatchcase(key, name) or fnmatchcase(group.name, name)
    }
    if matching:
        return list(matching.values()), True
    for one in groups.frozen:
        if one.name == name or fnmatchcase(one.name, name):
            raise NothingToCutError(
                f"{one.name!r} cannot be cut: {one.because}",
                fix=f"leave {name!r} out; prunus.trace(...).frozen lists what stays, and why",
            )
    along = [group.name for group in groups.groups if any(d.tensor == name for d in group.dims)]
    if along:
        raise UnknownNameError(
            f"{name!r} has no filters of its own: it is cut along with others",
            fix=f"name the group that it goes with: {' or '.join(map(repr, along[:3]))}",
        )
    ends = [key for key in named if key.endswith(f".{name}") or key.startswith(f"{name}.")]
    if len(ends) == 1:
        hint = f"write {ends[0]!r} in full"
    elif ends:
        shown = ", ".join(repr(key) for key in ends[:3])
        hint = f"it could be any of {len(ends)} weights ({shown}, ...): write one in full, or "
        hint += f"all with the pattern '*{name}*'"
    else:
        hint = f"the nearest are {nearest(name, [*named, *by_group])}"
    raise UnknownNameError(f"no weight that can be cut is named {name!r}", fix=hint)


def _reasons(groups: Groups) -> str:
    seen = dict.fromkeys(f"{one.name!r} stays, {one.because}" for one in groups.frozen)
    return "; ".join(list(seen)[:3]) or "it has no convolution or other layer with filters"

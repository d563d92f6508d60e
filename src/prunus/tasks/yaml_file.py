"""A YAML file as plain data, with the line of every key, and values typed over it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from prunus.core.errors import ConfigError

__all__ = ["Lines", "Place", "override", "read_yaml"]

Place = tuple[str, ...]
"""The keys that lead to a value, from the outside in."""


@dataclass(frozen=True)
class Lines:
    """Where each key is written."""

    path: Path
    lines: Mapping[Place, int]
    typed: Sequence[Place] = ()
    """The keys that were set on the command line."""

    def where(self, place: Place) -> str:
        """Say where a key, or the nearest section around it, is written."""
        for length in range(len(place), -1, -1):
            start = place[:length]
            if start in self.typed:
                return f"-o {'.'.join(start)}"
            if start in self.lines and start:
                return f"{self.path}, line {self.lines[start]}"
        return str(self.path)


def read_yaml(path: Path) -> tuple[dict[str, Any], dict[Place, int]]:
    """Return what a file says, and the line of each key."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{str(path)!r} cannot be read: {getattr(error, 'strerror', None) or error}",
            fix="give the path of a YAML file; prunus init writes one",
        ) from error
    try:
        node = yaml.compose(text, yaml.SafeLoader)
        lines = {} if node is None else dict(_lines(node, (), path))
        data = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        raise ConfigError(
            f"{path}{line} is no YAML: {getattr(error, 'problem', None) or error}",
            fix="indent with spaces, a key and its value as KEY: VALUE, and put text with colons "
            "or brackets in quotes",
        ) from error
    if data is None:
        data = {}
    if not isinstance(data, dict):
        raise ConfigError(
            f"{path} holds a {type(data).__name__}, and no sections",
            fix="begin with model: and its keys below; prunus init writes an example",
        )
    return data, lines


def _lines(node: yaml.Node, place: Place, path: Path) -> list[tuple[Place, int]]:
    if not isinstance(node, yaml.MappingNode):
        return []
    found: list[tuple[Place, int]] = []
    seen: dict[Place, int] = {}
    for key, value in node.value:
        own = (*place, str(key.value))
        line = key.start_mark.line + 1
        if own in seen:
            raise ConfigError(
                f"{path}: {'.'.join(own)!r} is written twice, in lines {seen[own]} and {line}",
                fix="delete one of the two",
            )
        seen[own] = line
        found += [(own, line), *_lines(value, own, path)]
    return found


def override(data: dict[str, Any], text: str) -> Place:
    """Set one key as "a.b=c", the value written as in YAML; return which."""
    name, sign, value = text.partition("=")
    place = tuple(name.strip().split("."))
    if not sign or not all(place):
        raise ConfigError(
            f"-o {text!r} sets nothing",
            fix="write the key, =, and the value, such as -o train.epochs=5",
        )
    try:
        found = yaml.safe_load(value)
    except yaml.YAMLError as error:
        raise ConfigError(
            f"-o {text!r}: {value!r} is no value of YAML",
            fix="put it in quotes, such as -o 'model.name=\"timm:resnet18\"'",
        ) from error
    section = data
    for key in place[:-1]:
        if section.get(key) is None:
            section[key] = {}
        section = section[key]
        if not isinstance(section, dict):
            raise ConfigError(
                f"-o {text!r}: {key!r} is no section, but the value {section!r:.40}",
                fix=f"set {key!r} itself, or delete it from the file",
            )
    section[place[-1]] = found
    return place

"""The file that `prunus init` writes: every key, what it means, and its value."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import yaml
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from prunus.tasks.config import Config
from prunus.tasks.yaml_errors import section_of

__all__ = ["example"]

WIDTH = 96

_HEAD = """\
# What prunus works on. Keys behind a # have the value that is shown; take the # away to
# change it. Any key can be set on the command line, too: -o train.epochs=5
# Relative paths are relative to this file.
"""

_SHOWN = {
    "model": ("name",),
    "data": ("kind", "channels"),
    "metric": ("name",),
    "train": ("epochs", "learning_rate"),
    "analysis": ("ratios",),
    "prune": ("recalibrate",),
    "finetune": ("epochs", "learning_rate"),
}
"""What stands there ready to be changed; the rest is behind a #."""

_ONLY = {"finetune": ("epochs", "learning_rate", "distillation", "patience")}
"""Sections that repeat another, and what is shown of them."""

_DIGITS: dict[str, dict[str, Any]] = {
    "model": {"name": "prunus.tasks.digits:network"},
    "data": {"kind": "digits", "channels": 1},
}
"""The task that needs no file: scikit-learn's scanned digits."""


def example(chosen: Mapping[str, Mapping[str, Any]] | None = None) -> str:
    """Return the text of a file in which `chosen` is set: {"model": {"name": ...}}."""
    values: Mapping[str, Mapping[str, Any]] = chosen or _DIGITS
    parts = [_HEAD]
    for name, field in Config.model_fields.items():
        section = section_of(Config, (name,))
        if section is None:
            parts.append("\n".join(_entry(name, field, {}, shown=False, indent="")))
            continue
        parts += ["\n".join(_words(field.description or "", ""))]
        own = values.get(name, {})
        shown = {*_SHOWN.get(name, ()), *own}
        body = list(_section(section, own, shown, "  ", only=_ONLY.get(name)))
        parts.append("\n".join([f"{name}:", *body]) + "\n")
    return "\n".join(parts)


def _section(
    section: type[BaseModel],
    values: Mapping[str, Any],
    shown: set[str],
    indent: str,
    only: Sequence[str] | None = None,
) -> Iterator[str]:
    for name, field in section.model_fields.items():
        if only is not None and name not in {*only, *values}:
            continue
        inner = section_of(section, (name,))
        if inner is None:
            yield from _entry(name, field, values, shown=name in shown, indent=indent)
        else:
            yield from _words(field.description or "", indent)
            yield f"{indent}#{name}:"
            for line in _section(inner, {}, set(inner.model_fields), ""):
                yield f"{indent}#  {line}"


def _entry(
    name: str, field: Any, values: Mapping[str, Any], *, shown: bool, indent: str
) -> Iterator[str]:
    yield from _words(field.description or "", indent)
    value = values[name] if name in values else _default(field)
    mark = "" if shown else "#"
    yield f"{indent}{mark}{name}: {_yaml(value)}"


def _words(text: str, indent: str) -> list[str]:
    return [f"{indent}# {line}" for line in textwrap.wrap(text, WIDTH - len(indent) - 4)]


def _default(field: Any) -> Any:
    if field.default is not PydanticUndefined:
        return field.default
    return field.default_factory() if field.default_factory else None


def _yaml(value: Any) -> str:
    if isinstance(value, tuple):
        value = list(value)
    elif value is not None and not isinstance(value, bool | int | float | str | list | dict):
        value = str(value)
    text = yaml.safe_dump(value, default_flow_style=True, width=10_000, allow_unicode=True)
    return text.removesuffix("\n").removesuffix("\n...")

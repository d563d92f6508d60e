"""What is wrong with a YAML file, in one sentence and one fix."""

from __future__ import annotations

import typing
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel, ValidationError

from prunus.core.errors import ConfigError, nearest
from prunus.tasks.yaml_file import Lines, Place

__all__ = ["explain", "fields", "section_of"]


def explain(
    error: ValidationError, config: type[BaseModel], lines: Lines, inherited: set[str]
) -> ConfigError:
    """Return the first thing that is wrong, and how many others there are.

    Args:
        error: What pydantic found.
        config: The class of the whole file.
        lines: Where the keys are written.
        inherited: The keys of finetune that come from train, where their errors are, too.
    """
    found = [one for one in error.errors() if not _inherited(one, error, inherited)]
    # A key that is misspelled is often why another is missing.
    found.sort(key=lambda one: one["type"] != "extra_forbidden")
    problem, fix = _words(found[0], config, lines)
    rest = list(dict.fromkeys(_name(_place(one, config)) for one in found[1:]))
    if rest:
        problem += f" (and {len(rest)} more: {', '.join(rest[:3])})"
    return ConfigError(problem, fix=fix)


def _inherited(one: Any, error: ValidationError, keys: set[str]) -> bool:
    """Tell whether an error of finetune is one of train."""
    if one["loc"][:1] != ("finetune",):
        return False
    twin = ("train", *one["loc"][1:])
    said = any(other["loc"] == twin and other["msg"] == one["msg"] for other in error.errors())
    return said and (len(twin) == 1 or twin[1] in keys)


def _words(one: Any, config: type[BaseModel], lines: Lines) -> tuple[str, str]:
    place = _place(one, config)
    name, where = _name(place), lines.where(place)
    known = fields(config)
    if one["type"] == "extra_forbidden":
        twins = [key for key in known if key.split(".")[-1] == place[-1]]
        inside = [key for key in known if key.split(".")[:-1] == list(place[:-1])]
        close = ", ".join(repr(key) for key in twins) if twins else nearest(name, inside or known)
        return f"{where}: there is no key {name!r}", f"the nearest are {close}"
    description = known.get(".".join(place), "")
    if one["type"] == "missing":
        return f"{where}: {name!r} is missing", f"set it: {_lower(description)}"
    said = one["msg"].removeprefix("Value error, ")
    said = said.replace("Input should be", "it should be")
    if one["type"] == "model_type":
        said = "it should be a section, with keys of its own"
    if one["type"] == "value_error" and section_of(config, place) is not None:
        return f"{where}: {said}", f"change that in the section {name!r}"
    return (
        f"{where}: {name!r} is {one['input']!r:.60}, and {_lower(said)}",
        f"set it: {_lower(description)}" if description else "see prunus init for an example",
    )


def _place(one: Any, config: type[BaseModel]) -> Place:
    """Return the keys that lead to an error, without what pydantic adds for unions."""
    place: list[str] = []
    section: type[BaseModel] | None = config
    for part in one["loc"]:
        if section is None or isinstance(part, int):
            break
        place.append(str(part))
        section = section_of(config, tuple(place))
    return tuple(place)


def _name(place: Place) -> str:
    return ".".join(place) or "the file"


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:].rstrip(".")


def section_of(config: type[BaseModel], place: Place) -> type[BaseModel] | None:
    """Return the class of the section at a place; None where there is a value, or nothing."""
    section: type[BaseModel] | None = config
    for part in place:
        field = section.model_fields.get(part) if section is not None else None
        section = None if field is None else _model_in(field.annotation)
    return section


def _model_in(annotation: Any) -> type[BaseModel] | None:
    for kind in (annotation, *typing.get_args(annotation)):
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            return kind
    return None


def fields(config: type[BaseModel], start: str = "") -> dict[str, str]:
    """Return every key of the file, as "train.epochs", with its description."""
    return dict(_fields(config, start))


def _fields(config: type[BaseModel], start: str) -> Iterator[tuple[str, str]]:
    for name, field in config.model_fields.items():
        yield f"{start}{name}", field.description or ""
        inner = _model_in(field.annotation)
        if inner is not None:
            yield from _fields(inner, f"{start}{name}.")

"""Find out what a neural network can lose, then take it out."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prunus.api import analyze, load, merge, prune, save, trace
    from prunus.core.engine.evaluation import Evaluation
    from prunus.core.errors import PrunusError
    from prunus.core.graph.rules import default_rules
    from prunus.core.plan.plan import Plan
    from prunus.core.results import Pruned, Trace
    from prunus.core.study.study import Study

__all__ = [
    "Evaluation",
    "Plan",
    "Pruned",
    "PrunusError",
    "Study",
    "Trace",
    "analyze",
    "default_rules",
    "load",
    "merge",
    "prune",
    "save",
    "trace",
]

_HOMES = {
    "prunus.api": ("analyze", "load", "merge", "prune", "save", "trace"),
    "prunus.core.engine.evaluation": ("Evaluation",),
    "prunus.core.errors": ("PrunusError",),
    "prunus.core.graph.rules": ("default_rules",),
    "prunus.core.plan.plan": ("Plan",),
    "prunus.core.results": ("Pruned", "Trace"),
    "prunus.core.study.study": ("Study",),
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for.

    The command line is a part of this package, and its help must not wait for NumPy.
    """
    for home, names in _HOMES.items():
        if name in names:
            found = getattr(importlib.import_module(home), name)
            globals()[name] = found
            return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__

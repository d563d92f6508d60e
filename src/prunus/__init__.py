"""Find out what a neural network can lose, then take it out."""

from prunus.api import load, prune, save, trace
from prunus.core.errors import PrunusError
from prunus.core.graph.rules import default_rules
from prunus.core.plan.plan import Plan
from prunus.core.results import Pruned, Trace

__all__ = [
    "Plan",
    "Pruned",
    "PrunusError",
    "Trace",
    "default_rules",
    "load",
    "prune",
    "save",
    "trace",
]

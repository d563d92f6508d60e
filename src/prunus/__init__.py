"""Find out what a neural network can lose, then take it out."""

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

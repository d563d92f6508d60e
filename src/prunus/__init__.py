"""Find out what a neural network can lose, then take it out."""

from prunus.api import load, prune, save, trace
from prunus.core.errors import PrunusError
from prunus.core.graph.rules import default_rules

__all__ = ["PrunusError", "default_rules", "load", "prune", "save", "trace"]

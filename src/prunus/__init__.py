"""Find out what a neural network can lose, then take it out."""

from prunus.api import prune, trace

__all__ = ["prune", "trace"]

"""Small nets, one graph pattern each: `PATTERNS` by name, filled by the families."""

from . import (
    attention,
    functional,
    gates,
    groups,
    heads,
    joins,
    layout,
    norms,
    parametrized,
    recurrent,
    splits,
)
from .base import PATTERNS, Net, Pattern

__all__ = [
    "PATTERNS",
    "Net",
    "Pattern",
    "attention",
    "functional",
    "gates",
    "groups",
    "heads",
    "joins",
    "layout",
    "norms",
    "parametrized",
    "recurrent",
    "splits",
]

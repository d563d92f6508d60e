"""What each operator does to the axes around it: one file a family, one function an operator."""

from prunus.core.graph.rules import (  # noqa: F401  (each import fills the table)
    attention,
    contraction,
    elementwise,
    layout,
    normalize,
    pool,
    recurrent,
)
from prunus.core.graph.rules._registry import (
    Rule,
    Rules,
    View,
    default_rules,
    facts_of,
    registered_ops,
)

__all__ = ["Rule", "Rules", "View", "default_rules", "facts_of", "registered_ops"]

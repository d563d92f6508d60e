"""Which cells of one group tell where its curve crosses the budget.

Cells are named by their place: the more channels go, the later.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["frontier"]


def frontier(sides: Sequence[bool | None], settled: Sequence[bool]) -> list[int]:
    """Return the places of the cells to measure; none where two neighbours tell.

    `sides` holds whether a cell is within the budget, as far as that is known, and `settled`
    whether that is for good. Halving finds two neighbours, one within and one beyond; what is
    not settled of these two is measured on. Should one change sides, the search goes on
    from there. Where the curve crosses more than once, the last cell within counts: it is
    the one that the loss rule takes.

    >>> frontier([None, None, None, None, None], [False] * 5)
    [2]
    >>> frontier([None, None, True, None, None], [False] * 5)
    [3]
    >>> frontier([None, None, True, False, None], [False, False, False, True, False])
    [2]
    """
    within = max((place for place, side in enumerate(sides) if side), default=-1)
    beyond = next((k for k in range(within + 1, len(sides)) if sides[k] is False), len(sides))
    if beyond - within > 1:
        return [(within + beyond) // 2]
    return [k for k in (within, beyond) if 0 <= k < len(sides) and not settled[k]]

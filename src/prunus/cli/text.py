"""How numbers and tables look: boxes on a terminal, plain columns elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["console", "more", "share", "short", "table"]


def console() -> Console:
    """Return where to print; elsewhere than on a terminal no line is ever broken."""
    from rich.console import Console

    out = Console(highlight=False, markup=False, emoji=False)
    return (
        out
        if out.is_terminal
        else Console(highlight=False, markup=False, emoji=False, width=10_000)
    )


def table(out: Console, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table: names to the left in the first column, numbers to the right in the others."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    made = Table(
        box=box.SIMPLE_HEAD if out.is_terminal else None,
        pad_edge=False,
        collapse_padding=True,
        header_style="bold" if out.is_terminal else "",
    )
    for k, title in enumerate(header):
        made.add_column(title, justify="right" if k else "left", no_wrap=bool(k), overflow="fold")
    for row in rows:
        # `Text` shows a name as it stands: brackets in it are no markup.
        made.add_row(*(Text(cell) for cell in row))
    out.print(made)


def short(number: float) -> str:
    """Write a count with three digits and a unit.

    >>> short(1_814_073_344), short(11_689_512), short(640)
    ('1.81 G', '11.7 M', '640')
    """
    value = float(number)
    for unit in ("", " k", " M", " G", " T"):
        if value < 999.5 or unit == " T":
            break
        value /= 1000
    if not unit:
        return f"{value:.0f}"
    return f"{value:.{2 if value < 9.995 else 1 if value < 99.95 else 0}f}{unit}"


def share(part: float, whole: float) -> str:
    """Write a part of a whole in per cent.

    >>> share(1, 8), share(1, 0)
    ('12.5 %', '-')
    """
    return f"{100 * part / whole:.1f} %" if whole else "-"


def more(names: Sequence[str], shown: int = 3) -> str:
    """List the first names, and say how many others there are.

    >>> more(["a", "b", "c", "d", "e"])
    'a, b, c and 2 more'
    """
    rest = len(names) - shown
    return ", ".join(names[:shown]) + (f" and {rest} more" if rest > 0 else "")

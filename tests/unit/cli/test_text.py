"""Numbers and tables for people."""

import io

import pytest
from rich.console import Console

from prunus.cli.text import console, more, share, short, table


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"),
        (999, "999"),
        (1000, "1.00 k"),
        (9_994, "9.99 k"),
        (9_999, "10.0 k"),
        (99_960, "100 k"),
        (999_499, "999 k"),
        (999_500, "1.00 M"),
        (1_814_073_344, "1.81 G"),
        (2.5e15, "2500 T"),
    ],
)
def test_three_digits_and_a_unit(number, text):
    assert short(number) == text


def test_a_share_of_nothing_is_no_number():
    assert share(0, 0) == "-"
    assert share(1, 3) == "33.3 %"


def test_the_first_names_and_how_many_others():
    assert more(["a"]) == "a"
    assert more(["a", "b", "c"]) == "a, b, c"
    assert more(["a", "b", "c", "d"]) == "a, b, c and 1 more"


def test_plain_columns_where_there_is_no_terminal(capsys):
    name = "[red]" + "x" * 200
    table(console(), ("name", "size"), [(name, "1"), ("b", "20")])
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines == [["name", "size"], [name, "1"], ["b", "20"]]


def test_a_terminal_gets_a_line_under_the_header_and_folds_long_names():
    out = Console(file=io.StringIO(), force_terminal=True, width=40, color_system=None)
    table(out, ("name", "size"), [("x" * 60, "1")])
    shown = out.file.getvalue()
    assert "───" in shown
    assert shown.count("x") == 60

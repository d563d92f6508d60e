"""The command `prunus`.

NOTE: `--help` must be quick, so each command imports what it needs when it runs.
"""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from prunus._version import __version__
from prunus.cli.analyze import analyze
from prunus.cli.demo import demo
from prunus.cli.export import export
from prunus.cli.finetune import finetune
from prunus.cli.init import init
from prunus.cli.merge import merge
from prunus.cli.params import params
from prunus.cli.plan import plan
from prunus.cli.prune import prune
from prunus.cli.report import report
from prunus.cli.train import train
from prunus.core.errors import PrunusError

__all__ = ["app", "main"]


class _Group(TyperGroup):
    """Shows our own errors as a message; any other exception keeps its traceback."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except PrunusError as error:
            typer.echo(f"error: {error}", err=True)
            raise typer.Exit(1) from error


app = typer.Typer(
    cls=_Group,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    rich_markup_mode=None,  # a third of the time that help takes
)
# In the order in which people need them.
for _command in (
    demo,
    init,
    params,
    train,
    analyze,
    merge,
    plan,
    prune,
    finetune,
    export,
    report,
):
    app.command()(_command)


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"prunus {__version__}")
        raise typer.Exit


@app.callback()
def _prunus(
    _version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Find out what a neural network can lose, then take it out."""


def main() -> None:
    """Run the command line."""
    # An installed script has its own folder on the path, and not the one people are in.
    if "" not in sys.path:
        sys.path.insert(0, "")
    app()

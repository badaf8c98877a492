"""The program `ddsfl`: one table of commands; `ends` turns errors and interruptions into one sentence."""

from __future__ import annotations

import importlib
import io
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

import ddsfl
from ddsfl.cli.ends import Interrupted, ended
from ddsfl.cli.help import Command, without_types
from ddsfl.cli.needs import check_needs
from ddsfl.report.text import ANY_TEXT, one_line


class Entry(NamedTuple):
    """One command of the table."""

    home: str
    """Module and name of its function, or of the Typer application of its sub-commands."""
    summary: str
    """The first line of its help, stored here so that `ddsfl --help` imports no command."""


COMMANDS = {
    "demo": Entry("demo:demo", "Learn and classify drawn scenes, and draw what was learned."),
    "check": Entry("check:check", "Find what is wrong with an image set, before training."),
    "train": Entry("train:train", "Learn a classifier from labelled images."),
    "predict": Entry("predict:predict", "Classify images."),
    "explain": Entry("explain:explain", "Show why images got their labels."),
    "evaluate": Entry("evaluate:evaluate", "Train and test on splits of an image set."),
    "compare": Entry("compare:compare", "Compare several methods on one image set, with a test."),
    "encode": Entry("encode:encode", "Compute the vectors of images and write them to a file."),
    "report": Entry("report:report", "Write one page on a model and its mistakes."),
    "inspect": Entry("inspect:inspect", "Describe a model and draw what it learned."),
    "search": Entry("search:search", "Choose settings by cross-validation on training images."),
    "reproduce": Entry(
        "reproduce:reproduce", "Print a table of the paper next to our results, or draw a figure."
    ),
    "shards": Entry("shards:app", "Check folders of Parquet parts, the results of predict and encode."),
    "datasets": Entry("datasets:app", "List, download and check image sets."),
}


class Program(TyperGroup):
    """The commands of the table, each imported when it is called."""

    listing = False

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        # Typer suggests the nearest of these for a name that does not exist.
        self.commands = {name: TyperCommand(name, help=entry.summary) for name, entry in COMMANDS.items()}

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command; for a listing only its name and summary."""
        if cmd_name not in COMMANDS or self.listing:
            return self.commands.get(cmd_name)
        return load_command(cmd_name)

    def get_params(self, ctx: Any) -> Any:
        """Return the options of the program itself."""
        return without_types(super().get_params(ctx))

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help without importing the commands."""
        self.listing = True
        super().format_help(ctx, formatter)

    def make_context(self, *args: Any, **options: Any) -> Any:
        """Read the arguments; what an error says about them is neutral text."""
        with _neutral():
            return super().make_context(*args, **options)

    def invoke(self, ctx: Any) -> Any:
        """Run a command."""
        with _neutral():
            return super().invoke(ctx)


@contextmanager
def _neutral() -> Iterator[None]:
    """Make the message of a wrong call neutral; let no interruption become Typer's silent end."""
    try:
        yield
    except KeyboardInterrupt as error:
        raise Interrupted(signal.SIGINT) from error
    except Exception as error:
        if hasattr(error, "format_message"):  # of a wrong call; the name of its class differs among versions
            message = one_line(error.format_message())
            error.format_message = lambda: message
        raise


def load_command(name: str) -> Any:
    """Import a command of the table."""
    from ddsfl.report.console import Console

    check_needs()
    module, _, attribute = COMMANDS[name].home.partition(":")
    with Console("--quiet" in sys.argv).passing("starting"):  # torch takes seconds
        function = getattr(importlib.import_module(f"ddsfl.cli.{module}"), attribute)
    if isinstance(function, typer.Typer):
        return typer.main.get_command(function)
    alone = typer.Typer(add_completion=False)
    alone.command(name, cls=Command)(function)
    return typer.main.get_command(alone)


app = typer.Typer(cls=Program, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"ddsfl {ddsfl.__version__}")
        raise typer.Exit


@app.callback()
def program(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """Learn local image features from small labelled image sets, and classify with them."""


def main() -> None:
    """Run the program; errors and interruptions end with one sentence and an exit code."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors=ANY_TEXT)
    raise SystemExit(ended(app))

"""The program `ddsfl`: one table of commands; errors and interruptions become one sentence here."""

from __future__ import annotations

import importlib
import io
import os
import sys
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

import ddsfl
from ddsfl.cli.help import Command, without_types
from ddsfl.report.text import ANY_TEXT


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
    "encode": Entry("encode:encode", "Compute the vectors of images and write them to a file."),
    "inspect": Entry("inspect:inspect", "Describe a model and draw what it learned."),
    "search": Entry("search:search", "Choose settings by cross-validation on training images."),
    "reproduce": Entry(
        "reproduce:reproduce", "Print a table of the paper next to our results, or draw a figure."
    ),
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

    def invoke(self, ctx: Any) -> Any:
        """Run a command; an error prints one sentence and exits with code 1, an interruption with 130."""
        try:
            try:
                return super().invoke(ctx)
            finally:
                _flush()  # here an error becomes a sentence
        except BrokenPipeError:  # `head` has seen enough: Typer ends the program without a message
            raise
        except (ValueError, OSError, MemoryError, ImportError) as error:  # ImportError: a missing extra
            _end(f"ddsfl: {_sentence(error)}", code=1, error=error)
        except KeyboardInterrupt as error:
            _end("\nddsfl: interrupted", code=130, error=error)
        finally:
            _stop_progress()


def load_command(name: str) -> Any:
    """Import a command of the table."""
    from ddsfl.report.console import Console

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
    """Run the program."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors=ANY_TEXT)
    app()


def _flush() -> None:
    """Write what is left; what a full disk or a closed pipe refuses is not tried again as Python ends."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise


def _stop_progress() -> bool:
    """End the running line of progress; return whether the command can be resumed."""
    from ddsfl.report.console import Console  # already imported, unless the command is unknown

    return Console.break_off()


def _end(sentence: str, *, code: int, error: BaseException) -> None:
    resumes = _stop_progress()
    if code == 130:
        sentence += "; rerun the same command to resume." if resumes else "."
    print(sentence, file=sys.stderr)
    raise typer.Exit(code) from error


def _sentence(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    return str(error) or type(error).__name__

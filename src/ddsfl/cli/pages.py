"""Pages that commands write: their names are checked before any work."""

from __future__ import annotations

from pathlib import Path

import typer

from ddsfl.cli.inputs import check_writable
from ddsfl.cli.outputs import hold_file
from ddsfl.compute.stages import write_whole
from ddsfl.report.console import Console
from ddsfl.report.pages.report import report_page
from ddsfl.report.pages.report_view import Report


def check_page(context: typer.Context, page: Path, console: Console, option: str = "--out") -> None:
    """Check that a page can be written, and hold it until the command ends."""
    if page.suffix.lower() not in (".html", ".htm"):
        raise typer.BadParameter(f"{option} is {page}; expected a name that ends in .html")
    check_writable(page, option)
    hold_file(context, page, console)


def write_page(report: Report, page: Path, console: Console) -> None:
    """Write the page of a report."""
    with console.passing("page"):
        text = report_page(report).encode("utf-8", "replace")
    write_whole(page, text)
    console.say(f"{page}: {len(text) / 1e6:.1f} MB; open it in a browser")

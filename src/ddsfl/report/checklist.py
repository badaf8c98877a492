"""Findings for people: a table of all, or one line per kind."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from rich.console import Group
from rich.table import Column, Table
from rich.text import Text

from ddsfl.images.folders import ImageSet
from ddsfl.images.image_list import ImageList
from ddsfl.report.checks import check_images
from ddsfl.report.console import Console
from ddsfl.report.findings import Finding, Item, Severity, Subject

#: Examples per kind in the table; the complete lists are in JSON.
EXAMPLES = 3
#: Lines of the short form.
LINES = 8
_STYLES: dict[Severity, str] = {"error": "bold red", "warning": "yellow", "note": "cyan"}


def findings_table(findings: Sequence[Finding], paths: Sequence[Path]) -> Table:
    """Return a table of all findings, with examples named relative to the folder of ``paths``."""
    root = common_folder(paths)
    table = Table(
        "", "count", Column("what", ratio=2), Column("examples", ratio=3, overflow="fold"), show_lines=True
    )
    for finding in findings:
        # A name is often longer than the column: the mark shows where the next example begins.
        examples = [f"- {item_words(item, root)}" for item in finding.items[:EXAMPLES]]
        left = len(finding.items) - EXAMPLES
        examples += [f"and {left} more"] if left > 0 else []
        severity = Text(finding.severity, _STYLES[finding.severity])
        what = Group(Text(finding.title, "bold"), Text(finding.advice))
        table.add_row(severity, str(finding.count), what, Group(*map(Text, examples)))
    return table


def check_briefly(
    image_set: ImageSet,
    images: ImageList,
    sides: tuple[frozenset[int], frozenset[int]] | None,
    console: Console,
) -> list[Finding]:
    """Check a set (see `Subject`) and print one line per kind; notes only unless quiet."""
    findings = check_images(Subject(image_set, images, sides=sides))
    root = common_folder(image_set.paths)
    shown = findings if len(findings) <= LINES else findings[: LINES - 1]
    for finding in shown:
        example = item_words(finding.items[0], root)
        left = len(finding.items) - 1
        more = f" and {left} more" if left else ""
        line = f"{finding.severity}: {finding.title} ({finding.count}): {example}{more}. {finding.advice}"
        if finding.severity == "note":
            console.say(f"  - {line}")
        else:
            console.warn([line])
    if len(shown) < len(findings):
        console.say(f"  - {len(findings) - len(shown)} more kinds; `ddsfl check` lists all.")
    return findings


def common_folder(paths: Sequence[Path]) -> str:
    """Return the folder that all paths share, with a separator at its end; nothing if they share none."""
    try:
        return os.path.join(os.path.commonpath(paths), "")
    except ValueError:  # some are relative
        return ""


def item_words(item: Item, root: str) -> str:
    """Return an item in one line."""
    files = [file.removeprefix(root) for file in item.files]
    if len(files) > EXAMPLES:
        files[EXAMPLES:] = [f"{len(files) - EXAMPLES} more"]
    named = ", ".join(files)
    if named and item.detail:
        return f"{named}: {item.detail}"
    return named or item.detail

"""CSV that a spreadsheet shows and never runs: cells that look like formulas get an apostrophe in front."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable
from typing import IO

#: What a spreadsheet takes for the beginning of a formula, also behind blanks and quotes and in full width.
_FORMULA = re.compile(r"""[\s'"]*[=+\-@\uff1d\uff0b\uff0d\uff20]|[\t\r]""")
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?|[+-]?(inf|nan)")


class CsvWriter:
    """Writes rows to a stream; cells that a spreadsheet would run are quoted unless ``raw``.

    >>> import sys
    >>> CsvWriter(sys.stdout).write(["=1+1", "-0.5", "-beach", "beach"])
    '=1+1,-0.5,'-beach,beach
    """

    def __init__(self, stream: IO[str], *, raw: bool = False) -> None:
        self._rows, self._raw = csv.writer(stream), raw

    def write(self, cells: Iterable[str]) -> None:
        """Write one row."""
        self._rows.writerow([cell if self._raw else quoted(cell) for cell in cells])


def quoted(cell: str) -> str:
    """Return a cell with an apostrophe in front if a spreadsheet would take it for a formula.

    >>> quoted("=A1"), quoted("-1e-5"), quoted("'+x"), quoted("a=b")
    ("'=A1", '-1e-5', "''+x", 'a=b')
    """
    return f"'{cell}" if _runs(cell) else cell


def unquoted(cell: str) -> str:
    """Return what `quoted` was given; other cells stay as they are.

    >>> unquoted("'=A1"), unquoted("'quoted'")
    ('=A1', "'quoted'")
    """
    return cell[1:] if cell.startswith("'") and _runs(cell[1:]) else cell


def _runs(cell: str) -> bool:
    return _FORMULA.match(cell) is not None and _NUMBER.fullmatch(cell) is None

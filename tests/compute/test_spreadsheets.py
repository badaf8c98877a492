"""CSV cells that a spreadsheet would run."""

import csv
import io

import pytest

from ddsfl.compute.spreadsheets import CsvWriter, quoted, unquoted

RUN = [
    "=1+1", "=cmd|' /C calc'!A0", "+1+cmd", "-beach", "@SUM(A1)", "\tx", "\rx", "  =1+1", '"=1+1"', "'=1+1",
    "\n=1", "-1-1", "+", "-", "--1", "-1e5x", "\uff1d1", "-0x10", "=",
]  # fmt: skip
PLAIN = [
    "", "beach", "-0.5", "+3", "1e-5", "-1.5e+10", "-.5", "-5.", "a=b", "a@b.c", "x-y", "'quoted'",
    "0.5; -0.2", " beach", "-inf", "nan",
]  # fmt: skip


@pytest.mark.parametrize("cell", RUN)
def test_cells_that_run_get_an_apostrophe_and_come_back(cell):
    assert quoted(cell) == f"'{cell}"
    assert unquoted(quoted(cell)) == cell


@pytest.mark.parametrize("cell", PLAIN)
def test_numbers_and_other_text_stay(cell):
    assert quoted(cell) == unquoted(cell) == cell


def test_rows_are_quoted_unless_raw():
    for raw, first in ((False, "'=x,\n"), (True, "=x,\n")):
        stream = io.StringIO(newline="")
        CsvWriter(stream, raw=raw).write(["=x,\n", "-1"])
        assert list(csv.reader(io.StringIO(stream.getvalue(), newline=""))) == [[first, "-1"]]

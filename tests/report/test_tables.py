"""Tables in pipes, on narrow terminals and in ASCII."""

import io
import re
import sys

from rich.table import Table
from rich.text import Text

from ddsfl.report import console as module
from ddsfl.report.console import show
from ddsfl.report.text import ANY_TEXT


def table_of(*names):
    table = Table("image", "label", title="Images")
    for name in names:
        table.add_row(Text(name), "sea ± 1")
    return table


def test_tables_in_a_pipe_are_complete(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    name = "folder/" + 30 * "long name " + ".jpg"
    show(table_of(name))
    assert name in capsys.readouterr().out


def test_tables_on_a_narrow_terminal_are_folded(capsys, monkeypatch):
    monkeypatch.setattr(module, "_is_terminal", lambda stream: True)
    monkeypatch.setenv("COLUMNS", "40")
    name = "abcdefghijklmnopqrstuvwxyz" * 3
    show(table_of(name))
    out = capsys.readouterr().out
    assert all(len(line) <= 40 for line in out.splitlines())
    assert name in re.sub(r"[^a-z]|sea", "", out)


def test_tables_in_ascii_stay_in_line(monkeypatch):
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii", errors=ANY_TEXT)
    monkeypatch.setattr(sys, "stdout", stream)
    show(table_of("Küche 海.jpg", "plain.jpg"))
    stream.flush()
    lines = raw.getvalue().decode("ascii").splitlines()
    assert any("K\\xfcche \\u6d77.jpg" in line for line in lines)
    assert any("sea +- 1" in line for line in lines)
    assert {line[0] for line in lines[1:]} <= set("+|")

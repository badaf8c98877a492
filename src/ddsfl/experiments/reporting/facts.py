"""Small tables of a report: settings, provenance, times, and what was found in the image set."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ddsfl.experiments.cells import Cell
from ddsfl.experiments.results import provenance
from ddsfl.report.checklist import item_words
from ddsfl.report.console import describe_stage
from ddsfl.report.findings import Finding
from ddsfl.report.pages.report_view import Facts, Found

#: Examples of a finding.
_EXAMPLES = 5


def facts_of_cells(cells: Sequence[Cell]) -> tuple[Facts, ...]:
    """Return where the numbers come from, and with which settings they were computed."""
    known = provenance(cells)
    rows = [
        ("image set", _one_of(cells, "dataset")),
        ("method", _one_of(cells, "method")),
        ("splits", str(len(cells))),
        ("training images", _range(cells, "n_train")),
        ("test images", _range(cells, "n_test")),
        ("C of the SVM", _range(cells, "C")),
        *((name, ", ".join(values)) for name, values in known.items()),
        ("digests of the images", _one_of(cells, "pixels")),
    ]
    about = Facts("Where the numbers come from", tuple((name, value) for name, value in rows if value))
    return about, settings_facts(cells[0]["settings"])


def settings_facts(settings: Mapping[str, Any]) -> Facts:
    """Return all settings, each by its path.

    >>> settings_facts({"colour": "gray", "layers": [{"field": 16, "bank": {"eta": 0.1}}]}).rows
    (('colour', 'gray'), ('layers.0.field', '16'), ('layers.0.bank.eta', '0.1'))
    """
    return Facts("Settings", tuple(_flattened(settings)))


def _flattened(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield the path and the text of each single value; lists of numbers stay together."""
    inner: list[tuple[str, Any]] = []
    if isinstance(value, Mapping):
        inner = [(str(name), one) for name, one in value.items()]
    elif isinstance(value, list | tuple) and any(isinstance(one, Mapping) for one in value):
        inner = [(str(number), one) for number, one in enumerate(value)]
    else:
        yield path, str(value)
        return
    for name, one in inner:
        yield from _flattened(one, f"{path}.{name}" if path else name)


def _one_of(cells: Sequence[Cell], name: str) -> str:
    return ", ".join(dict.fromkeys(str(cell[name]) for cell in cells if cell.get(name)))


def _range(cells: Sequence[Cell], name: str) -> str:
    values = sorted(cell[name] for cell in cells if type(cell.get(name)) in (int, float))
    if not values:
        return ""
    return f"{values[0]:,}" if values[0] == values[-1] else f"{values[0]:,} to {values[-1]:,}"


def times_of(seconds: Sequence[Mapping[str, float]]) -> tuple[tuple[str, float], ...]:
    """Return the mean seconds of each kind of stage over several fits, in the order of the stages.

    >>> times_of([{"sift.vectors1": 1.0, "sift.vectors2": 2.0, "classifier": 4.0}, {"classifier": 2.0}])
    (('sift: vectors', 1.5), ('classifier', 3.0))
    """
    each: dict[str, list[float]] = {}
    for number, fit in enumerate(seconds):
        for name, value in fit.items():
            kind = re.sub(r", part \d+$", "", describe_stage(name))
            each.setdefault(kind, [0.0] * len(seconds))[number] += value
    return tuple((kind, float(np.mean(values))) for kind, values in each.items())


def found_part(findings: Sequence[Finding], root: str) -> tuple[Found, ...]:
    """Return what a check found, with some examples; file names are relative to ``root``."""
    return tuple(
        Found(
            severity=finding.severity,
            title=finding.title,
            advice=finding.advice,
            count=finding.count,
            examples=tuple(item_words(item, root) for item in finding.items[:_EXAMPLES]),
        )
        for finding in findings
    )

"""Tables drawn from cells, as text and Markdown; all numbers come from cell files."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.figure import Figure
from rich.table import Column, Table
from rich.text import Text

from ddsfl.experiments.cells import Cell
from ddsfl.experiments.results import (
    MISSING,
    CellsByMethod,
    Difference,
    Summary,
    compare,
    prescribed_splits,
    provenance,
    read_cells,
    summarise,
)
from ddsfl.experiments.tables import BANK_SIZES, TableOfRows, bank_method
from ddsfl.report.plots import save_figure

CHANGED = "* computed with settings that differ from the method's current ones."


@dataclass(frozen=True)
class DrawnTable:
    """A table with its numbers.

    Attributes
    ----------
    rows : definition of the table.
    datasets : its columns.
    summaries : one per row and data set; None for cited rows.
    comparisons : (data set, method, better method, difference).
    cells : all cells that the numbers come from.
    """

    rows: TableOfRows
    datasets: tuple[str, ...]
    summaries: tuple[tuple[Summary | None, ...], ...]
    comparisons: tuple[tuple[str, str, str, Difference], ...]
    cells: tuple[Cell, ...]

    def lines(self) -> list[list[str]]:
        """Return the table as text: per row the label, then our number and the paper's for each data set."""
        lines = []
        for row, summaries in zip(self.rows.rows, self.summaries):
            line = [row.label]
            for dataset, summary in zip(self.datasets, summaries):
                line.append("" if summary is None else str(summary))
                if self.has_paper(dataset):
                    line.append(f"{row.paper[dataset]:.2f}" if dataset in row.paper else "")
            lines.append(line)
        return lines

    def has_paper(self, dataset: str) -> bool:
        """Return whether the paper has numbers for a data set."""
        return any(dataset in row.paper for row in self.rows.rows)

    def header(self) -> list[str]:
        """Return the titles of the columns of `lines`."""
        titles = [""]
        for dataset in self.datasets:
            titles += [dataset, "paper"] if self.has_paper(dataset) else [dataset]
        return titles

    def notes(self) -> list[str]:
        """Return the lines below the table: its notes, the meaning of marks, and comparisons."""
        marked = any(summary and summary.changed for line in self.summaries for summary in line)
        notes = [*self.rows.notes, *([CHANGED] if marked else [])]
        return notes + [difference_words(*each) for each in self.comparisons]


def difference_words(dataset: str, method: str, better: str, found: Difference) -> str:
    """Return a comparison as one line of text.

    >>> difference_words("scene15", "rica-1layer", "ddsfl-1layer", Difference(0.5, 0.2, 5, 0.004, 0.03))
    'scene15: ddsfl-1layer over rica-1layer +0.50 ± 0.20 (5 splits; p 0.004, corrected 0.03)'
    """
    start = f"{dataset}: {better} over {method} {found.mean:+.2f}"
    if found.n == 1:
        return f"{start} (1 split)"
    p_values = f"p {found.p:.2g}, corrected {found.p_corrected:.2g}"
    return f"{start} ± {found.spread:.2f} ({found.n} splits; {p_values})"


def draw_cells(
    rows: TableOfRows, folder: Path, datasets: Sequence[str], n_splits: int | None = None
) -> DrawnTable:
    """Fill a table from the cells in ``folder``; missing cells stay missing.

    Rows show the first ``n_splits`` splits, by default as many as the protocol prescribes. Without
    ``n_splits``, pairs are compared on all splits that both methods have: more splits distinguish smaller
    differences from chance.
    """
    shown = {dataset: read_cells(folder, dataset, n_splits) for dataset in datasets}
    every = {dataset: read_cells(folder, dataset, n_splits or sys.maxsize) for dataset in datasets}
    summaries = [
        tuple(
            None
            if row.method is None
            else summarise(cells.get(row.method, {}), n_splits or prescribed_splits(dataset))
            for dataset, cells in shown.items()
        )
        for row in rows.rows
    ]
    comparisons = [
        (dataset, method, better, difference)
        for dataset, cells in every.items()
        for method, better in rows.pairs
        if (difference := _between(cells, method, better)) is not None
    ]
    used = [
        cell for cells in every.values() for method in rows.methods for cell in cells.get(method, {}).values()
    ]
    return DrawnTable(rows, tuple(datasets), tuple(summaries), tuple(comparisons), tuple(used))


def _between(cells: CellsByMethod, method: str, better: str) -> Difference | None:
    return compare(cells.get(method, {}), cells.get(better, {}))


def as_text(drawn: DrawnTable) -> Table:
    """Return the table for a terminal."""
    columns = [
        Column(title, justify="right" if number else "left") for number, title in enumerate(drawn.header())
    ]
    shown = Table(*columns, title=drawn.rows.title, caption=_caption(drawn), caption_justify="left")
    for line in drawn.lines():
        shown.add_row(*map(Text, line))
    return shown


def _caption(drawn: DrawnTable) -> Text:
    legend = f"Percent, mean ± standard deviation (splits); {MISSING} missing."
    return Text("\n".join([legend, *drawn.notes()]))


def as_markdown(drawn: DrawnTable, command: str) -> str:
    """Return the table in Markdown, with the command that draws it and the origin of its cells."""
    header = drawn.header()
    lines = [f"## {drawn.rows.title}", "", f"`{command}`", ""]
    lines += [pipes(header), pipes(["---", *["---:"] * (len(header) - 1)])]
    lines += [pipes(line) for line in drawn.lines()]
    notes = drawn.notes()
    lines += ["", *(f"- {note}" for note in notes), *([""] if notes else [])]
    return "\n".join([*lines, _origin(drawn.cells), ""])


def pipes(parts: Sequence[str]) -> str:
    """Return a row of a table in Markdown.

    >>> pipes(["GIST", "73.28"])
    '| GIST | 73.28 |'
    """
    return "| " + " | ".join(part.replace("|", "\\|") for part in parts) + " |"


def _origin(cells: Sequence[Cell]) -> str:
    if not cells:
        return "No cells yet."
    origins = [f"{name} {', '.join(values)}" for name, values in provenance(cells).items() if values]
    return f"{len(cells)} cells; {'; '.join(origins)}."


def draw_bank_sizes(path: Path, folder: Path, dataset: str, n_splits: int | None = None) -> None:
    """Draw the score over the number of filters, one line per number of layers, as in the paper's figure.

    Only splits that all sizes have in common are included, so points differ only in their filters.
    """
    cells = read_cells(folder, dataset, n_splits)
    sizes = {
        number: [size for size in BANK_SIZES if bank_method(number, size) in cells] for number in (1, 2, 3)
    }
    made = [set(cells[bank_method(number, size)]) for number in sizes for size in sizes[number]]
    common = set.intersection(*made) if made else set()
    figure = Figure(figsize=(7, 4.5))
    axes = figure.add_subplot()
    for number, colour in ((1, "#2563eb"), (2, "#d97706"), (3, "#059669")):
        points = []
        for size in sizes[number] if common else ():
            by_split = cells[bank_method(number, size)]
            points.append(summarise({split: by_split[split] for split in common}, len(common)))
        if points:
            means = [point.mean or 0.0 for point in points]
            spreads = [point.spread or 0.0 for point in points]
            label = f"{number} layer{'s' * (number > 1)}"
            axes.errorbar(sizes[number], means, spreads, color=colour, marker="o", capsize=3, label=label)
    axes.set_xscale("log", base=2)
    axes.set_xticks(BANK_SIZES, [str(size) for size in BANK_SIZES])
    axes.set_xlabel("filters per layer")
    axes.set_ylabel("mean class accuracy, %")
    axes.grid(color="#e5e7eb", linewidth=0.8)
    axes.spines[["top", "right"]].set_visible(False)
    if axes.containers:
        axes.legend(frameon=False, loc="lower right")
    title = f"Size of the filter bank, {dataset}, {len(common)} split{'s' * (len(common) != 1)}"
    axes.set_title(title, loc="left", fontsize=13, fontweight="bold")
    save_figure(figure, path)

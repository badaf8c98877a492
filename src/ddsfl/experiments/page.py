"""The page of results: all tables with rows to compare, between markers of a page that is kept by hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ddsfl.compute.stages import write_whole
from ddsfl.experiments.complement import complement
from ddsfl.experiments.drawing import as_markdown, draw_bank_sizes, draw_cells
from ddsfl.experiments.results import datasets_with_cells, read_cells
from ddsfl.experiments.tables import BANK_SIZES, NETWORKS, TABLES, TableOfRows, bank_method, table

#: What stands between these lines is written anew; all else in the page is kept.
START = "<!-- from here to the end mark: written by `ddsfl reproduce report`, do not edit -->"
END = "<!-- end of what `ddsfl reproduce report` writes -->"

LEGEND = """\
# Tables

Percent of mean class accuracy (VOC: mean average precision): mean ± standard deviation over the splits, in
brackets how many. A dash is a cell that has not been run. Beside ours stands the paper's number where the
data set is the paper's own. Differences are paired by split, over all splits that both methods have; the
corrected p allows for training sets that overlap (Nadeau and Bengio). Every number of ours is drawn from the
files in `cells/`.
"""

NOT_REPRODUCED = """\
## What is not reproduced here

- The paper's deep features are Caffe's fc6 (and fc7 in a footnote); that network is not at hand. The networks
  in the tables are others and are named.
- UIUC Sports, MIT Indoor 67 and PASCAL VOC 2012 are not at hand. Their protocols are implemented
  (`ddsfl reproduce TABLE --data DIR --dataset uiuc-sports`, `indoor67`, `voc2012`) and tested on small trees
  of the same form. sports8 and indoor10 stand in for two of them in form only: other images, other numbers,
  so the paper's are not set beside them.
- The paper's figure of bank sizes has no printed numbers to compare with.
"""


def write_report(cells: Path, out: Path, networks: Sequence[str] = NETWORKS) -> list[Path]:
    """Write ``results.md`` and its pictures into ``out`` from all cells; return the files.

    Text of an earlier ``results.md`` outside the markers stays.
    """
    out.mkdir(parents=True, exist_ok=True)
    there = datasets_with_cells(cells)
    parts, files = [LEGEND], [out / "results.md"]
    for name in TABLES:
        rows = table(name, networks)
        shown = [dataset for dataset in there if rows.suits(dataset) and _compares(rows, cells, dataset)]
        if not shown:
            continue
        command = f"ddsfl reproduce {name} {' '.join(f'--dataset {dataset}' for dataset in shown)}"
        parts.append(as_markdown(draw_cells(rows, cells, shown), command))
        for dataset in shown:
            if name == "bank-size":
                files.append(out / f"bank-size-{dataset}.png")
                draw_bank_sizes(files[-1], cells, dataset)
                parts.append(f"![Score over the number of filters, {dataset}]({files[-1].name})\n")
            elif name == "complement":
                parts += complement_parts(cells, dataset, networks)
    for picture in sorted(out.glob("filters-*.png")):
        dataset = picture.stem.removeprefix("filters-")
        command = f"`ddsfl reproduce filters --data DIR --dataset {dataset} --out {out}`"
        parts.append(f"## Filters of layer 1, {dataset}\n\n{command}\n\n![RICA and DDSFL]({picture.name})\n")
    parts.append(NOT_REPRODUCED)
    generated = "\n".join([START, "", *parts, END])
    write_whole(files[0], _replaced(files[0], generated).encode())
    return files


def complement_parts(cells: Path, dataset: str, networks: Sequence[str]) -> list[str]:
    """Return the tables of DDSFL and each network class by class, in Markdown."""
    found = read_cells(cells, dataset)
    pairs = (complement(found.get("ddsfl-3layers", {}), found.get(name, {})) for name in networks)
    return [pair.as_markdown(dataset) for pair in pairs if pair is not None]


def _compares(rows: TableOfRows, cells: Path, dataset: str) -> bool:
    """Return whether there is something to compare: two rows with cells, or one beside cited numbers."""
    made = set(rows.methods) & set(read_cells(cells, dataset))
    if rows.name == "bank-size":  # layers of one size belong to another table
        sizes = [{bank_method(layers, size) for layers in (1, 2, 3)} for size in BANK_SIZES]
        return sum(bool(made & methods) for methods in sizes) >= 2
    cited = any(row.method is None and dataset in row.paper for row in rows.rows)
    return len(made) >= (1 if cited else 2)


def _replaced(page: Path, generated: str) -> str:
    """Return the page with its generated part exchanged, or with one added at its end."""
    text = page.read_text(encoding="utf-8") if page.is_file() else ""
    before, start, rest = text.partition(START)
    if not start:
        return f"{text.rstrip()}\n\n{generated}\n".lstrip()
    _, end, after = rest.partition(END)
    if not end:
        raise ValueError(f"{page} has the line {START!r} but not {END!r} after it; expected both.")
    return before + generated + after

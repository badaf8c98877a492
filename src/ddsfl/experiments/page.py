"""The results page: all tables with rows to compare, written between two markers of a page edited by hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ddsfl.compute.stages import write_whole
from ddsfl.experiments.complement import complement
from ddsfl.experiments.drawing import as_markdown, draw_bank_sizes, draw_cells
from ddsfl.experiments.results import datasets_with_cells, read_cells
from ddsfl.experiments.tables import BANK_SIZES, NETWORKS, TABLES, TableOfRows, bank_method, table

#: Text between these lines is regenerated; the rest of the page is kept.
START = "<!-- from here to the end mark: written by `ddsfl reproduce all`, do not edit -->"
END = "<!-- end of what `ddsfl reproduce all` writes -->"

LEGEND = """\
# Tables

Mean class accuracy in percent (VOC: mean average precision): mean ± standard deviation over the splits, with
the number of splits in brackets. A dash marks a result that has not been computed. The paper's number is next
to ours if the data set is one of the paper's. Differences are paired by split, over all splits that both
methods have; the corrected p accounts for overlapping training sets (Nadeau and Bengio). All our numbers come
from the files in `results/cells/`.
"""

NOT_REPRODUCED = """\
## What is not reproduced here

- The paper's deep features are Caffe's fc6 (and fc7 in a footnote). That network is not available here; the
  tables use other networks and name them.
- UIUC Sports, MIT Indoor 67 and PASCAL VOC 2012 are not available here. Their protocols are implemented
  (`ddsfl reproduce TABLE --data DIR --dataset uiuc-sports`, `indoor67`, `voc2012`) and tested on small
  folders with the same layout. sports8 and indoor10 replace two of them in layout only: their images differ,
  so the paper's numbers are not shown next to them.
- The paper prints no numbers for its figure of bank sizes.
"""


def write_results(cells: Path, out: Path, networks: Sequence[str] = NETWORKS) -> list[Path]:
    """Write ``results.md`` and its pictures into ``out`` from all cells; return their paths.

    Text outside the markers of an existing ``results.md`` is kept.
    """
    out.mkdir(parents=True, exist_ok=True)
    datasets = datasets_with_cells(cells)
    parts, files = [LEGEND], [out / "results.md"]
    for name in TABLES:
        rows = table(name, networks)
        shown = [dataset for dataset in datasets if rows.suits(dataset) and _compares(rows, cells, dataset)]
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
    by_method = read_cells(cells, dataset)
    pairs = (complement(by_method.get("ddsfl-3layers", {}), by_method.get(name, {})) for name in networks)
    return [pair.as_markdown(dataset) for pair in pairs if pair is not None]


def _compares(rows: TableOfRows, cells: Path, dataset: str) -> bool:
    """Return whether there is something to compare: two rows with cells, or one and cited numbers."""
    made = set(rows.methods) & set(read_cells(cells, dataset))
    if rows.name == "bank-size":  # layers of one size belong to another table
        sizes = [{bank_method(layers, size) for layers in (1, 2, 3)} for size in BANK_SIZES]
        return sum(bool(made & methods) for methods in sizes) >= 2
    cited = any(row.method is None and dataset in row.paper for row in rows.rows)
    return len(made) >= (1 if cited else 2)


def _replaced(page: Path, generated: str) -> str:
    """Return the page with its generated part replaced, or appended if there is none."""
    text = page.read_text(encoding="utf-8") if page.is_file() else ""
    before, start, rest = text.partition(START)
    if not start:
        return f"{text.rstrip()}\n\n{generated}\n".lstrip()
    _, end, after = rest.partition(END)
    if not end:
        raise ValueError(f"{page} has the line {START!r} but not {END!r} after it; expected both.")
    return before + generated + after

"""How a method and a network complement each other: the classes on which each is better, with examples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from rich.table import Table
from rich.text import Text

from ddsfl.compute.stages import fingerprint
from ddsfl.datasets.splits import Split
from ddsfl.experiments.cells import Cell
from ddsfl.experiments.drawing import pipes
from ddsfl.images.folders import ImageSet
from ddsfl.images.image_list import ImageList
from ddsfl.report.plots import save_figure

#: As in the paper's figure: two classes per method, six images per class.
SHOWN_CLASSES, SHOWN_PICTURES = 2, 6


@dataclass(frozen=True)
class Complement:
    """Two methods compared class by class.

    Attributes
    ----------
    ours, theirs : names of the methods.
    classes : (name, ours, theirs) in percent, means over common splits, from our largest win to theirs.
    n_splits : number of common splits.
    """

    ours: str
    theirs: str
    classes: tuple[tuple[str, float, float], ...]
    n_splits: int

    def words(self) -> str:
        """Return on how many classes each method is better, as a sentence."""
        wins = sum(one > other for _, one, other in self.classes)
        losses = sum(one < other for _, one, other in self.classes)
        equal = len(self.classes) - wins - losses
        tail = f", equal on {equal}" if equal else ""
        splits = f"{self.n_splits} split{'s' * (self.n_splits > 1)}"
        ours = f"{self.ours} is better on {wins} of {len(self.classes)} classes"
        return f"{ours}, {self.theirs} on {losses}{tail} ({splits})."

    def as_text(self, dataset: str) -> Table:
        """Return the classes as a table for a terminal."""
        shown = Table("class", self.ours, self.theirs, "difference", title=dataset, caption=self.words())
        for name, one, other in self.classes:
            shown.add_row(Text(name), f"{one:.2f}", f"{other:.2f}", f"{one - other:+.2f}")
        return shown

    def as_markdown(self, dataset: str) -> str:
        """Return the classes as a table in Markdown."""
        lines = [f"### {dataset}: {self.ours} and {self.theirs}", "", self.words(), ""]
        lines += [pipes(["class", self.ours, self.theirs, "difference"]), pipes(["---", *["---:"] * 3])]
        for name, one, other in self.classes:
            lines.append(pipes([name, f"{one:.2f}", f"{other:.2f}", f"{one - other:+.2f}"]))
        return "\n".join([*lines, ""])


def complement(ours: Mapping[str, Cell], theirs: Mapping[str, Cell]) -> Complement | None:
    """Compare the accuracies of two methods class by class; None if they have no split in common.

    >>> def cell(method, sea, city):
    ...     return {"method": method, "per_class_accuracy": {"sea": sea, "city": city}}
    >>> found = complement({"1": cell("a", 0.5, 0.9)}, {"1": cell("b", 0.75, 0.4)})
    >>> found.words()
    'a is better on 1 of 2 classes, b on 1 (1 split).'
    >>> found.classes[0]
    ('city', 90.0, 40.0)
    """
    pairs = [
        (ours[split], theirs[split])
        for split in sorted(set(ours) & set(theirs))
        if "per_class_accuracy" in ours[split] and "per_class_accuracy" in theirs[split]
    ]
    if not pairs:
        return None
    classes = []
    for name in pairs[0][0]["per_class_accuracy"]:
        each = [tuple(cell["per_class_accuracy"].get(name) for cell in pair) for pair in pairs]
        both = [(one, other) for one, other in each if one is not None and other is not None]
        if both:  # a class without test images has no accuracy
            one, other = 100 * np.mean(both, axis=0)
            classes.append((name, float(one), float(other)))
    classes.sort(key=lambda row: row[2] - row[1])
    return Complement(pairs[0][0]["method"], pairs[0][1]["method"], tuple(classes), len(pairs))


def draw_examples(
    path: Path, found: Complement, cells: tuple[Cell, Cell], images: ImageSet, split: Split
) -> None:
    """Draw test images that only one method classified correctly, from the classes it wins most clearly.

    ``cells`` are those of both methods on ``split``.
    """
    n_shown = min(SHOWN_CLASSES, len(found.classes) // 2)
    rows = [(name, 0) for name, *_ in found.classes[:n_shown]]
    rows += [(name, 1) for name, *_ in found.classes[len(found.classes) - n_shown :]]
    figure = Figure(figsize=(2 * SHOWN_PICTURES, 2.2 * max(1, len(rows))))
    grid = figure.subplots(max(1, len(rows)), SHOWN_PICTURES, squeeze=False)
    for axes in grid.flat:
        axes.set_axis_off()
    methods = (found.ours, found.theirs)
    for line, (name, winner) in zip(grid, rows):
        chosen = won_images(cells[winner], cells[1 - winner], images, split, name)[:SHOWN_PICTURES]
        examples = ImageList([images.paths[index] for index in chosen], colour="rgb", max_side=200)
        for axes, pixels in zip(line, examples):
            axes.imshow(pixels.permute(1, 2, 0).numpy())
        line[0].set_title(f"{name}: only {methods[winner]} is right", loc="left", fontsize=9)
    save_figure(figure, path)


def won_images(right: Cell, wrong: Cell, images: ImageSet, split: Split, name: str) -> Sequence[int]:
    """Return the test images of class ``name`` that ``right`` got right and ``wrong`` got wrong."""
    for cell in (right, wrong):
        if cell["split_fingerprint"] != fingerprint(split.train, split.test):
            raise ValueError(
                f"the cell of {cell['method']} on {cell['split']} was made from other images; "
                "expected the folder it was made from."
            )
    predicted = [
        [cell["classes"][int(number)] for number in cell["predicted"].split()] for cell in (right, wrong)
    ]
    return [
        index
        for index, one, other in zip(split.test, *predicted)
        if images.labels[index] == name and one == name and other != name
    ]

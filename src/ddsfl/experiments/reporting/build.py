"""The whole report of an evaluation, a model, or two of them, from the parts of this room."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ddsfl.compute.words import counted
from ddsfl.experiments.cells import Cell, joined_confusion
from ddsfl.experiments.reporting.answers import answers_part
from ddsfl.experiments.reporting.asked import GIVEN, HELD_OUT
from ddsfl.experiments.reporting.compared import common_splits, comparison_part
from ddsfl.experiments.reporting.facts import facts_of_cells, settings_facts, times_of
from ddsfl.experiments.reporting.pictures import Album, compared_pictures, with_pictures
from ddsfl.images.image_list import ImageList
from ddsfl.images.labels import Labels
from ddsfl.model.classifier import SceneClassifier
from ddsfl.report.console import Console
from ddsfl.report.inspection import about_rows
from ddsfl.report.learned import learned_part
from ddsfl.report.pages.report_view import Array, Facts, Found, Learned, Report

#: Wrong answers that are listed by name.
_LISTED = 20_000


def report_of_cells(
    title: str,
    cells: Sequence[Cell],
    album: Album,
    console: Console,
    *,
    found: tuple[Found, ...] = (),
) -> Report:
    """Return the report of an evaluation; ``album`` has its images and models, as far as they are known."""
    splits = [str(cell["split"]) for cell in cells]
    kept = ((split, model) for split in splits if (model := album.models(split)) is not None)
    split, model = next(kept, (None, None))
    learned = None if model is None else what_was_learned(model, cells, console)
    report = _tested(title, cells, album, console, how_tested(cells))
    return replace(
        report,
        learned=learned,
        found=found,
        facts=facts_of_cells(cells),
        times=times_of([cell.get("seconds", {}) for cell in cells]),
        left_out=(*report.left_out, *_without(split, len(cells))),
    )


def report_of_model(
    title: str,
    model: SceneClassifier,
    cell: Cell | None,
    album: Album,
    console: Console,
    *,
    how: tuple[str, ...] = (),
    found: tuple[Found, ...] = (),
    training: tuple[ImageList, Labels] | None = None,
) -> Report:
    """Return the report of a model.

    Parameters
    ----------
    cell : its answers to images, from `asked_cell` or `held_out_cell`; None if there are none.
    album : the images of the cell.
    how : how these images were chosen, if more is known than `how_tested` says.
    training : the training images and their labels, to show where filters fire most.
    """
    cells = [] if cell is None else [cell]
    learned = what_was_learned(model, cells, console, training)
    report = Report(title)
    if cell is None:
        report = replace(report, left_out=(_NO_ANSWERS,))
    else:
        report = _tested(title, cells, album, console, how or how_tested(cells))
    return replace(
        report,
        learned=learned,
        found=found,
        facts=(Facts("Model", tuple(about_rows(model))), settings_facts(model.settings_.to_json())),
        times=times_of([model.run_.seconds]),
    )


def report_of_two(
    title: str,
    names: tuple[str, str],
    cells: tuple[Sequence[Cell], Sequence[Cell]],
    albums: tuple[Album, Album],
    console: Console,
) -> Report:
    """Return the comparison of two models or evaluations on their common splits."""
    pairs = common_splits(*cells, names)
    comparison = comparison_part(pairs, names)
    console.begin("pictures and maps")
    shown = compared_pictures(comparison.disagreements, albums, console.progress)
    console.close()
    left_out = []
    if len(shown) > _LISTED:
        left_out.append(f"{len(shown) - _LISTED:,} further images with different answers are not listed.")
    pictured = sum(one.picture is not None for one in shown)
    if pictured < min(len(shown), _LISTED):
        left_out.append(f"{pictured:,} of {len(shown):,} images with different answers have a picture.")
    facts = []
    for name, some in zip(names, cells):
        facts += [replace(one, title=f"{one.title}: {name}") for one in facts_of_cells(some)]
    comparison = replace(comparison, disagreements=shown[:_LISTED])
    return Report(title, comparison=comparison, facts=tuple(facts), left_out=tuple(left_out))


def what_was_learned(
    model: SceneClassifier,
    cells: Sequence[Cell],
    console: Console,
    training: tuple[ImageList, Labels] | None = None,
) -> Learned:
    """Return what a model has learned; cells tell which of its classes are confused."""
    images, labels = training or (None, None)
    if images is not None:
        console.begin("where filters fire")
    learned = learned_part(
        model, images, labels, progress=console.progress, confusion=_confusion(model, cells)
    )
    console.close()
    return learned


def _confusion(model: SceneClassifier, cells: Sequence[Cell]) -> Array | None:
    """Return the confusions of all cells in the order of the model's classes; None if there are none."""
    if not cells or any("confusion" not in cell for cell in cells):
        return None
    confusion, names = joined_confusion(cells)
    place = {name: number for number, name in enumerate(names)}
    at = [place[str(name)] for name in model.classes_ if str(name) in place]
    if len(at) < len(model.classes_):
        return None
    return np.asarray(confusion[np.ix_(at, at)])


def _tested(
    title: str, cells: Sequence[Cell], album: Album, console: Console, how: tuple[str, ...]
) -> Report:
    tested = answers_part(cells, how)
    told: tuple[str, ...] = ()
    mistakes = tested.mistakes
    if album.files and mistakes:
        console.begin("pictures and maps")
        mistakes, told = with_pictures(mistakes, album, console.progress)
        console.close()
    elif mistakes:
        told = ("There are no pictures, because the images were not given.",)
    if not mistakes and any("images" not in cell for cell in cells):
        told = ("Wrong answers are not listed: these cells have no row per image.",)
    if len(mistakes) > _LISTED:
        told = (*told, f"{len(mistakes) - _LISTED:,} further wrong answers are not listed.")
    return Report(title, tested=replace(tested, mistakes=mistakes[:_LISTED]), left_out=told)


_NO_ANSWERS = (
    "There is no accuracy: this model has no held-out answers, and no test images were given "
    "(`ddsfl report MODEL IMAGES --out PAGE`)."
)


def how_tested(cells: Sequence[Cell]) -> tuple[str, ...]:
    """Say in words which images were tested and how.

    >>> how_tested([{"split": f"fold {n}", "n_test": 20, "n_train": 80} for n in (1, 2, 3, 4, 5)])[0]
    'Cross-validation with 5 folds: each of 100 images was classified by a model that had not seen it.'
    """
    first = str(cells[0]["split"])
    n_test, n_train = (sum(int(cell.get(name) or 0) for cell in cells) for name in ("n_test", "n_train"))
    trained = f"{n_train / len(cells):,.0f} training images"
    if first == HELD_OUT:
        return (
            f"The {counted(n_test, 'training image')}, each classified by an SVM trained without it.",
            "Filters and words were learned from all of them, so these numbers are a little too good; "
            "`ddsfl evaluate` trains everything again for each split.",
        )
    if first == GIVEN:
        return (
            f"{counted(n_test, 'image')}, classified by one model with {trained}.",
            "If training images are among them, these numbers are too good.",
        )
    if first.startswith("fold "):
        return (
            f"Cross-validation with {counted(len(cells), 'fold')}: each of {n_test:,} images was classified "
            "by a model that had not seen it.",
        )
    if first.startswith("random "):
        many = counted(len(cells), "random split")
        tested = f"{n_test / len(cells):,.0f} test images"
        return (f"{many}, each with {trained} and {tested}; an image may be tested in several.",)
    return (f"{first}: {counted(n_test, 'test image')}, {trained}.",)


def _without(split: str | None, n_splits: int) -> tuple[str, ...]:
    """Say whose filters are shown: those of the model of ``split``; None if no model was kept."""
    if split is None:
        return (
            "What the models learned is not shown, because none of them was kept "
            "(`ddsfl evaluate --out FOLDER --keep-models`).",
        )
    if n_splits > 1:
        return (f"What was learned is shown for one of the {n_splits} models: that of {split}.",)
    return ()

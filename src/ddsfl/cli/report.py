"""The command `ddsfl report`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from ddsfl.cli.inputs import load_model, network_files, read_set
from ddsfl.cli.options import Device, Network, Overwrite, Quiet, Strict
from ddsfl.cli.outputs import check_free
from ddsfl.cli.pages import check_page, write_page
from ddsfl.cli.training import read_training
from ddsfl.experiments.cells import Cell
from ddsfl.experiments.reporting.album import album_of_cells, names_in
from ddsfl.experiments.reporting.asked import asked_cell, held_out_cell, known_labels
from ddsfl.experiments.reporting.build import report_of_cells, report_of_model, report_of_two
from ddsfl.experiments.reporting.pictures import Album
from ddsfl.experiments.reporting.stored import stored_cells
from ddsfl.images.folders import ImageSet, ImageSetError, Label
from ddsfl.images.image_list import ImageList
from ddsfl.images.labels import Labels
from ddsfl.model.classifier import SceneClassifier
from ddsfl.report.console import Console
from ddsfl.report.pages.report_view import Report


def report(
    context: typer.Context,
    what: Annotated[
        list[Path],
        typer.Argument(
            metavar="CELLS_OR_MODEL... [IMAGES]",
            help="A model, or a folder that `ddsfl evaluate --out` wrote; two of them to compare; then the "
            "labelled images.",
        ),
    ],
    out: Annotated[Path, typer.Option(help="Page to write, e.g. report.html.")],
    method: Annotated[
        str | None, typer.Option(help="Which method, if a folder has results of several.")
    ] = None,
    training: Annotated[
        Path | None,
        typer.Option(
            metavar="IMAGES", help="The training images of a model, to show where its filters fire most."
        ),
    ] = None,
    network: Network = None,
    device: Device = "auto",
    overwrite: Overwrite = False,
    strict: Strict = False,
    quiet: Quiet = False,
) -> None:
    """Write one page on a model and its mistakes.

    Accuracy, confusions, the most confident mistakes with what speaks for them, calibration, filters and who
    shares them, settings and times. The images of an evaluation give its mistakes pictures; labelled images
    given with a model are classified, or, if it was trained with them, shown with its held-out answers.
    """
    given = Given.of(what)
    if training is not None and (given.are_cells or len(given.subjects) > 1):
        raise typer.BadParameter("--training goes with one model")
    if method is not None and not given.are_cells:
        raise typer.BadParameter("--method goes with results of `ddsfl evaluate`")
    console = Console(quiet)
    check_page(context, out, console)
    check_free(out, overwrite)
    desk = Desk(given, method, network, device, strict, console)
    if given.are_cells:
        page = desk.evaluations()
    elif len(given.subjects) == 1:
        page = desk.model(training)
    else:
        page = desk.two_models()
    check_free(out, overwrite)  # another command may have written it in the meantime
    write_page(page, out, console)


class Given(NamedTuple):
    """What the arguments are: one or two models or evaluations, and perhaps images."""

    subjects: list[Path]
    are_cells: bool
    images: Path | None

    @classmethod
    def of(cls, paths: list[Path]) -> Given:
        """Tell models, evaluations and images apart by what the files are."""
        kinds = [_kind(path) for path in paths]
        subjects = [path for path, kind in zip(paths, kinds) if kind != "images"]
        images = [path for path, kind in zip(paths, kinds) if kind == "images"]
        found = ", ".join(f"{path} ({kind})" for path, kind in zip(paths, kinds))
        if not 1 <= len(subjects) <= 2 or len(images) > 1:
            raise typer.BadParameter(
                f"found {found}; expected one or two models or folders of results, then at most one image set"
            )
        if len({kind for kind in kinds if kind != "images"}) > 1:
            raise typer.BadParameter(f"found {found}; expected two models or two folders of results")
        if kinds[0] == "model" and len(subjects) == 2 and not images:
            raise typer.BadParameter("two models are compared on labelled images: MODEL MODEL IMAGES")
        return cls(subjects, "results" in kinds, images[0] if images else None)


def _kind(path: Path) -> str:
    """Return "results", "model" or "images"."""
    if path.is_dir():
        return "results" if any(path.glob("*.json")) else "images"
    if path.suffix.lower() == ".json":
        return "results"
    return "images" if path.suffix.lower() in (".csv", ".tsv", ".txt") else "model"


class Desk(NamedTuple):
    """What all kinds of reports need."""

    given: Given
    method: str | None
    network: list[str] | None
    device: str
    strict: bool
    console: Console

    def evaluations(self) -> Report:
        """Return the report of one or two folders of results."""
        found = [stored_cells(path, self.method) for path in self.given.subjects]
        albums = [
            album_of_cells(some, self.given.images, network_files(self.network), self.device, self.console)
            for some in found
        ]
        cells = [[cell for _, cell in some] for some in found]
        names = [_called(path, some) for path, some in zip(self.given.subjects, cells)]
        if len(cells) == 1:
            return report_of_cells(names[0], cells[0], albums[0], self.console)
        called = _distinct(names, self.given.subjects)
        return report_of_two(
            " and ".join(called), called, (cells[0], cells[1]), (albums[0], albums[1]), self.console
        )

    def model(self, training: Path | None) -> Report:
        """Return the report of one model."""
        path = self.given.subjects[0]
        model = load_model(path, self.device, self.network)
        cell, album = held_out_cell(model), Album({})
        fired = None
        if training is not None:
            known, labels = read_training(model, training, self.strict, self.console)
            fired = known, Labels.read(labels)
        if self.given.images is not None:
            images, labels, names, paths = self._read(model, self.given.images)
            if images.fingerprint() == model.training_["fingerprint"]:
                cell = held_out_cell(model, names)
                fired = fired or (images, Labels.read(labels))
            else:
                cell = asked_cell(model, images, dict(enumerate(labels)), names, self.console)
            album = Album(dict(zip(names, paths)), lambda split: model)
        return report_of_model(path.stem, model, cell, album, self.console, training=fired)

    def two_models(self) -> Report:
        """Return the comparison of two models on labelled images."""
        assert self.given.images is not None
        cells, albums = [], []
        for path in self.given.subjects:
            model = load_model(path, self.device, self.network)
            images, labels, names, paths = self._read(model, self.given.images)
            cells.append([asked_cell(model, images, dict(enumerate(labels)), names, self.console)])
            albums.append(Album(dict(zip(names, paths)), partial(_same, model)))
        called = _distinct([path.stem for path in self.given.subjects], self.given.subjects)
        return report_of_two(
            " and ".join(called), called, (cells[0], cells[1]), (albums[0], albums[1]), self.console
        )

    def _read(
        self, model: SceneClassifier, images: Path
    ) -> tuple[ImageList, list[Label], list[str], list[Path]]:
        """Return the readable images that have a class of the model, their labels, names and paths."""
        image_set = ImageSet.find(images, least=1)
        decoded, label_of = read_set(image_set, model.settings_, self.strict, self.console)
        known = known_labels(model, label_of)
        if not known:
            raise ImageSetError(f"{images} has no image of a class of this model.")
        if len(known) < len(label_of):
            left = sorted({str(label) for at, label in label_of.items() if at not in known})[:10]
            self.console.warn(
                [f"{len(label_of) - len(known)} images left out: the model has no class {', '.join(left)}."]
            )
        names = names_in(images, image_set.paths)
        numbers = list(known)
        return (
            decoded.subset(numbers),
            list(known.values()),
            [names[number] for number in numbers],
            [image_set.paths[number] for number in numbers],
        )


def _same(model: SceneClassifier, split: str) -> SceneClassifier:
    return model


def _called(path: Path, cells: list[Cell]) -> str:
    """Return what an evaluation is called: its image set and method."""
    named = [str(cells[0].get(name) or "") for name in ("dataset", "method")]
    return ", ".join(name for name in named if name) or path.name


def _distinct(names: list[str], paths: list[Path]) -> tuple[str, str]:
    """Return two names that differ."""
    return (names[0], names[1]) if names[0] != names[1] else (str(paths[0]), str(paths[1]))

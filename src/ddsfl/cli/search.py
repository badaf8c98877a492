"""The command `ddsfl search`: choose settings on training images."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from ddsfl.cli.inputs import changed_settings, check_device, check_folder, read_set
from ddsfl.cli.options import Changes, Device, Preset, QuietTable, Seed
from ddsfl.experiments.search import GRIDS, Candidate, bank_path, search_settings
from ddsfl.images.folders import ImageSet
from ddsfl.model.settings import Settings
from ddsfl.report.console import Console, show


def search(
    images: Annotated[Path, typer.Argument(help="Training images: class folders, or a CSV of path,label.")],
    out: Annotated[Path, typer.Option(help="Folder for the results of the candidates.")],
    preset: Preset = "quick",
    changes: Changes = None,
    tries: Annotated[
        list[str] | None,
        typer.Option("--try", metavar="NAME=A,B,...", help=f"Values to try for one of {', '.join(GRIDS)}."),
    ] = None,
    folds: Annotated[int, typer.Option(help="Folds of the cross-validation.")] = 3,
    seed: Seed = 0,
    device: Device = "auto",
    quiet: QuietTable = False,
) -> None:
    """Choose the weights of the objective's terms by cross-validation.

    Chooses xi, lambda1, gamma, lambda2 and eta one after another. Use training images only, so that test
    images do not influence the choice. Finished candidates are kept: rerun the same command to resume.
    """
    console = Console(quiet, resumes=True)
    settings = changed_settings(preset, changes)
    check_device(device, console)
    grids = {**GRIDS, **_grids(tries, settings)}
    check_folder(out)
    out.mkdir(parents=True, exist_ok=True)
    decoded, labels = read_set(ImageSet.find(images), settings, False, console)

    def report(candidate: Candidate) -> None:
        console.say(f"{candidate.parameter} {candidate.value:g}: {candidate.mean:.2f}")

    result = search_settings(
        decoded.subset(labels),
        list(labels.values()),
        out,
        settings=settings,
        grids=grids,
        n_folds=folds,
        seed=seed,
        device=device,
        report=report,
        console=console,
    )
    shown = Table("weight", "value", "mean of the folds", "folds", "")
    for candidate in result.candidates:
        best = result.chosen[bank_path(candidate.parameter)] == candidate.value
        each = " ".join(f"{score:.2f}" for score in candidate.scores)
        shown.add_row(
            candidate.parameter, f"{candidate.value:g}", f"{candidate.mean:.2f}", each, "chosen" * best
        )
    show(shown)
    print(" ".join(f"--set {path}={json.dumps(value)}" for path, value in result.chosen.items()))


def _grids(tries: list[str] | None, settings: Settings) -> dict[str, tuple[float, ...]]:
    """Return the values to try from NAME=A,B, all of which the settings must accept."""
    grids = {}
    for one in tries or []:
        name, _, values = one.partition("=")
        if name not in GRIDS:
            raise typer.BadParameter(f"--try {one}: expected one of {', '.join(GRIDS)}")
        try:
            grids[name] = tuple(float(value) for value in values.split(","))
        except ValueError as error:
            raise typer.BadParameter(f"--try {one}: expected numbers after {name}=") from error
        try:
            for value in grids[name]:
                settings.change({bank_path(name): value})
        except ValueError as error:
            raise typer.BadParameter(f"--try {one}: {error}") from error
    return grids

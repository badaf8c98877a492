"""The command `ddsfl search`: choose settings on training images."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from ddsfl.cli.inputs import changed_settings, check_device, check_folder, parsed_value, read_set
from ddsfl.cli.options import Balanced, Changes, Device, ImageSetPath, Preset, QuietTable, Seed, Strict
from ddsfl.cli.outputs import hold_folder
from ddsfl.cli.splitting import Splitting
from ddsfl.experiments.axes import GRIDS, SHORT, count_candidates
from ddsfl.experiments.search import Search, Trial, search_settings
from ddsfl.images.folders import ImageSet
from ddsfl.model.settings import Settings
from ddsfl.report.console import Console, show, show_line

NAMES = ", ".join(["preset", *SHORT])


def search(
    context: typer.Context,
    images: ImageSetPath,
    out: Annotated[Path, typer.Option(help="Folder for the results of the candidates and best.json.")],
    preset: Preset = "quick",
    changes: Changes = None,
    balanced: Balanced = False,
    tries: Annotated[
        list[str] | None,
        typer.Option(
            "--try",
            metavar="NAME=A,B,...",
            help=f"Values to try for a settings path or one of {NAMES} (repeatable).",
        ),
    ] = None,
    over: Annotated[
        str | None,
        typer.Option(help=f"Prepared values to try: {' or '.join(GRIDS)}; everyday unless --try is given."),
    ] = None,
    folds: Annotated[int, typer.Option(min=2, help="Folds of the cross-validation.")] = 3,
    seed: Seed = 0,
    device: Device = "auto",
    strict: Strict = False,
    quiet: QuietTable = False,
) -> None:
    """Choose settings by cross-validation on training images.

    Starts from the preset with its changes, tries other values of one setting after another and keeps what
    is better. Ends with the best settings seen and the command that trains with them. Use training images
    only, so that test images do not influence the choice. Finished candidates are kept: rerun the same
    command to resume.
    """
    console = Console(quiet, resumes=True)
    settings = changed_settings(preset, changes, balanced)
    check_device(device, console)
    axes = _axes(tries, over)
    n_trials = _count(settings, axes)
    check_folder(out)
    hold_folder(context, out, console)
    image_set = ImageSet.find(images)
    out.mkdir(parents=True, exist_ok=True)
    decoded, labels = read_set(image_set, settings, strict, console)
    n_folds, fewer = Splitting(folds=folds).n_folds(labels, None)
    if fewer:
        console.say(fewer)
    console.say(f"up to {n_trials} candidates x {n_folds} folds = {n_trials * n_folds} trainings")

    def report(trial: Trial, best: bool) -> None:
        console.say(f"{_shown(trial)}: {trial.mean:.2f}{', the best so far' * best}")

    result = search_settings(
        decoded.subset(labels),
        list(labels.values()),
        out,
        settings=settings,
        axes=axes,
        n_folds=n_folds,
        seed=seed,
        device=device,
        report=report,
        console=console,
    )
    show(_table(result))
    show_line(_command(images, result.best.settings, seed))


def _axes(tries: list[str] | None, over: str | None) -> dict[str, tuple[Any, ...]]:
    """Return the values to try, by name."""
    if over is not None and over not in GRIDS:
        raise typer.BadParameter(f"--over is {over!r}; expected {' or '.join(GRIDS)}")
    axes: dict[str, tuple[Any, ...]] = {}
    if over is not None or not tries:
        axes.update(GRIDS[over or "everyday"])
    for one in tries or []:
        name, _, values = one.partition("=")
        if not name or not values:
            raise typer.BadParameter(f"--try {one}: expected NAME=A,B,...")
        axes[name] = _values(values)
    return axes


def _values(text: str) -> tuple[Any, ...]:
    """Return the values between commas.

    >>> _values("gray,lab"), _values("[[1, 1]],[[1, 1], [2, 2]]"), _values("cv,10")
    (('gray', 'lab'), ([[1, 1]], [[1, 1], [2, 2]]), ('cv', 10))
    """
    try:
        return tuple(json.loads(f"[{text}]"))  # lists have commas of their own
    except ValueError:
        return tuple(parsed_value(part) for part in text.split(","))


def _count(settings: Settings, axes: dict[str, tuple[Any, ...]]) -> int:
    """Return the number of candidates; values that are impossible are refused before any work."""
    try:
        n_trials = count_candidates(settings, axes)
    except ValueError as error:
        raise typer.BadParameter(f"--try {error}") from error
    if n_trials == 1:
        raise typer.BadParameter(f"--try {', '.join(axes)}: none of the values changes the starting settings")
    return n_trials


def _shown(trial: Trial) -> str:
    return f"{trial.name} {_word(trial.value)}".strip()


def _word(value: Any) -> str:
    """Return a value as it is written on the command line.

    >>> _word("lab"), _word(0.5), _word(True), _word("1")
    ('lab', '0.5', 'true', '"1"')
    """
    return value if isinstance(value, str) and parsed_value(value) == value else json.dumps(value)


def _table(result: Search) -> Table:
    table = Table("tried", "value", "mean of the folds", "folds", "")
    for trial in result.trials:
        each = " ".join(f"{score:.2f}" for score in trial.scores)
        best = "best" if trial is result.best else ""
        table.add_row(Text(trial.name), Text(_word(trial.value)), f"{trial.mean:.2f}", each, best)
    return table


def _command(images: Path, settings: Settings, seed: int) -> str:
    """Return the command that trains with these settings."""
    words = ["ddsfl", "train", str(images), "--out", "model.safetensors", "--preset", settings.preset]
    for path, value in settings.changes.items():
        words += ["--set", f"{path}={_word(value)}"]
    return shlex.join([*words, *(["--seed", str(seed)] if seed else [])])

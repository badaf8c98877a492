"""The command-line program: one function a command, whose docstring is its help."""

from __future__ import annotations

import csv
import functools
import io
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console as Paper
from rich.table import Table
from rich.text import Text

from ddsfl.cli.datasets import add_datasets
from ddsfl.cli.encode import add_encode
from ddsfl.cli.inputs import (
    changed_settings,
    check_writable,
    chosen_splits,
    load_model,
    read_pictures,
    read_set,
)
from ddsfl.cli.options import (
    Changes,
    Command,
    Device,
    Network,
    Pictures,
    Preset,
    Quiet,
    Seed,
    Strict,
)
from ddsfl.cli.reproduce import add_reproduce
from ddsfl.experiments.cells import cells_table, joined_confusion
from ddsfl.experiments.demo import run_demo
from ddsfl.experiments.evaluation import Place, Recipe, evaluate_split
from ddsfl.images.folders import find_images, list_images
from ddsfl.model.classifier import SceneClassifier
from ddsfl.report.console import Console
from ddsfl.report.inspection import describe_model, draw_model
from ddsfl.report.plots import draw_confusion

app = typer.Typer(
    help="Learn local image features from small labelled image sets, and classify with them.",
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    add_completion=False,
)


def ends_with_a_sentence(*, continues: bool = False) -> Callable[[Command], Command]:
    """End a command that cannot go on with one sentence: exit code 1, or 130 when interrupted.

    ``continues`` says that with --out the command keeps its stages and goes on from them.
    """

    def wrap(command: Command) -> Command:
        @functools.wraps(command)
        def wrapped(**options: Any) -> None:
            try:
                command(**options)
            except (ValueError, OSError, MemoryError, ImportError) as error:  # an extra that is not installed
                Console.break_off()
                print(f"ddsfl: {_sentence(error)}", file=sys.stderr)
                raise typer.Exit(1) from error
            except KeyboardInterrupt as error:
                Console.break_off()
                kept = continues and options["out"] is not None
                how = "; the same command continues where it stopped." if kept else "."
                print(f"\nddsfl: interrupted{how}", file=sys.stderr)
                raise typer.Exit(130) from error

        return wrapped

    return wrap


Images = Annotated[Path, typer.Argument(help="A folder of class folders, or a CSV file of path,label.")]
Model = Annotated[Path, typer.Argument(help="A model file written by `ddsfl train`.")]


@app.command()
@ends_with_a_sentence()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the pictures and the model.")] = Path("demo"),
    seed: Seed = 0,
    device: Device = "auto",
    quiet: Quiet = False,
) -> None:
    """Learn and classify drawn scenes: Random, RICA and DDSFL filters on one split, with pictures."""
    run_demo(out, seed=seed, device=device, console=Console(quiet))


@app.command()
@ends_with_a_sentence(continues=True)
def train(
    images: Images,
    out: Annotated[Path, typer.Option(help="The model file to write.")],
    preset: Preset = "quick",
    changes: Changes = None,
    seed: Seed = 0,
    device: Device = "auto",
    strict: Strict = False,
    quiet: Quiet = False,
) -> None:
    """Learn a classifier from labelled images.

    Interrupted, it continues where it stopped when the same command is given again.
    """
    console = Console(quiet)
    settings, changed = changed_settings(preset, changes)
    check_writable(out)
    found = find_images(images)
    pictures, labels = read_set(found, settings, strict, console)
    model = SceneClassifier(preset, changes=changed, device=device, random_state=seed)
    checkpoints = out.with_name(out.name + ".stages")
    model.fit(
        pictures.subset(labels),
        list(labels.values()),
        checkpoints=checkpoints,
        report=console.stage,
        progress=console.progress,
    )
    console.close()
    model.save(out)
    shutil.rmtree(checkpoints, ignore_errors=True)
    console.say(f"{out}: {len(model.classes_)} classes, {sum(model.seconds_.values()):.0f} s")


@app.command()
@ends_with_a_sentence()
def predict(
    model: Model,
    images: Pictures,
    as_json: Annotated[bool, typer.Option("--json", help="A list of path, label and scores.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="A table with one column a class.")] = False,
    network: Network = None,
    device: Device = "auto",
    strict: Strict = False,
    quiet: Quiet = False,
) -> None:
    """Classify images."""
    if as_json and as_csv:
        raise typer.BadParameter("--json and --csv exclude each other")
    console = Console(quiet or as_json or as_csv)
    classifier = load_model(model, device, network)
    names = [str(name) for name in classifier.classes_]
    paths, pictures = read_pictures(list_images(images), classifier.settings_, strict, console)
    console.begin("classify")
    scores = classifier.decision_function(pictures, progress=console.progress)
    console.close()
    labels, by_class = _labels(classifier, scores), classifier.scores_by_class(scores)
    if as_json:
        found = [
            {"path": str(path), "label": label, "scores": dict(zip(names, map(float, row)))}
            for path, label, row in zip(paths, labels, by_class)
        ]
        print(json.dumps(found, indent=1))
    elif as_csv:
        writer = csv.writer(sys.stdout)
        writer.writerow(["path", "label", *names])
        for path, label, row in zip(paths, labels, by_class):
            writer.writerow([path, _text(label), *(f"{score:.5f}" for score in row)])
    else:
        table = Table("image", "label", "score", "next", "score")
        for path, label, row in zip(paths, labels, by_class):
            first, second = np.argsort(-row)[:2]
            # Text, because brackets in the name of a file or a class are no markup.
            given, other = Text(_text(label)), Text(names[second])
            table.add_row(Text(str(path)), given, f"{row[first]:.2f}", other, f"{row[second]:.2f}")
        Paper().print(table)


@app.command()
@ends_with_a_sentence(continues=True)
def evaluate(
    images: Images,
    protocol: Annotated[
        str, typer.Option(help="random splits, or official lists: random, lists.")
    ] = "random",
    train: Annotated[int, typer.Option(help="Training images a class (random).")] = 100,
    test: Annotated[int | None, typer.Option(help="At most so many test images a class (random).")] = None,
    splits: Annotated[int, typer.Option(help="Number of random splits.")] = 5,
    train_list: Annotated[Path | None, typer.Option(help="Text file of training images (lists).")] = None,
    test_list: Annotated[Path | None, typer.Option(help="Text file of test images (lists).")] = None,
    preset: Preset = "quick",
    changes: Changes = None,
    seed: Seed = 0,
    device: Device = "auto",
    out: Annotated[Path | None, typer.Option(help="Folder for a JSON file a split and the picture.")] = None,
    strict: Strict = False,
    quiet: Quiet = False,
) -> None:
    """Train and test on splits of an image set: mean and spread of the accuracy, confusion matrix.

    With --out, finished splits are kept, and the same command continues after an interruption.
    """
    console = Console(quiet)
    settings, changed = changed_settings(preset, changes)
    found = find_images(images)
    splits_of = chosen_splits(protocol, found, train, test, splits, train_list, test_list, seed)
    pictures, labels = read_set(found, settings, strict, console)
    chosen = [split.without(set(range(len(found))) - set(labels)) for split in splits_of]
    for split in chosen:
        split.check(labels)
    recipe, place = Recipe(preset, changed, seed, device), Place(images.name, out)
    cells = []
    for split in chosen:
        console.prefix = f"{split.name}: "
        cells.append(evaluate_split(pictures, labels, split, recipe, place, console))
    Paper().print(cells_table(cells))
    if out is not None and "confusion" in cells[0]:
        draw_confusion(out / "confusion.png", *joined_confusion(cells), f"{images.name}, {preset}")
        console.say(f"{out / 'confusion.png'}")


@app.command()
@ends_with_a_sentence()
def inspect(
    model: Model,
    out: Annotated[
        Path | None, typer.Option(help="Folder for pictures; by default beside the model.")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Show settings, classes, times and provenance of a model, and draw its filters and sharing."""
    classifier = SceneClassifier.load(model, device="cpu")
    folder = out if out is not None else model.with_name(f"{model.stem}-pictures")
    files = draw_model(classifier, folder)
    if not quiet:
        for part in describe_model(classifier):
            Paper().print(part)
        for file in files:
            print(file)


add_encode(app, ends_with_a_sentence())
add_datasets(app, ends_with_a_sentence())
add_reproduce(app, ends_with_a_sentence)


def main() -> None:
    """Run the program."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="surrogateescape")  # names of files need not be UTF-8
    app()


def _sentence(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    return str(error) or type(error).__name__


def _labels(classifier: SceneClassifier, scores: np.ndarray[Any, Any]) -> list[str | list[str]]:
    """Return the label of each image, or all of its labels where images may have several."""
    if not classifier.multilabel_:
        return [str(label) for label in classifier.labels_from(scores)]
    names = classifier.classes_
    return [[str(name) for name in names[row]] for row in classifier.labels_from(scores)]


def _text(label: str | list[str]) -> str:
    return label if isinstance(label, str) else "; ".join(label)

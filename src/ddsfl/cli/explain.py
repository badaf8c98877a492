"""The command `ddsfl explain`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from ddsfl.cli.inputs import load_model, read_images
from ddsfl.cli.options import Device, ImagePaths, ModelPath, Network, Overwrite, Quiet, Strict
from ddsfl.cli.outputs import check_free
from ddsfl.cli.pages import check_page
from ddsfl.cli.training import read_training
from ddsfl.compute.parameters import among
from ddsfl.compute.stages import write_whole
from ddsfl.compute.words import counted
from ddsfl.images.folders import list_images
from ddsfl.model.classifier import SceneClassifier
from ddsfl.report.console import Console, quiet_for_data
from ddsfl.report.explanation import as_json, explanations, for_page, word_nouns
from ddsfl.report.pages.why import why_page

#: A page of more images than this is slow to open.
MANY_IMAGES = 100


def explain(
    context: typer.Context,
    model: ModelPath,
    images: ImagePaths,
    out: Annotated[Path | None, typer.Option(help="Page to write, e.g. why.html.")] = None,
    classes: Annotated[
        str | None,
        typer.Option(
            metavar="A,B", help="Classes to explain; by default the predicted one and the runner-up."
        ),
    ] = None,
    training: Annotated[
        Path | None,
        typer.Option(
            metavar="IMAGES",
            help="The training images, to show patches of them next to what the model found.",
        ),
    ] = None,
    json_wanted: Annotated[
        bool, typer.Option("--json", help="Print scores, blocks, words and places as JSON.")
    ] = False,
    network: Network = None,
    device: Device = "auto",
    overwrite: Overwrite = False,
    strict: Strict = False,
    quiet: Quiet = False,
) -> None:
    """Show why images got their labels.

    Writes one page with a map for each image: which places speak for the predicted class and which against
    it. The parts of a score are exact: they add up to the score.
    """
    if out is None and not json_wanted:
        raise typer.BadParameter("--out is missing; expected the name of a page, e.g. why.html, or --json")
    console = Console(quiet or (json_wanted and quiet_for_data()))
    if out is not None:
        check_page(context, out, console)
        check_free(out, overwrite)
    classifier = load_model(model, device, network)
    wanted = None if classes is None else _listed(classes, classifier)
    if training is not None:
        _collect(classifier, training, strict, console)
    paths, decoded = read_images(list_images(images), classifier.settings_, strict, console)
    if out is not None and len(paths) > MANY_IMAGES:
        console.say(f"{counted(len(paths), 'image')} on one page; a browser may need long to open it.")
    if classifier.average_ is None:
        console.say(
            "the average training image is unknown: this model was saved by an older ddsfl; maps are raw."
        )
    nouns = word_nouns(classifier)
    shown, told = [], []
    console.begin("explain")
    found = explanations(classifier, decoded, [str(path) for path in paths], wanted, console.progress)
    for path, explanation in zip(paths, found):
        if out is not None:
            shown.append(for_page(explanation, path, nouns))
        if json_wanted:
            told.append(as_json(explanation))
    console.close()
    if out is not None:
        check_free(out, overwrite)  # another command may have written it in the meantime
        write_whole(out, why_page(shown).encode("utf-8", "replace"))
        console.say(f"{out}: {counted(len(shown), 'image')}; open it in a browser")
    if json_wanted:
        print(json.dumps(told, indent=1))


def _listed(classes: str, classifier: SceneClassifier) -> list[str]:
    """Return the classes of a list with commas; a class may have a comma in its own name."""
    known = [str(name) for name in classifier.classes_]
    names = [classes] if classes in known else [name.strip() for name in classes.split(",") if name.strip()]
    for name in names:
        if name not in known:
            raise typer.BadParameter(f"--classes {name} is not a class{among(name, known)}")
    if not names:
        raise typer.BadParameter("--classes is empty; expected names of classes with commas between them")
    return names


def _collect(classifier: SceneClassifier, training: Path, strict: bool, console: Console) -> None:
    """Collect patches of the training images, which must be those of the model."""
    images, labels = read_training(classifier, training, strict, console)
    console.begin("training patches")
    classifier.collect_patches(images, labels, progress=console.progress)
    console.close()

"""The command `ddsfl check`."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from ddsfl.cli.inputs import changed_settings, load_model
from ddsfl.cli.options import Device, ImageSetPath, Network, Preset, QuietTable
from ddsfl.datasets.splits import Split, official_split
from ddsfl.images.folders import ImageSet, ImageSetError, label_names
from ddsfl.images.image_list import ImageList
from ddsfl.model.classifier import SceneClassifier
from ddsfl.report.checklist import findings_table
from ddsfl.report.checks import check_images
from ddsfl.report.console import Console, quiet_for_data, show
from ddsfl.report.findings import Subject
from ddsfl.report.opinion import Opinion, doubts


def check(
    images: ImageSetPath,
    test: Annotated[
        Path | None, typer.Option(help="A second set of test images: class folders, or a CSV of path,label.")
    ] = None,
    train_list: Annotated[Path | None, typer.Option(help="Text file of training images.")] = None,
    test_list: Annotated[Path | None, typer.Option(help="Text file of test images.")] = None,
    model: Annotated[
        Path | None, typer.Option(help="A model file: also find wrong labels and images that do not belong.")
    ] = None,
    preset: Preset = "quick",
    network: Network = None,
    device: Device = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON: complete lists.")] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with code 1 if there are errors or warnings.")
    ] = False,
    quiet: QuietTable = False,
) -> None:
    """Find what is wrong with an image set, before training.

    Lists unreadable files, copies, copies with different labels, copies in both training and test, labels
    that look alike, small classes, unusual sizes and kinds of images, and says what to do about each.
    """
    console = Console(quiet or (as_json and quiet_for_data()))
    classifier = None if model is None else load_model(model, device, network)
    settings = changed_settings(preset, None) if classifier is None else classifier.settings_
    image_set, split = _set_and_split(images, test, train_list, test_list)
    # Without a model, no image is needed twice.
    decoded = settings.image_list(image_set.paths, cache_bytes=0 if classifier is None else 2**30)
    console.begin("read images")
    unreadable = decoded.read_all(console.progress, glance=True)
    console.close()
    sides = None if split is None else (frozenset(split.train), frozenset(split.test))
    subject = Subject(image_set, decoded, unreadable, sides)
    if classifier is not None:
        subject = replace(subject, opinion=_opinion(classifier, subject, console))
    findings = check_images(subject)
    if as_json:
        values = {"images": len(image_set), "classes": len(image_set.classes)}
        print(json.dumps({**values, "findings": [finding.to_json() for finding in findings]}, indent=1))
    elif findings:
        show(findings_table(findings, image_set.paths))
    kinds = f"{len(findings)} kind{'s' * (len(findings) > 1)} of findings" if findings else "nothing found"
    console.say(f"{len(image_set)} images of {len(image_set.classes)} classes: {kinds}")
    if strict and any(finding.severity != "note" for finding in findings):
        raise typer.Exit(1)


def _set_and_split(
    images: Path, test: Path | None, train_list: Path | None, test_list: Path | None
) -> tuple[ImageSet, Split | None]:
    """Return all images, and which of them train and test if this was given."""
    if (train_list is None) != (test_list is None):
        raise typer.BadParameter("--train-list and --test-list need each other")
    if test is not None and train_list is not None:
        raise typer.BadParameter("--test and --train-list exclude each other")
    image_set = ImageSet.find(images, least=1)
    if train_list is not None and test_list is not None:
        return image_set, official_split(image_set.paths, train_list, test_list)
    if test is None:
        return image_set, None
    tested = ImageSet.find(test, least=1)
    numbers = list(range(len(image_set) + len(tested)))
    split = Split(numbers[: len(image_set)], numbers[len(image_set) :], None, "two sets")
    return _joined(image_set, tested), split


def _joined(first: ImageSet, second: ImageSet) -> ImageSet:
    labels = [*first.labels, *second.labels]
    if not all(isinstance(label, str) for label in labels):
        labels = [label_names(label) for label in labels]
    return ImageSet(
        [*first.paths, *second.paths],
        labels,
        problems=[*first.problems, *second.problems],
        ignored=Counter(first.ignored) + Counter(second.ignored),
        leaving=[*first.leaving, *second.leaving],
    )


def _opinion(classifier: SceneClassifier, subject: Subject, console: Console) -> dict[int, Opinion]:
    """Return what the model thinks of the readable images of labels that have two or more."""
    readable = set(subject.readable)
    bad = [index for index in range(len(subject.image_set)) if index not in readable]
    kept = replace(subject.image_set, least=2).without(bad)
    if len(kept.classes) < 2:
        raise ImageSetError("--model needs two labels with at least two readable images each.")
    place = {path: index for index, path in enumerate(subject.image_set.paths)}
    numbers = [place[path] for path in kept.paths]
    images: ImageList = subject.images.subset(numbers)
    console.begin("encode")
    vectors = classifier.transform(images, progress=console.progress)
    console.close()
    doubted = doubts(vectors, kept.labels, classifier.classifier_.C_)
    novelty = [0.0] * len(numbers)
    if classifier.novelty_ is None:
        console.say("novelty is unknown: this model was saved by an older ddsfl.")
    else:
        novelty = classifier.novelty(images).tolist()
    return {number: Opinion(*doubt, new) for number, doubt, new in zip(numbers, doubted, novelty)}

"""Inputs of commands, checked before any work: settings, outputs, models, image sets, splits."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import typer

from ddsfl.datasets.protocols import Split, official_split, random_splits
from ddsfl.images.folders import ImageSet, ImageSetError, Label
from ddsfl.images.image_list import ImageList
from ddsfl.images.likeness import Glances
from ddsfl.model.classifier import SceneClassifier
from ddsfl.model.presets import preset
from ddsfl.model.settings import Settings
from ddsfl.report.checklist import check_briefly
from ddsfl.report.console import Console


def changed_settings(name: str, changes: list[str] | None) -> Settings:
    """Return the settings of a preset with the changes of the command line."""
    changed: dict[str, Any] = {}
    for change in changes or []:
        path, equals, value = change.partition("=")
        if not equals:
            raise typer.BadParameter(f"--set {change}: expected PATH=VALUE")
        try:
            changed[path] = json.loads(value)
        except ValueError:
            changed[path] = value  # a word, such as lab
    try:
        return preset(name).change(changed)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


def chosen_splits(
    protocol: str,
    image_set: ImageSet,
    train: int,
    test: int | None,
    splits: int,
    train_list: Path | None,
    test_list: Path | None,
    seed: int,
) -> list[Split]:
    """Return the splits of an image set, before any image is read."""
    if protocol == "random":
        labels = [label for label in image_set.labels if isinstance(label, str)]
        if len(labels) < len(image_set):
            raise ImageSetError("images with several labels cannot be split at random; use --protocol lists.")
        return random_splits(labels, train, splits, n_test=test, seed=seed)
    if protocol != "lists":
        raise typer.BadParameter(f"--protocol is {protocol!r}; expected random or lists")
    if train_list is None or test_list is None:
        raise typer.BadParameter("--protocol lists needs --train-list and --test-list")
    split = official_split(image_set.paths, train_list, test_list)
    split.check(image_set.labels)
    return [split]


def check_writable(out: Path) -> None:
    """Raise an error if ``out`` cannot be written: before hours of work rather than after them."""
    if out.is_dir():
        raise typer.BadParameter(f"--out {out} is a folder; expected a file name")
    out.parent.mkdir(parents=True, exist_ok=True)
    if not os.access(out.parent, os.W_OK):
        raise PermissionError(13, "no permission to write", str(out.parent))


def network_files(given: list[str] | None) -> dict[str, str]:
    """Return the files of networks by name from NAME=FILE."""
    files = {}
    for one in given or []:
        name, _, path = one.partition("=")
        if not name or not path:
            raise typer.BadParameter(f"--network {one}: expected NAME=FILE")
        if not Path(path).is_file():
            raise ValueError(f"--network {one}: there is no file {path}.")
        files[name] = path
    return files


def load_model(path: Path, device: str, network: list[str] | None) -> SceneClassifier:
    """Return a model; its networks must be available and be those it was trained with."""
    classifier = SceneClassifier.load(path, device=device, sources=network_files(network))
    classifier.check_networks()  # before reading all images rather than after
    return classifier


def read_set(
    image_set: ImageSet, settings: Settings, strict: bool, console: Console, split: Split | None = None
) -> tuple[ImageList, dict[int, Label]]:
    """Decode the images of a set once, list those that cannot be read, and check the set.

    Returns all images, and the labels of the readable ones by index. Labels that have become too rare are
    left out. ``split`` is an official split, whose two sides should not share images.
    """
    images, glances = settings.image_list(image_set.paths), Glances(len(image_set))
    console.begin("read images")
    problems = images.read_all(console.progress, glances.see)
    console.close()
    kept = image_set.without(problem.index for problem in problems)
    listed = [*problems, *kept.problems]
    if listed:
        console.warn([f"{len(listed)} problem(s) with the images:"])
        console.warn(listed)
    if strict and listed:
        raise ImageSetError(f"--strict: {len(listed)} problem(s) with the images, listed above.")
    if len(kept.classes) < 2:
        raise ImageSetError("fewer than two labels with readable images remain.")
    sides = None if split is None else (frozenset(split.train), frozenset(split.test))
    unlisted = replace(image_set, problems=[])  # problems are listed already
    findings = check_briefly(unlisted, images, glances, sides, console)
    n_errors = sum(finding.count for finding in findings if finding.severity == "error")
    if strict and n_errors:
        raise ImageSetError(f"--strict: {n_errors} error(s) in the image set; `ddsfl check` lists them.")
    place = {path: index for index, path in enumerate(image_set.paths)}
    console.say(f"{len(kept)} images of {len(kept.classes)} classes")
    labels: Sequence[Label] = kept.labels
    return images, {place[path]: label for path, label in zip(kept.paths, labels)}


def read_images(
    paths: list[Path], settings: Settings, strict: bool, console: Console
) -> tuple[list[Path], ImageList]:
    """Return the readable images and their paths; list the others."""
    # Images are read twice, to find the bad ones and to classify. A small cache bounds the memory for any
    # number of images, at the cost of decoding the others again.
    images = settings.image_list(paths, cache_bytes=2**28)
    console.begin("read images")
    problems = images.read_all(console.progress)
    console.close()
    console.warn(problems)
    if problems and strict:
        raise ImageSetError(f"--strict: {len(problems)} image(s) cannot be read.")
    bad = {problem.index for problem in problems}
    good = [index for index in range(len(paths)) if index not in bad]
    if not good:
        raise ImageSetError("none of the images can be read.")
    return [paths[index] for index in good], images.subset(good)

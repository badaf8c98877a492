"""Inputs of commands, checked before any work: settings, outputs, models, image sets."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import typer

from ddsfl.compute.device import resolve_device, unused_gpu
from ddsfl.compute.locks import despite_removal
from ddsfl.compute.parameters import among
from ddsfl.compute.parts import part_of
from ddsfl.compute.words import why_not
from ddsfl.datasets.splits import Split
from ddsfl.images.folders import ImageSet, ImageSetError, Label, Listing
from ddsfl.images.image_list import ImageList
from ddsfl.images.spread import Spread
from ddsfl.model.classifier import SceneClassifier
from ddsfl.model.presets import PRESETS
from ddsfl.model.settings import Settings
from ddsfl.report.checklist import check_briefly
from ddsfl.report.console import Console
from ddsfl.report.findings import Finding


def changed_settings(name: str, changes: list[str] | None, balanced: bool = False) -> Settings:
    """Return the settings of a preset with the changes of the command line."""
    changed = parsed_changes(changes)
    if name not in PRESETS:
        raise typer.BadParameter(f"--preset {name} is unknown{among(name, PRESETS)}")
    try:
        settings = PRESETS[name].change(changed)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    return with_balance(settings) if balanced else settings


def parsed_changes(changes: list[str] | None) -> dict[str, Any]:
    """Return the values of --set by path.

    >>> parsed_changes(["layers.step=4", "colour=lab"])
    {'layers.step': 4, 'colour': 'lab'}
    """
    changed = {}
    for change in changes or []:
        path, equals, value = change.partition("=")
        if not equals:
            raise typer.BadParameter(f"--set {change}: expected PATH=VALUE")
        changed[path] = parsed_value(value)
    return changed


def with_balance(settings: Settings) -> Settings:
    """Return the settings with equal weights of all classes, which --balanced asks for."""
    weight = settings.classifier.get("class_weight", "balanced")
    if weight != "balanced":
        raise typer.BadParameter(
            f"--balanced and --set classifier.class_weight={json.dumps(weight)} exclude each other"
        )
    return settings.change({"classifier.class_weight": "balanced"})


def parsed_value(text: str) -> Any:
    """Return a value of the command line: JSON, or else a word.

    >>> parsed_value("0.5"), parsed_value("lab")
    (0.5, 'lab')
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError):  # RecursionError: thousands of brackets
        return text


def check_device(device: str, console: Console) -> None:
    """Raise an error if ``device`` cannot be used, before any work; tell if a GPU stays unused."""
    _check_usable(device)
    if unused := unused_gpu(device):
        console.say(unused)


def _check_usable(device: str) -> None:
    try:
        resolve_device(device)
    except ValueError as error:
        # The message of the library, about the option that the user gave.
        raise ValueError(str(error).replace(f"device={device!r}", f"--device {device}")) from error


def check_writable(out: Path, option: str = "--out") -> None:
    """Raise an error if file ``out`` cannot be written: before hours of work rather than after them."""
    if os.path.isdir(out):
        raise typer.BadParameter(f"{option} {out} is a folder; expected a file name")
    if os.path.exists(out) and not os.path.isfile(out):
        raise typer.BadParameter(f"{option} {out} is a device or pipe; expected a file name")
    _try_to_write(part_of(out), out, option)
    out.parent.mkdir(parents=True, exist_ok=True)


def check_folder(out: Path) -> None:
    """Raise an error if folder ``out`` cannot be made or written to."""
    _try_to_write(part_of(out / "results"), out, "--out")


def _try_to_write(probe: Path, out: Path, option: str) -> None:
    """Write an empty file and remove it again, with the folders that had to be made for it."""
    made = [folder for folder in probe.parents if not os.path.exists(folder)]  # innermost first
    for folder in probe.parents:
        if os.path.isfile(folder):
            raise typer.BadParameter(f"{option} {out} cannot be written: {folder} is a file, not a folder")
    try:
        despite_removal(lambda: _touch_and_remove(probe))
    except OSError as error:
        reason = why_not(error)
        raise typer.BadParameter(
            f"{option} {out} cannot be written: {reason}; expected another name"
        ) from error
    finally:
        for folder in made:
            with contextlib.suppress(OSError):
                folder.rmdir()


def _touch_and_remove(probe: Path) -> None:
    probe.parent.mkdir(parents=True, exist_ok=True)
    probe.touch()
    probe.unlink()


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


def check_model(path: Path) -> None:
    """Raise an error if a folder was given as the model: often the arguments are in the wrong order."""
    if os.path.isdir(path):
        raise typer.BadParameter(f"MODEL {path} is a folder; expected a file written by `ddsfl train`")


def load_model(path: Path, device: str, network: list[str] | None) -> SceneClassifier:
    """Return a model; its networks must be available and be those it was trained with."""
    _check_usable(device)
    check_model(path)
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
    checked = read_checked_set(image_set, settings, strict, console, split)
    return checked.images, checked.label_of


class CheckedSet(NamedTuple):
    """A set that was read: all images, the labels of those that can be used, and what the check found."""

    images: ImageList
    label_of: dict[int, Label]
    findings: list[Finding]


def read_checked_set(
    image_set: ImageSet,
    settings: Settings,
    strict: bool,
    console: Console,
    split: Split | None = None,
    spread: Spread | None = None,
) -> CheckedSet:
    """Do what `read_set` does, and return what the check found; ``spread`` tells who reads the images."""
    images = settings.image_list(image_set.paths).with_spread(spread)
    console.begin("read images")
    problems = images.read_all(console.progress, glance=True)
    console.close()
    kept = image_set.without(problem.index for problem in problems)
    _show_left_out([*problems, *kept.problems], kept.ignored_files, strict, console)
    if len(kept.classes) < 2:
        raise ImageSetError("fewer than two labels with readable images remain.")
    sides = None if split is None else (frozenset(split.train), frozenset(split.test))
    unlisted = replace(image_set, problems=[], ignored={})  # these are listed already
    findings = check_briefly(unlisted, images, sides, console)
    n_errors = sum(finding.count for finding in findings if finding.severity == "error")
    if strict and n_errors:
        raise ImageSetError(f"--strict: {n_errors} error(s) in the image set; `ddsfl check` lists them.")
    place = {path: index for index, path in enumerate(image_set.paths)}
    console.say(f"{len(kept)} images of {len(kept.classes)} classes")
    labels: Sequence[Label] = kept.labels
    return CheckedSet(images, {place[path]: label for path, label in zip(kept.paths, labels)}, findings)


def read_images(
    listing: Listing, settings: Settings, strict: bool, console: Console
) -> tuple[list[Path], ImageList]:
    """Return the readable images and their paths; list the others."""
    # Images are read twice, to find the bad ones and to classify. A small cache bounds the memory for any
    # number of images, at the cost of decoding the others again.
    paths = listing.paths
    images = settings.image_list(paths, cache_bytes=2**28)
    console.begin("read images")
    problems = images.read_all(console.progress)
    console.close()
    _show_left_out([*problems, *listing.problems], listing.ignored_files, strict, console)
    bad = {problem.index for problem in problems}
    good = [index for index in range(len(paths)) if index not in bad]
    if not good:
        raise ImageSetError("none of the images can be read.")
    return [paths[index] for index in good], images.subset(good)


def _show_left_out(problems: Sequence[object], ignored: str, strict: bool, console: Console) -> None:
    """Print what was left out of a set of images and what was ignored; refuse problems if ``strict``."""
    if ignored:
        console.say(ignored)
    if problems:
        console.warn([f"{len(problems)} problem(s) with the images:"])
        console.warn(problems)
    if problems and strict:
        raise ImageSetError(f"--strict: {len(problems)} problem(s) with the images, listed above.")

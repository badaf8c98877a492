"""The command `ddsfl train`."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated

import typer

from ddsfl.cli.inputs import changed_settings, check_writable, read_set
from ddsfl.cli.options import Balanced, Changes, Device, ImageSetPath, Preset, Quiet, Seed, Strict
from ddsfl.images.folders import ImageSet
from ddsfl.model.classifier import SceneClassifier
from ddsfl.report.console import Console


def train(
    images: ImageSetPath,
    out: Annotated[Path, typer.Option(help="Model file to write.")],
    preset: Preset = "quick",
    changes: Changes = None,
    balanced: Balanced = False,
    seed: Seed = 0,
    device: Device = "auto",
    strict: Strict = False,
    quiet: Quiet = False,
) -> None:
    """Learn a classifier from labelled images.

    Rerun the same command to resume after an interruption.
    """
    console = Console(quiet, resumes=True)
    settings = changed_settings(preset, changes, balanced)
    check_writable(out)
    decoded, labels = read_set(ImageSet.find(images), settings, strict, console)
    model = SceneClassifier(settings, device=device, random_state=seed)
    checkpoints = out.with_name(out.name + ".stages")
    model.fit(
        decoded.subset(labels),
        list(labels.values()),
        checkpoints=checkpoints,
        report=console.stage,
        progress=console.progress,
    )
    console.close()
    model.save(out)
    shutil.rmtree(checkpoints, ignore_errors=True)
    console.say(f"{out}: {len(model.classes_)} classes, {sum(model.seconds_.values()):.0f} s")

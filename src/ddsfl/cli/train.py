"""The command `ddsfl train`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ddsfl.cli.inputs import changed_settings, check_device, check_folder, check_writable, read_set
from ddsfl.cli.options import Balanced, Changes, Device, ImageSetPath, Overwrite, Preset, Quiet, Seed, Strict
from ddsfl.cli.outputs import EarlierModel, check_free, hold_file
from ddsfl.compute.stages import remove_stages
from ddsfl.images.folders import ImageSet
from ddsfl.model.classifier import SceneClassifier
from ddsfl.report.console import Console


def train(
    context: typer.Context,
    images: ImageSetPath,
    out: Annotated[Path, typer.Option(help="Model file to write.")],
    preset: Preset = "quick",
    changes: Changes = None,
    balanced: Balanced = False,
    seed: Seed = 0,
    device: Device = "auto",
    keep_patches: Annotated[
        bool,
        typer.Option(
            "--keep-patches",
            help="Store small patches of the training images in the model, for `ddsfl explain`. Whoever has "
            "the model file can look at them.",
        ),
    ] = False,
    overwrite: Overwrite = False,
    strict: Strict = False,
    quiet: Quiet = False,
) -> None:
    """Learn a classifier from labelled images.

    Rerun the same command to resume after an interruption. Another model at --out is kept unless
    --overwrite is given.
    """
    console = Console(quiet, resumes=True)
    settings = changed_settings(preset, changes, balanced)
    check_device(device, console)
    check_writable(out)
    hold_file(context, out, console)
    checkpoints = out.with_name(out.name + ".stages")
    check_folder(checkpoints)
    earlier = None if overwrite else EarlierModel.find(out)
    if earlier is None:
        check_free(out, overwrite)
    else:
        earlier.check_settings(settings, seed, keep_patches)
    decoded, label_of = read_set(ImageSet.find(images), settings, strict, console)
    training, labels = decoded.subset(label_of), list(label_of.values())
    if earlier is not None:
        earlier.check_images(training, labels)
        remove_stages(checkpoints)
        console.say(f"{out}: already trained with these images and settings")
        return
    model = SceneClassifier(settings, device=device, random_state=seed)
    model.fit(
        training,
        labels,
        checkpoints=checkpoints,
        report=console.stage,
        progress=console.progress,
    )
    if keep_patches:
        console.begin("training patches")
        model.collect_patches(training, labels, progress=console.progress)
    console.close()
    check_free(out, overwrite)  # another command may have written it in the meantime
    model.save(out)
    remove_stages(checkpoints)
    console.say(f"{out}: {len(model.classes_)} classes, {sum(model.run_.seconds.values()):.0f} s")

"""The command `ddsfl train`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ddsfl.cli.engines import Address, EngineName, GpusPerWorker, Workers, engine_of
from ddsfl.cli.inputs import (
    changed_settings,
    check_device,
    check_folder,
    check_writable,
    load_model,
    read_checked_set,
)
from ddsfl.cli.options import (
    Balanced,
    Changes,
    Device,
    ImageSetPath,
    Overwrite,
    Preset,
    Quiet,
    ReportPage,
    Seed,
    Strict,
)
from ddsfl.cli.outputs import EarlierModel, check_free, check_free_page, hold_file
from ddsfl.cli.pages import check_page, write_page
from ddsfl.compute.stages import remove_stages
from ddsfl.experiments.reporting.album import names_in
from ddsfl.experiments.reporting.asked import held_out_cell
from ddsfl.experiments.reporting.build import report_of_model
from ddsfl.experiments.reporting.facts import found_part
from ddsfl.experiments.reporting.pictures import Album
from ddsfl.images.folders import ImageSet
from ddsfl.images.labels import Labels
from ddsfl.model.classifier import SceneClassifier
from ddsfl.report.checklist import common_folder
from ddsfl.report.console import Console
from ddsfl.scale.spread import Spreading


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
    report: ReportPage = None,
    overwrite: Overwrite = False,
    strict: Strict = False,
    engine: EngineName = "here",
    address: Address = None,
    workers: Workers = None,
    gpus_per_worker: GpusPerWorker = None,
    quiet: Quiet = False,
) -> None:
    """Learn a classifier from labelled images.

    Rerun the same command to resume after an interruption. Another model at --out is kept unless
    --overwrite is given. With --engine, workers read and encode the images, which they find under the same
    paths; filters, words and the SVM are learned here.
    """
    console = Console(quiet, resumes=True)
    settings = changed_settings(preset, changes, balanced)
    check_device(device, console)
    chosen = engine_of(engine, address, workers, gpus_per_worker)
    check_writable(out)
    hold_file(context, out, console)
    if report is not None:
        check_page(context, report, console, "--report")
        check_free_page(report, "--report")
    checkpoints = out.with_name(out.name + ".stages")
    check_folder(checkpoints)
    earlier = None if overwrite else EarlierModel.find(out)
    if earlier is None:
        check_free(out, overwrite)
    else:
        earlier.check_settings(settings, seed, keep_patches)
    image_set = ImageSet.find(images)
    spread = None if engine == "here" else Spreading(context.with_resource(chosen))
    decoded, label_of, findings = read_checked_set(image_set, settings, strict, console, spread=spread)
    training, labels = decoded.subset(label_of), list(label_of.values())

    def write_report(model: SceneClassifier) -> None:
        if report is None:
            return
        paths = [image_set.paths[number] for number in label_of]
        names = names_in(images, paths)
        page = report_of_model(
            out.stem,
            model,
            held_out_cell(model, names),
            Album(dict(zip(names, paths)), lambda split: model),
            console,
            found=found_part(findings, common_folder(image_set.paths)),
            training=(training, Labels.read(labels)),
        )
        check_free_page(report, "--report")
        write_page(page, report, console)

    if earlier is not None:
        earlier.check_images(training, labels)
        remove_stages(checkpoints)
        console.say(f"{out}: already trained with these images and settings")
        if report is not None:
            write_report(load_model(out, device, None))
        return
    model = SceneClassifier(settings, device=device, random_state=seed)
    model.fit(
        training,
        labels,
        checkpoints=checkpoints,
        report=console.stage,
        progress=console.progress,
        steps=console.steps,
    )
    if keep_patches:
        console.begin("training patches")
        model.collect_patches(training, labels, progress=console.progress)
    console.close()
    check_free(out, overwrite)  # another command may have written it in the meantime
    model.save(out)
    remove_stages(checkpoints)
    console.say(f"{out}: {len(model.classes_)} classes, {sum(model.run_.seconds.values()):.0f} s")
    write_report(model)

"""The command `ddsfl predict`: labels, how sure they are, and which images are unlike the training images."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.table import Table
from rich.text import Text

from ddsfl.cli.engines import Address, EngineName, GpusPerWorker, Workers, check_here, engine_of
from ddsfl.cli.inputs import load_model, read_images
from ddsfl.cli.needs import check_parquet
from ddsfl.cli.options import (
    Device,
    ManyImages,
    ModelPath,
    Network,
    Overwrite,
    QuietTable,
    Raw,
    Shards,
    ShardSize,
    Strict,
)
from ddsfl.cli.sharding import check_unused, sharding_of
from ddsfl.compute.spreadsheets import CsvWriter
from ddsfl.images.folders import list_images
from ddsfl.images.image_list import ImageList
from ddsfl.model.classifier import SceneClassifier
from ddsfl.report.console import Console, quiet_for_data, show_fitting
from ddsfl.report.prediction import N_TOP, Prediction, answers, predictions


def predict(
    model: ModelPath,
    images: ManyImages,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON: label, probability, top three, novelty and scores.")
    ] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print the same as CSV, one row per image.")] = False,
    raw: Raw = False,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER.parquet",
            help="Write a folder of Parquet parts instead, for very many images; run again, it resumes.",
        ),
    ] = None,
    shard_size: ShardSize = None,
    shards: Shards = None,
    network: Network = None,
    device: Device = "auto",
    overwrite: Overwrite = False,
    strict: Strict = False,
    engine: EngineName = "here",
    address: Address = None,
    workers: Workers = None,
    gpus_per_worker: GpusPerWorker = None,
    quiet: QuietTable = False,
) -> None:
    """Classify images.

    Shows the label of each image with its probability and, if the terminal is wide enough, the next most
    likely labels. A label is a guess if the image is marked as unlike the training images. Names with line
    breaks or control characters are shown escaped; --json and --csv have them as they are.
    """
    if as_json and as_csv:
        raise typer.BadParameter("--json and --csv exclude each other")
    if raw and not as_csv:
        raise typer.BadParameter("--raw needs --csv")
    if out is not None:
        if as_json or as_csv:
            raise typer.BadParameter("--out excludes --json and --csv")
        sharding = sharding_of(out, shard_size, shards, overwrite, strict)
        check_parquet()
        chosen = engine_of(engine, address, workers, gpus_per_worker)
        from ddsfl.cli.sharded import predictions_of, run_sharded  # here, because it needs pyarrow

        computation = predictions_of(model, device, network)
        run_sharded(computation, model, images, sharding, Console(quiet, resumes=True), chosen)
        return
    check_unused(shard_size, shards, "--out FOLDER.parquet")
    check_here(engine, "--out FOLDER.parquet")
    engine_of(engine, address, workers, gpus_per_worker)
    if overwrite:
        raise typer.BadParameter("--overwrite needs --out FOLDER.parquet")
    console = Console(quiet or ((as_json or as_csv) and quiet_for_data()))
    classifier = load_model(model, device, network)
    paths, decoded = read_images(list_images(images), classifier.settings_, strict, console)
    console.begin("classify")
    scores = classifier.decision_function(decoded, progress=console.progress)
    novelty = _novelty(classifier, decoded, console)
    console.close()
    said = predictions(classifier, [str(path) for path in paths], answers(classifier, scores, novelty))
    if as_json:
        print(json.dumps([one._asdict() for one in said], indent=1))
    elif as_csv:
        _write_csv(said, raw)
    else:
        show_fitting(_table(said, n_others) for n_others in range(N_TOP - 1, -1, -1))


def _novelty(classifier: SceneClassifier, images: ImageList, console: Console) -> np.ndarray[Any, Any] | None:
    if classifier.novelty_ is None:
        console.say("novelty is unknown: this model was saved by an older ddsfl.")
        return None
    return classifier.novelty(images)


def _ranked(sureness: dict[str, float]) -> list[str]:
    return sorted(sureness, key=lambda name: -sureness[name])


def _write_csv(predictions: Sequence[Prediction], raw: bool) -> None:
    rows = CsvWriter(sys.stdout, raw=raw)
    best = [f"top{number}" for number in range(1, N_TOP + 1)]
    value = "score" if predictions[0].probabilities is None else "probability"
    head = [name for one in best for name in (one, f"{one}_{value}")]
    rows.write(["path", "label", "probability", *head, "unlike", "novelty", *predictions[0].scores])
    for one in predictions:
        top = [cell for name in one.top for cell in (name, _number(one.sureness[name]))]
        top += [""] * (len(head) - len(top))
        rows.write(
            [
                one.path,
                _joined(one.label),
                _number(one.probability),
                *top,
                "" if one.unlike is None else "yes" if one.unlike else "no",
                _number(one.novelty),
                *(_number(score) for score in one.scores.values()),
            ]
        )


def _table(predictions: Sequence[Prediction], n_others: int) -> Table:
    """Return a table with the ``n_others`` most likely labels after those given."""
    value = "score" if predictions[0].probabilities is None else "probability"
    notes = [""] if any(one.unlike for one in predictions) else []
    table = Table("image", "label", value, *["next", "", "then", ""][: 2 * n_others], *notes)
    for one in predictions:
        given = [one.label] if isinstance(one.label, str) else one.label
        first = _number([one.sureness[name] for name in given], 2)
        others = [name for name in _ranked(one.sureness) if name not in given][:n_others]
        shown = [cell for name in others for cell in (name, _number(one.sureness[name], 2))]
        shown += [""] * (2 * n_others - len(shown))
        shown += ["unlike the training images" if one.unlike else ""] * len(notes)
        # Text, so that brackets in names of files and classes are not read as markup.
        table.add_row(*(Text(cell) for cell in (one.path, _joined(one.label), first, *shown)))
    return table


def _number(value: float | list[float] | None, digits: int = 5) -> str:
    if value is None:
        return ""
    return "; ".join(f"{one:.{digits}f}" for one in (value if isinstance(value, list) else [value]))


def _joined(label: str | list[str]) -> str:
    return label if isinstance(label, str) else "; ".join(label)

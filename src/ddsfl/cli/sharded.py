"""`predict` and `encode` for very many images: shards, one Parquet part each, on any engine.

Imported where it is needed only: it needs pyarrow, an extra.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from pathlib import Path

import typer

import ddsfl
from ddsfl.cli.inputs import check_folder, check_model, network_files
from ddsfl.cli.sharding import Sharding
from ddsfl.compute.words import counted
from ddsfl.descriptors.network import file_fingerprint
from ddsfl.images.folders import ImageSetError
from ddsfl.model.settings import Settings
from ddsfl.report.console import Console
from ddsfl.report.progress import words_for_time
from ddsfl.scale.carried import CarriedModel
from ddsfl.scale.columns import table_of
from ddsfl.scale.computations import Computation, NetworkVectors, Predictions, Vectors, networks_of
from ddsfl.scale.engine import Engine, Here
from ddsfl.scale.folder import begin, described, finish, reopen
from ddsfl.scale.inputs.finding import Inputs, listing_of
from ddsfl.scale.inputs.rows import Shard
from ddsfl.scale.manifest import Manifest
from ddsfl.scale.runner import Outcomes, failure_lines, keep_finished, run_shards, selected, shortly
from ddsfl.scale.worker import Job


def predictions_of(model: Path, device: str, network: list[str] | None) -> Predictions:
    """Return what `predict` computes, checked before any work."""
    check_model(model)
    return Predictions(CarriedModel(model), device, networks_of(model, network_files(network)))


def vectors_of(model: Path, device: str, network: list[str] | None, half: bool) -> Vectors:
    """Return what `encode` computes with a model, checked before any work."""
    check_model(model)
    return Vectors(CarriedModel(model), device, networks_of(model, network_files(network)), half)


def network_vectors_of(network: Path, settings: Settings, device: str, half: bool) -> NetworkVectors:
    """Return what `encode` computes with a network."""
    return NetworkVectors(str(network.absolute()), file_fingerprint(network), settings, device, half)


def run_sharded(
    computation: Computation,
    model: Path,
    images: Sequence[Path],
    sharding: Sharding,
    console: Console,
    engine: Engine,
) -> None:
    """Compute the results of images shard by shard; what is complete already is kept."""
    started = time.perf_counter()
    check_folder(sharding.out)
    _check_named(images, sharding.out)
    shards = _listed(images, sharding, console)
    manifest = begin(
        sharding.out,
        _manifest(computation, model, images, shards, sharding, local=isinstance(engine, Here)),
        overwrite=sharding.overwrite,
        part_only=sharding.of > 1,
    )
    job = Job(sharding.out.absolute(), computation, manifest.stamp)
    mine = selected(shards, sharding.part, sharding.of)
    left, outcomes = keep_finished(job, mine)
    if outcomes.n_kept:
        console.say(f"{outcomes.n_kept} of {counted(len(mine), 'part')} complete from an earlier run")
    if left:
        manifest = reopen(sharding.out, manifest)
        with engine:
            run_shards(job, left, outcomes, engine, console)
    manifest = finish(sharding.out, manifest, part_only=sharding.of > 1)
    _report(manifest, outcomes, len(mine), sharding, console, time.perf_counter() - started)


def _check_named(images: Sequence[Path], out: Path) -> None:
    """Refuse inputs that are not there, and results as input of themselves: they would be overwritten."""
    place = out.resolve()
    for path in images:
        if not path.exists():
            raise ImageSetError(f"{path} cannot be opened: no such file or directory.")
        where = path.resolve()
        if place in (where, *where.parents):
            raise typer.BadParameter(f"--out {out} is, or holds, the input {path}; expected another place")


def _listed(images: Sequence[Path], sharding: Sharding, console: Console) -> list[Shard]:
    """Return the shards of all inputs; list what was left out."""
    console.begin("list images")
    found = Inputs.find(images)
    shards = found.shards(sharding.size)
    console.close()
    if found.ignored_files:
        console.say(found.ignored_files)
    if found.problems:
        console.warn([f"{len(found.problems)} problem(s) with the images:", *found.problems])
        if sharding.strict:
            raise ImageSetError(f"--strict: {len(found.problems)} problem(s) with the images, listed above.")
    return shards


def _manifest(
    computation: Computation,
    model: Path,
    images: Sequence[Path],
    shards: Sequence[Shard],
    sharding: Sharding,
    *,
    local: bool,
) -> Manifest:
    # Where others compute, this process may have no GPU, and needs no model afterwards.
    asked = computation if local else dataclasses.replace(computation, device="cpu")  # type: ignore[type-var]
    empty = table_of([], {}, asked.loaded.fields, [])
    return Manifest(
        stamp={
            "command": computation.command,
            "ddsfl": ddsfl.__version__,
            **computation.identity,
            "options": {"shard_size": sharding.size, **computation.options},
        },
        model=str(model),
        inputs=[str(path) for path in images],
        listing=listing_of(shards),
        n_shards=len(shards),
        n_images=sum(len(shard.rows) for shard in shards),
        classes=asked.classes,
        columns={column.name: str(column.type) for column in empty.schema},
    )


def _report(
    manifest: Manifest, outcomes: Outcomes, n_parts: int, sharding: Sharding, console: Console, seconds: float
) -> None:
    """Say what there is now; failed parts, and with --strict failed images, are errors."""
    if outcomes.failures:
        console.warn(failure_lines(outcomes))
        failed = counted(len(outcomes.failures), "part")
        raise ValueError(f"{failed} of {n_parts} could not be computed; run the same command again.")
    what = shortly(outcomes) if manifest.complete is None else described(manifest)
    console.say(f"{sharding.out}: {what}; {words_for_time(seconds)}")
    if manifest.complete is None:
        console.say("other parts are still missing; the commands that compute them go on, or have to be run")
    if outcomes.errors:
        console.say(f"`ddsfl shards check {sharding.out}` lists the images that could not be read")
        if sharding.strict:
            raise ImageSetError(f"--strict: {counted(outcomes.errors, 'image')} could not be read.")

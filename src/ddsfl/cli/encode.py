"""The command `ddsfl encode`: vectors of images from a model or a network, for any other tool."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from ddsfl.cli.engines import Address, EngineName, GpusPerWorker, Workers, check_here, engine_of
from ddsfl.cli.inputs import check_writable, load_model, read_images
from ddsfl.cli.needs import check_parquet
from ddsfl.cli.options import (
    Device,
    ManyImages,
    Network,
    Overwrite,
    Quiet,
    Raw,
    Shards,
    ShardSize,
    Strict,
)
from ddsfl.cli.outputs import check_free, hold_file
from ddsfl.cli.sharding import check_unused, sharding_of
from ddsfl.compute.spreadsheets import CsvWriter
from ddsfl.compute.stages import write_whole
from ddsfl.descriptors.network import OnnxFeatures
from ddsfl.encoder.block import Block
from ddsfl.images.folders import list_images
from ddsfl.model.settings import Settings
from ddsfl.report.console import Console


def encode(
    context: typer.Context,
    model: Annotated[
        Path, typer.Argument(metavar="MODEL", help="A model file, or a network in an .onnx file.")
    ],
    images: ManyImages,
    out: Annotated[
        Path, typer.Option(help="File for the vectors: .npz or .csv; or a folder of Parquet parts: .parquet.")
    ],
    raw: Raw = False,
    half: Annotated[bool, typer.Option("--half", help="Parquet: 16 bits per value instead of 32.")] = False,
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
    quiet: Quiet = False,
) -> None:
    """Compute the vectors of images and write them to a file.

    One row per image, in the order of the paths. A table of a network's vectors can replace the network
    wherever a table is accepted: computed once, used often. A folder of Parquet parts suits very many images;
    run the same command again, and it resumes.
    """
    if out.suffix not in (".npz", ".csv", ".parquet"):
        raise typer.BadParameter(f"--out is {out}; expected a name that ends in .npz, .csv or .parquet")
    if raw and out.suffix != ".csv":
        raise typer.BadParameter(f"--raw needs a name that ends in .csv; --out is {out}")
    if network and model.suffix == ".onnx":
        raise typer.BadParameter(f"--network needs a model file; {model} is a network itself")
    if out.suffix == ".parquet":
        sharding = sharding_of(out, shard_size, shards, overwrite, strict)
        check_parquet()
        chosen = engine_of(engine, address, workers, gpus_per_worker)
        from ddsfl.cli import sharded  # here, because it needs pyarrow

        computation = (
            sharded.network_vectors_of(model, _network_settings(model), device, half)
            if model.suffix == ".onnx"
            else sharded.vectors_of(model, device, network, half)
        )
        sharded.run_sharded(computation, model, images, sharding, Console(quiet, resumes=True), chosen)
        return
    check_unused(shard_size, shards, "a name that ends in .parquet")
    check_here(engine, "a name that ends in .parquet")
    engine_of(engine, address, workers, gpus_per_worker)
    if half:
        raise typer.BadParameter(f"--half needs a name that ends in .parquet; --out is {out}")
    console = Console(quiet)
    check_writable(out)
    hold_file(context, out, console)
    check_free(out, overwrite)
    if model.suffix == ".onnx":
        settings = _network_settings(model)
        features = OnnxFeatures(model, device=device)
        paths, _ = read_images(list_images(images), settings, strict, console)
        console.begin("encode")
        vectors = features.vectors(paths, console.progress)
    else:
        classifier = load_model(model, device, network)
        paths, decoded = read_images(list_images(images), classifier.settings_, strict, console)
        console.begin("encode")
        vectors = classifier.transform(decoded, progress=console.progress)
    console.close()
    check_free(out, overwrite)  # another command may have written it in the meantime
    write_whole(out, _table(out.suffix, paths, vectors, raw))
    console.say(f"{out}: {vectors.shape[0]} images, {vectors.shape[1]} values each")


def _network_settings(network: Path) -> Settings:
    """Return settings in which images are seen by a network alone."""
    source = {"method": "onnx", "path": str(network)}
    block = Block("network", source="network", coding=None)
    return Settings(layers=(), sources={"network": source}, blocks=(block,))


def _table(kind: str, paths: Sequence[Path], vectors: np.ndarray[Any, Any], raw: bool) -> bytes:
    """Return the bytes of an .npz or .csv file of paths and vectors."""
    stream = io.BytesIO()
    if kind == ".npz":
        np.savez(stream, paths=np.array([str(path) for path in paths]), vectors=vectors)
        return stream.getvalue()
    # File names need not be UTF-8; their bytes are written unchanged.
    text = io.TextIOWrapper(stream, "utf-8", "surrogateescape", newline="", write_through=True)
    rows = CsvWriter(text, raw=raw)
    rows.write(["path", *(f"v{number}" for number in range(vectors.shape[1]))])
    for path, vector in zip(paths, vectors):
        rows.write([str(path), *(f"{value:.6g}" for value in vector)])
    return stream.getvalue()

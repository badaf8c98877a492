"""The command `ddsfl encode`: vectors of images from a model or a network, for any other tool."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from ddsfl.cli.inputs import check_writable, load_model, read_images
from ddsfl.cli.options import Device, ImagePaths, Network, Overwrite, Quiet, Raw, Strict
from ddsfl.cli.outputs import check_free, hold_file
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
    images: ImagePaths,
    out: Annotated[Path, typer.Option(help="File for the vectors: .npz or .csv.")],
    raw: Raw = False,
    network: Network = None,
    device: Device = "auto",
    overwrite: Overwrite = False,
    strict: Strict = False,
    quiet: Quiet = False,
) -> None:
    """Compute the vectors of images and write them to a file.

    One row per image, in the order of the paths. A table of a network's vectors can replace the network
    wherever a table is accepted: computed once, used often.
    """
    if out.suffix not in (".npz", ".csv"):
        raise typer.BadParameter(f"--out is {out}; expected a name that ends in .npz or .csv")
    if raw and out.suffix != ".csv":
        raise typer.BadParameter(f"--raw needs a name that ends in .csv; --out is {out}")
    if network and model.suffix == ".onnx":
        raise typer.BadParameter(f"--network needs a model file; {model} is a network itself")
    console = Console(quiet)
    check_writable(out)
    hold_file(context, out, console)
    check_free(out, overwrite)
    if model.suffix == ".onnx":
        source = {"method": "onnx", "path": str(model)}
        block = Block("network", source="network", coding=None)
        settings = Settings(layers=(), sources={"network": source}, blocks=(block,))
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

"""Filters of two methods side by side, learned from the training images of a split."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from ddsfl.compute.stages import write_whole
from ddsfl.experiments.evaluate import Evaluation
from ddsfl.experiments.grid import Grid, pixels_of, readable_split
from ddsfl.experiments.methods import method
from ddsfl.report.plots import draw_filters

#: The methods of the paper's figure, by the titles of their pictures.
FIGURE: Mapping[str, str] = {"RICA": "rica-1layer", "DDSFL": "ddsfl-1layer"}

Array = np.ndarray[Any, Any]


def learn_filters(grid: Grid, name: str) -> Array:
    """Return pictures of the filters that layer 1 of a method's cell learns on the first split."""
    evaluation = Evaluation(
        method(name, grid.networks), name, seed=grid.seed, device=grid.device, shared_stages=grid.scratch
    )
    image_set, splits = grid.read()
    images = pixels_of(evaluation.settings, image_set.paths)
    split, labels = readable_split(images, splits[0], image_set.labels)
    fit = evaluation.fit_of(images, labels, split)
    fit.learn_sources()
    pictures: Array = fit.sources["stack"].pixel_filters_[0]
    return pictures


def draw_side_by_side(path: Path, pictures: Mapping[str, Array]) -> None:
    """Draw mosaics of filters, given by title, next to each other in one PNG."""
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / f"{number}.png" for number in range(len(pictures))]
        for file, (title, tiles) in zip(files, pictures.items()):
            draw_filters(file, tiles[:, 0] if tiles.shape[1] == 1 else tiles, title)
        mosaics = [Image.open(file, formats=["PNG"]).convert("RGB") for file in files]
    size = (sum(mosaic.width for mosaic in mosaics), max(mosaic.height for mosaic in mosaics))
    joined = Image.new("RGB", size, "white")
    left = 0
    for mosaic in mosaics:
        joined.paste(mosaic, (left, 0))
        left += mosaic.width
    stream = io.BytesIO()
    joined.save(stream, "png")
    write_whole(path, stream.getvalue())

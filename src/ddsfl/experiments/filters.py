"""Filters of two methods side by side, learned from the training images of a split."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import ddsfl
from ddsfl.compute.device import drawn_seed
from ddsfl.compute.stages import Stages, write_whole
from ddsfl.experiments.grid import Grid, pixels_of, readable_split
from ddsfl.experiments.methods import method
from ddsfl.images.image_list import ImageList
from ddsfl.learning.labels import indicators, read_targets
from ddsfl.model.fit import Fit
from ddsfl.model.keys import StageKeys
from ddsfl.report.plots import draw_filters

#: The methods of the paper's figure, by the titles of their pictures.
FIGURE: Mapping[str, str] = {"RICA": "rica-1layer", "DDSFL": "ddsfl-1layer"}

Array = np.ndarray[Any, Any]


def learn_filters(grid: Grid, name: str) -> Array:
    """Return pictures of the filters of layer 1 that a method learns on the first split, as for its cell."""
    settings = method(name, grid.networks)
    found, splits = grid.read()
    colour, max_side, min_side = pixels_of(settings)
    images = ImageList(found.paths, colour=colour, max_side=max_side, min_side=min_side)
    split, labels = readable_split(images, splits[0], found.labels)
    train = images.subset(split.train)
    classes, targets, _ = read_targets([labels[index] for index in split.train])
    membership = indicators(targets, len(classes))
    seed = drawn_seed(grid.seed)
    stages = Stages(grid.scratch, key=StageKeys(settings, train, targets, seed, {}, ddsfl.__version__))
    fit = Fit(settings, train, targets, membership, seed, grid.device, stages)
    pictures: Array = fit.learn_sources()["stack"].pixel_filters_[0]
    return pictures


def draw_side_by_side(path: Path, pictures: Mapping[str, Array]) -> None:
    """Draw mosaics of filters beside each other, by title, as one PNG."""
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / f"{number}.png" for number in range(len(pictures))]
        for file, (title, tiles) in zip(files, pictures.items()):
            draw_filters(file, tiles[:, 0] if tiles.shape[1] == 1 else tiles, title)
        mosaics = [Image.open(file).convert("RGB") for file in files]
    size = (sum(mosaic.width for mosaic in mosaics), max(mosaic.height for mosaic in mosaics))
    joined = Image.new("RGB", size, "white")
    left = 0
    for mosaic in mosaics:
        joined.paste(mosaic, (left, 0))
        left += mosaic.width
    stream = io.BytesIO()
    joined.save(stream, "png")
    write_whole(path, stream.getvalue())

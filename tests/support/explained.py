"""Small models of every kind of block, fitted once for all tests that explain their scores."""

from functools import cache

import numpy as np

from ddsfl.images.scenes import make_scenes
from ddsfl.model.classifier import SceneClassifier
from tests.support.models import IMAGES, LABELS, model_of
from tests.support.tiny import TINY

PYRAMID = [[1, 1], [2, 2], [4, 4]]
ROWS = [[1, 1], [3, 1]]
LLC = {"method": "llc", "n_words": 12, "n_neighbors": 4, "max_iter": 3}
VQ = {"method": "vq", "n_words": 9, "max_iter": 3}
FISHER = {"method": "fisher", "n_gaussians": 4, "n_components": 6, "max_iter": 3}
SIFT = {"name": "edges", "source": "sift", "coding": LLC, "levels": PYRAMID}
SOURCES = {"sift": {"method": "sift", "step": 8, "n_scales": 4}, "otc": {"method": "otc", "n_scales": 2}}
#: Layers at three scales, without blocks.
LAYERS = {
    **{path: value for path, value in TINY.items() if not path.startswith("blocks")},
    "layers.n_scales": 3,
}


def mean_colour(pixels):
    """A function in place of a network."""
    return pixels.mean(dim=(2, 3))


def of_sift(**changes):
    return {"layers": [], "sources": SOURCES, "blocks": [{**SIFT, **changes}]}


def of_blocks(*blocks, **changes):
    return {"layers": [], "sources": SOURCES, "blocks": list(blocks), **changes}


#: Changes to preset `quick` by the name of the model.
CHANGES = {
    "llc max": of_sift(),
    "llc average": of_sift(pooling="average"),
    "llc average, power": of_sift(pooling="average", power=0.5, levels=ROWS),
    "llc max, power, mirrored": of_sift(power=0.5, mirrored=True, levels=[[2, 3], [1, 1]]),
    "vq max": of_sift(coding=VQ),
    "vq average, power, mirrored": of_sift(
        coding=VQ, pooling="average", power=0.5, mirrored=True, levels=ROWS
    ),
    "fisher": of_sift(coding={**FISHER, "descriptor_power": 0.5}, levels=ROWS, mirrored=True),
    "fisher, cells": of_sift(coding={**FISHER, "l2_all": False}),
    "fisher, all": of_sift(coding={**FISHER, "l2_cells": False, "power": 1.0}, levels=[[2, 2], [3, 2]]),
    "fisher, bare": of_sift(coding={**FISHER, "l2_cells": False, "l2_all": False, "power": 1.0}, power=0.5),
    "every grid": of_blocks(
        {**SIFT, "weight": "cv"},
        {**SIFT, "name": "hog", "source": "hog2x2", "coding": VQ, "pooling": "average", "weight": 2.0},
        {**SIFT, "name": "lbp", "source": "lbp", "weight": "cv"},
        {**SIFT, "name": "otc", "source": "otc", "coding": FISHER, "levels": ROWS, "weight": 0.5},
        colour="lab",
    ),
    "layers": {
        **LAYERS,
        "sources": SOURCES,
        "blocks": [
            {"name": "layer1", "coding": LLC, "levels": PYRAMID},
            {"name": "layer2", "output": 1, "coding": LLC, "levels": ROWS, "weight": "cv", "mirrored": True},
            {"name": "layer2 fisher", "output": 1, "coding": FISHER, "levels": ROWS, "weight": "cv"},
            {**SIFT, "name": "sift edges", "weight": 0.5},
        ],
    },
    "colour layers": {
        **LAYERS,
        "blocks": [{"name": "layer1", "coding": LLC, "levels": ROWS}],
        "colour": "lab",
    },
    "unplaced": of_blocks(
        {"name": "gist", "source": "gist", "coding": None, "weight": 0.5},
        {"name": "census", "source": "centrist", "coding": None, "power": 0.5},
        SIFT,
    ),
    "nothing placed": of_blocks({"name": "census", "source": "centrist", "coding": None}),
    "network": of_blocks(
        SIFT,
        {"name": "deep", "source": "net", "coding": None, "weight": "cv"},
        sources={**SOURCES, "net": {"method": "callable", "function": mean_colour, "input_size": 8}},
    ),
}


@cache
def explained(name):
    """Return a fitted model by its name in `CHANGES`."""
    return model_of(CHANGES[name]).fit(IMAGES, LABELS)


@cache
def two_classes():
    """A model of two classes, which are whole numbers."""
    kept = [index for index, label in enumerate(LABELS) if label != LABELS[-1]]
    numbers = [7 if LABELS[i] == LABELS[0] else 5 for i in kept]
    return model_of(CHANGES["llc max"]).fit([IMAGES[i] for i in kept], numbers)


@cache
def several_labels():
    """A model of images with several labels each: their class, and whether their number is even."""
    several = [[label, "even" if number % 2 else "odd"] for number, label in enumerate(LABELS)]
    return model_of(CHANGES["fisher"]).fit(IMAGES, several)


@cache
def of_preset(name):
    """A model with the blocks and layers of a preset, but few words and iterations."""
    images, labels = make_scenes(n_per_class=4, random_state=0, size=80)
    bank = {"n_filters": 12, "max_iter": 3, "rounds": 1, "round_iter": 2}
    words = {"n_gaussians": 6, "n_components": 10} if name == "best" else {"n_words": 20}
    changes = {
        **{f"layers.{'0.' * (name == 'best')}bank.{key}": value for key, value in bank.items()},
        "layers.patches_per_image": 12,
        **{f"blocks.coding.{key}": value for key, value in {**words, "max_iter": 3}.items()},
    }
    return SceneClassifier(name, changes=changes, device="cpu", random_state=0).fit(images, labels)


def odd_images():
    """Images of odd shapes: thin, smaller than a field, larger than max_side, colour, 16 bit."""
    scene = np.asarray(IMAGES[0])
    rng = np.random.default_rng(0)
    tall = np.tile(scene, (6, 3))[:371, :150]
    return [
        scene,
        np.ascontiguousarray(IMAGES[5][:53, 5:58]),
        IMAGES[7][:33, :64],
        rng.integers(0, 256, (9, 40), dtype=np.uint8),
        rng.integers(0, 256, (3, 2), dtype=np.uint8),
        tall,
        np.stack([scene, scene[::-1], scene[:, ::-1]], axis=2),
        scene.astype(np.uint16) * 257,
    ]

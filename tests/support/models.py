"""Models with many kinds of blocks, small enough for tests."""

import numpy as np
import torch

from ddsfl.model.classifier import SceneClassifier
from tests.support.tiny import TINY, tiny_scenes

IMAGES, LABELS = tiny_scenes()
WORDS = {"method": "llc", "n_words": 10, "max_iter": 3}
LEVELS = [[1, 1], [2, 2]]
FISHER = {"method": "fisher", "n_gaussians": 2, "n_components": 4, "max_iter": 3}
SOURCES = {"sift": {"method": "sift", "step": 8, "n_scales": 2}}
SIFT = {"name": "edges", "source": "sift", "coding": WORDS, "levels": LEVELS}
#: Two codings of one layer, two of one local descriptor, and a global descriptor.
MANY = [
    {"name": "layer1", "coding": WORDS, "levels": LEVELS},
    {"name": "layer1 fisher", "coding": FISHER, "levels": [[1, 1]], "weight": "cv"},
    {**SIFT, "weight": 0.5},
    {**SIFT, "name": "corners", "coding": {**FISHER}, "weight": "cv"},
    {"name": "census", "source": "centrist", "coding": None, "power": 0.5},
]
FUSED = {
    **{path: value for path, value in TINY.items() if not path.startswith("blocks")},
    "sources": SOURCES,
    "blocks": MANY,
}


def model_of(changes, **options):
    """Return a classifier with these changes to preset `quick`, not yet fitted."""
    return SceneClassifier(**{"changes": changes, "device": "cpu", "random_state": 0, **options})


def tiny(**options):
    """Return a classifier of two small layers, not yet fitted."""
    return SceneClassifier(**{"changes": TINY, "device": "cpu", "random_state": 0, **options})


def same_model(one, other):
    """Assert that two models have equal scores and filters."""
    np.testing.assert_array_equal(one.decision_function(IMAGES), other.decision_function(IMAGES))
    for a, b in zip(one.stack_.learned_, other.stack_.learned_):
        assert torch.equal(a.filters, b.filters)


#: Only SIFT and few words, which takes hundredths of a second to fit.
EDGES = {"layers": [], "sources": SOURCES, "blocks": [{**SIFT, "levels": [[1, 1]]}], "classifier.C": 1.0}


def edges(**changes):
    """Return a classifier of SIFT alone, not yet fitted."""
    return model_of({**EDGES, **changes})

"""The evidence of a GPU: that of a CPU, and the same every time."""

import numpy as np
import pytest

from ddsfl.compute.device import plain_path
from ddsfl.model.classifier import SceneClassifier
from tests.support.explained import explained, odd_images

pytestmark = pytest.mark.cuda

#: The largest error that is allowed on CUDA.
BOUND = 1e-4
STORED = [
    "llc max",
    "llc average, power",
    "vq average, power, mirrored",
    "fisher",
    "fisher, bare",
    "layers",
    "unplaced",
]
#: Signed codes may nearly cancel, and after a power their shares are large and of both signs: what rounding
#: differs by is multiplied. Their sum is as exact as any.
MAP_BOUNDS = {"llc average, power": 1e-3}


def on(device, name, folder):
    """Return a model of the CPU on another device."""
    explained(name).save(folder / "m.safetensors")
    return SceneClassifier.load(folder / "m.safetensors", device=device)


@pytest.mark.parametrize("name", STORED)
def test_the_evidence_of_a_gpu_is_that_of_a_cpu(name, tmp_path):
    """Without kernels in half precision, which may find other words."""
    images = odd_images()[:4]
    there = on("cuda", name, tmp_path)
    classes = there.classes_.tolist()
    with plain_path():
        found = list(there.explain(images, classes=classes))
    for here, evidence in zip(explained(name).explain(images, classes=classes), found, strict=True):
        assert evidence.shape == here.shape
        for label in classes:
            assert evidence.scores[label] == pytest.approx(here.scores[label], abs=BOUND)
            assert evidence.start(label) == pytest.approx(here.start(label), abs=BOUND)
            assert evidence.unplaced(label) == pytest.approx(here.unplaced(label), abs=BOUND)
            np.testing.assert_allclose(evidence.map(label), here.map(label), atol=MAP_BOUNDS.get(name, BOUND))


@pytest.mark.parametrize("name", STORED)
def test_it_sums_to_the_score_of_the_gpu_with_its_kernels(name, tmp_path):
    model, images = on("cuda", name, tmp_path), odd_images()[:6]
    classes = model.classes_.tolist()
    scores = model.decision_function(images)
    for evidence, row in zip(model.explain(images, classes=classes), scores, strict=True):
        assert evidence.error <= BOUND
        for label, score in zip(classes, row, strict=True):
            for relative in (False, True):
                parts = evidence.start(label, relative=relative), evidence.unplaced(label, relative=relative)
                assert abs(sum(parts) + evidence.map(label, relative=relative).sum() - score) <= BOUND


@pytest.mark.parametrize("name", STORED)
def test_it_is_the_same_bit_for_bit_every_time(name, tmp_path):
    model, images = on("cuda", name, tmp_path), odd_images()[:3]
    first = list(model.explain(images))
    for _ in range(3):
        for one, other in zip(first, model.explain(images), strict=True):
            assert one.classes == other.classes
            assert one.scores == other.scores
            for label in one.classes:
                np.testing.assert_array_equal(one.map(label), other.map(label))
            assert one.top(5) == other.top(5)
            assert one.words(5) == other.words(5)


def test_a_model_trained_on_a_gpu_has_the_average_of_its_training_images():
    from tests.support.explained import CHANGES
    from tests.support.models import IMAGES, LABELS, model_of

    model = model_of(CHANGES["fisher"], device="cuda").fit(IMAGES, LABELS)
    average = model.decision_function(IMAGES).mean(axis=0)
    [evidence] = model.explain(IMAGES[:1], classes=model.classes_.tolist())
    for label, expected in zip(model.classes_.tolist(), average, strict=True):
        assert evidence.start(label) == pytest.approx(expected, abs=BOUND)

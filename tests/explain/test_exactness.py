"""Start, map and what has no place sum to the score, for every kind of model and image."""

import tarfile

import numpy as np
import pytest

from ddsfl.images.image_list import ImageList
from ddsfl.model.classifier import SceneClassifier
from tests.support.explained import (
    CHANGES,
    SIFT,
    SOURCES,
    explained,
    odd_images,
    of_preset,
    several_labels,
    two_classes,
)
from tests.support.models import IMAGES, LABELS, model_of
from tests.support.tiny import write_scenes

#: The largest difference from `decision_function` that is allowed on a CPU; in double precision it is 0.
BOUND = 1e-5


def largest_error(model, images):
    """Explain all classes of images, and return the largest error, raw and relative."""
    classes, errors = model.classes_.tolist(), []
    scores = model.scores_by_class(model.decision_function(images))
    found = list(model.explain(images, classes=classes))
    assert len(found) == len(images)
    for evidence, row in zip(found, scores, strict=True):
        assert evidence.classes == tuple(classes)
        np.testing.assert_allclose(list(evidence.scores.values()), row, atol=BOUND)
        for name, score in zip(classes, row, strict=True):
            for relative in (False, True):
                parts = evidence.start(name, relative=relative), evidence.unplaced(name, relative=relative)
                heat = evidence.map(name, relative=relative)
                assert heat.shape == evidence.shape
                errors.append(abs(sum(parts) + heat.sum() - score))
                blocks = evidence.blocks(name, relative=relative)
                assert sum(blocks.values()) == pytest.approx(score - parts[0], abs=BOUND)
        assert evidence.error <= BOUND
    return max(errors)


@pytest.mark.parametrize("name", CHANGES)
def test_evidence_of_every_kind_of_block_sums_to_the_score(name):
    images = odd_images()
    if name == "unplaced":  # GIST takes its time
        images = images[:4]
    model = explained(name)
    assert largest_error(model, images) <= BOUND
    for image, evidence in zip(images, model.explain(images), strict=True):
        assert evidence.shape == image.shape[:2]


def test_of_two_classes_and_of_several_labels():
    assert largest_error(two_classes(), odd_images()) <= BOUND
    assert largest_error(several_labels(), odd_images()[:3]) <= BOUND


def test_of_a_table(tmp_path):
    paths = write_scenes(tmp_path / "scenes")
    vectors = np.random.default_rng(0).standard_normal((len(paths), 4))
    np.savez(tmp_path / "t.npz", paths=[str(path) for path in paths], vectors=vectors)
    table = {"method": "table", "path": str(tmp_path / "t.npz")}
    blocks = [{"name": "deep", "source": "table", "coding": None, "power": 0.5}, SIFT]
    model = model_of({"layers": [], "sources": {**SOURCES, "table": table}, "blocks": blocks})
    model.fit(paths, LABELS)
    assert largest_error(model, paths) <= BOUND
    assert largest_error(model, paths[::-1]) <= BOUND


@pytest.mark.parametrize("name", ["quick", "paper", "best"])
def test_of_every_preset(name):
    model = of_preset(name)
    assert [block.name for block in model.settings_.blocks] == [
        block.name for block in SceneClassifier(name).settings_in_use().blocks
    ]
    assert largest_error(model, odd_images()) <= BOUND


def test_the_bias_is_the_start_of_raw_maps_and_the_average_score_that_of_relative_ones():
    for model in (explained("layers"), explained("unplaced"), explained("fisher")):
        classes = model.classes_.tolist()
        [evidence] = model.explain([odd_images()[1]], classes=classes)
        average = model.decision_function(IMAGES).mean(axis=0)  # scores are linear in vectors
        for number, name in enumerate(classes):
            assert evidence.start(name, relative=False) == evidence.bias[name]
            assert evidence.bias[name] == model.classifier_.intercept_[number]
            assert evidence.start(name) == pytest.approx(average[number], abs=BOUND)


def test_of_two_classes_the_signs_are_opposite():
    model = two_classes()
    for image, evidence in zip(IMAGES[:3], model.explain(IMAGES[:3], classes=[5, 7]), strict=True):
        [decision] = model.decision_function([image])
        assert evidence.scores == {5: pytest.approx(-decision), 7: pytest.approx(decision)}
        assert evidence.bias[5] == -evidence.bias[7]
        np.testing.assert_allclose(evidence.map(5), -evidence.map(7), atol=1e-12)


def test_the_averages_are_those_of_the_vectors_of_the_training_images():
    """Cell by cell and word by word, from the vectors and weights of the SVM."""
    for name in ("layers", "unplaced", "every grid"):
        model = explained(name)
        coef, first = model.classifier_.coef_.astype(float), 0
        vectors = model.transform(IMAGES).astype(float).mean(axis=0)
        for block, coding in zip(model.settings_.blocks, model.codings_, strict=True):
            width = model.average_.cells[block.name].shape[1]
            n_cells = 1 if coding is None else sum(rows * columns for rows, columns in block.levels)
            assert width == n_cells
            size = len(vectors) - first if block is model.settings_.blocks[-1] else None
            if coding is not None:
                size = n_cells * coding.n_values
            elif block.name == "gist":
                size = 512
            elif block.name == "census":
                size = model.sources_["centrist"].embed([ImageList(IMAGES)[0]]).shape[1]
            told = (coef * vectors)[:, first : first + size]
            first += size
            cells = told.reshape(len(coef), n_cells, -1)
            np.testing.assert_allclose(model.average_.cells[block.name], cells.sum(axis=2), atol=1e-6)
            if coding is None:
                assert block.name not in model.average_.words
            elif block.coding["method"] == "fisher":
                half = cells.reshape(len(coef), n_cells, 2, coding.n_learned, -1)
                np.testing.assert_allclose(
                    model.average_.words[block.name], half.sum(axis=(1, 2, 4)), atol=1e-6
                )
            else:
                np.testing.assert_allclose(model.average_.words[block.name], cells.sum(axis=1), atol=1e-6)
        assert first == len(vectors)


def test_several_images_one_at_a_time_and_in_any_order_give_the_same():
    model, images = explained("layers"), odd_images()
    together = list(model.explain(images))
    for number in (4, 0, 5):
        [alone] = model.explain([images[number]])
        assert alone.classes == together[number].classes
        assert alone.scores == together[number].scores
        for name in alone.classes:
            np.testing.assert_array_equal(alone.map(name), together[number].map(name))


def test_images_are_read_when_their_evidence_is_asked_for(tmp_path):
    paths = write_scenes(tmp_path)
    model, steps = explained("llc max"), []
    found = model.explain([*paths[:3], tmp_path / "missing.png"], progress=lambda *step: steps.append(step))
    assert steps == []
    next(found)
    next(found)
    assert steps[:1] == [(1, 4)]
    assert len(steps) <= 2
    next(found)
    with pytest.raises(ValueError, match=r"missing\.png cannot be read: no such file"):
        next(found)
    assert list(model.explain(paths[:2], progress=lambda *step: steps.append(step)))
    assert steps[-1] == (2, 2)


def test_a_model_that_is_not_fitted_says_so():
    with pytest.raises(ValueError, match="not fitted"):
        model_of({}).explain(IMAGES)


@pytest.mark.data
@pytest.mark.parametrize(("name", "count"), [("quick", 20), ("best", 5)])
def test_of_photographs(name, count, shared):
    """Photographs of Scene 15, with a model of the structure of a preset."""
    model = of_preset(name)
    with tarfile.open(shared / "data" / "scene15.part1.tar") as archive:
        files = sorted(member.name for member in archive if member.isfile())
        images = [archive.extractfile(file).read() for file in files[:: len(files) // count][:count]]
    scores = model.decision_function(images)
    for evidence, row in zip(model.explain(images), scores, strict=True):
        best, second = evidence.classes
        expected = row.max() - np.sort(row)[-2]
        for relative in (False, True):
            heat = evidence.difference(relative=relative)
            start = evidence.start(best, second, relative=relative)
            assert heat.shape == evidence.shape
            assert abs(start + heat.sum() - expected) <= BOUND

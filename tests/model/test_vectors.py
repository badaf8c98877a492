"""Fits with more images than are held in memory: vectors stay in files, and the model is the same."""

import os
import tempfile

import numpy as np
import pytest
from PIL import Image

from ddsfl.model import fit as fit_module
from ddsfl.model import vectors as vectors_module
from tests.support.models import EDGES, FUSED, IMAGES, LABELS, MANY, model_of
from tests.support.tiny import tiny_scenes


@pytest.fixture
def few(monkeypatch):
    """As if 5 images were many."""
    monkeypatch.setattr(fit_module, "MOST_HELD", 5)
    monkeypatch.setattr(fit_module, "ENCODED_AT_ONCE", 3)
    monkeypatch.setattr(vectors_module, "READ_BYTES", 4 * 300 * 5)


@pytest.fixture(scope="module")
def held():
    return model_of(FUSED).fit(IMAGES, LABELS)


def same(one, other):
    assert one.weights_ == other.weights_
    assert one.classifier_.C_ == other.classifier_.C_
    np.testing.assert_allclose(one.decision_function(IMAGES), other.decision_function(IMAGES), atol=1e-3)
    np.testing.assert_allclose(one.predict_proba(IMAGES), other.predict_proba(IMAGES), atol=1e-3)
    np.testing.assert_array_equal(one.validation_.without, other.validation_.without)
    np.testing.assert_allclose(one.validation_.decisions, other.validation_.decisions, atol=1e-3)
    for name, cells in other.average_.cells.items():
        np.testing.assert_allclose(one.average_.cells[name], cells, atol=1e-3)


@pytest.mark.parametrize("checkpoints", [False, True])
def test_the_model_is_that_of_vectors_in_memory(few, held, tmp_path, monkeypatch, checkpoints):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    folder = tmp_path / "stages" if checkpoints else None
    stored = model_of(FUSED).fit(IMAGES, LABELS, checkpoints=folder)
    same(stored, held)
    assert os.listdir(tmp_path / "temporary") == []
    assert checkpoints == (tmp_path / "stages").exists()


def test_a_second_fit_uses_what_is_stored(few, tmp_path):
    names = []
    model_of(EDGES).fit(IMAGES, LABELS, checkpoints=tmp_path)
    model_of(EDGES).fit(IMAGES, LABELS, checkpoints=tmp_path, report=lambda *told: names.append(told))
    assert len([name for name, _ in names if "vectors" in name]) == 4
    assert all(stored for _, stored in names)


def test_of_many_images_some_choose_the_weights(few, monkeypatch):
    seen, plain = {}, vectors_module.choose_weights

    def choose(grams, labels, **options):
        seen["shapes"] = [tuple(gram.shape) for gram in grams]
        seen["labels"] = labels.membership.argmax(axis=1).tolist()
        return plain(grams, labels, **options)

    monkeypatch.setattr(vectors_module, "choose_weights", choose)
    monkeypatch.setattr(vectors_module, "MOST_HELD", 6)
    images, labels = tiny_scenes(n_per_class=4)
    blocks = [MANY[2], {**MANY[4], "weight": "cv"}]
    model_of({**FUSED, "layers": [], "blocks": blocks}).fit(images, labels)
    assert seen["shapes"] == [(6, 6), (6, 6)]
    numbers = {name: number for number, name in enumerate(sorted(set(labels)))}
    assert seen["labels"] == [numbers[labels[index]] for index in range(0, 12, 2)]


def test_vectors_of_a_table_are_read_row_by_row(few, tmp_path, monkeypatch):
    table = tmp_path / "t.csv"
    paths = []
    for number, image in enumerate(IMAGES):
        paths.append(tmp_path / f"{number}.png")
        Image.fromarray(image).save(paths[-1])
    draw = np.random.default_rng(0)
    lines = [f"{path.name},{','.join(map(str, draw.random(7).round(3)))}" for path in paths]
    table.write_text("\n".join(["path,a,b,c,d,e,f,g", *lines]) + "\n")
    changes = {
        "layers": [],
        "sources": {"table": {"method": "table", "path": str(table)}, **FUSED["sources"]},
        "blocks": [MANY[2], {"name": "table", "source": "table", "coding": None}],
    }
    files = [str(path) for path in paths]
    stored = model_of(changes).fit(files, LABELS)
    monkeypatch.setattr(fit_module, "MOST_HELD", 100)
    kept = model_of(changes).fit(files, LABELS)
    np.testing.assert_allclose(stored.decision_function(files), kept.decision_function(files), atol=1e-3)


def test_a_stored_part_that_disappears_ends_the_fit_with_one_sentence(few, tmp_path, monkeypatch):
    plain = fit_module.Fit.classify

    def classify(fit, vectors):
        for path in tmp_path.glob("edges.vectors2.*"):
            path.unlink()
        return plain(fit, vectors)

    monkeypatch.setattr(fit_module.Fit, "classify", classify)
    with pytest.raises(OSError, match=r"edges\.vectors2.*disappeared or was damaged.*run it again"):
        model_of(EDGES).fit(IMAGES, LABELS, checkpoints=tmp_path)
    monkeypatch.setattr(fit_module.Fit, "classify", plain)
    model_of(EDGES).fit(IMAGES, LABELS, checkpoints=tmp_path)

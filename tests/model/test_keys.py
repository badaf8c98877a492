"""Stages of a fit: resumed after an interruption and shared with other settings."""

import shutil

import numpy as np
import pytest
import torch

from ddsfl.classify.fusion import WeightChoice
from ddsfl.encoder.encoder import Encoder
from ddsfl.model.keys import StageKeys
from tests.support.models import FUSED, IMAGES, LABELS, MANY, model_of
from tests.support.tiny import TINY


@pytest.fixture(scope="module")
def fused():
    return model_of(FUSED).fit(IMAGES, LABELS)


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A folder with the stages of the tiny model."""
    folder = tmp_path_factory.mktemp("stages")
    fit_in(TINY, folder)
    return folder


def test_it_resumes_after_an_interruption_at_every_stage(fused, tmp_path):
    names = list(fused.run_.seconds)
    assert names[-4:] == ["weights", "classifier", "without", "novelty"]
    stops = ["centrist.source", "corners.words", "layer1.vectors1", "edges.vectors1", *names[-4:]]
    folder = tmp_path / "stages"
    expected = fused.decision_function(IMAGES)
    for last, stop_at in zip([names[0], *stops], stops):  # each resumes where the previous one stopped

        def interrupt(name, found, last=last, stop_at=stop_at):
            assert found == (name in names[: names.index(last)])
            if name == stop_at:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            model_of(FUSED).fit(IMAGES, LABELS, checkpoints=folder, report=interrupt)
    resumed = model_of(FUSED).fit(IMAGES, LABELS, checkpoints=folder)
    np.testing.assert_array_equal(resumed.decision_function(IMAGES), expected)
    for name, array in fused.validation_.state().items():
        np.testing.assert_array_equal(resumed.validation_.state()[name], array)


def fit_in(changes, folder, **options):
    """Fit with checkpoints; return the model and whether each stage was reused."""
    reused = {}
    model = model_of(changes, **options).fit(IMAGES, LABELS, checkpoints=folder, report=reused.__setitem__)
    return model, reused


def test_other_settings_share_what_they_have_in_common(fused, tmp_path):
    fit_in(FUSED, tmp_path)
    fewer = {**FUSED, "blocks": [MANY[3], {**MANY[0], "weight": 2.0}]}  # another order and another weight
    shared, reused = fit_in(fewer, tmp_path)
    assert [name for name, was in reused.items() if not was] == ["weights", "classifier", "without"]
    alone = model_of(fewer).fit(IMAGES, LABELS)
    np.testing.assert_array_equal(shared.decision_function(IMAGES), alone.decision_function(IMAGES))
    again, reused = fit_in(FUSED, tmp_path)  # the first one's stages are still there
    assert all(reused.values())
    np.testing.assert_array_equal(again.decision_function(IMAGES), fused.decision_function(IMAGES))


@pytest.mark.parametrize(
    ("changes", "lost"),
    [
        ({"layers.1.bank.eta": 0.2}, {"layer2"}),
        ({"layers.bank.eta": 0.2}, {"layer1", "layer2"}),
        ({"blocks.1.coding.n_words": 9}, {"layer2.words", "layer2.vectors1"}),
        ({"layers.0.signs": 0.25}, {"layer1.words", "layer1.vectors1"}),
        ({"blocks.0.levels": [[1, 1]]}, {"layer1.vectors1"}),
        ({"blocks.0.pooling": "average"}, {"layer1.vectors1"}),
        ({"blocks.0.power": 0.5}, {"layer1.vectors1"}),
        ({"classifier.C": 3.0}, set()),
        ({"blocks.0.weight": 3.0}, set()),
    ],
)
def test_a_change_repeats_only_the_stages_that_depend_on_it(changes, lost, tmp_path, stored):
    shutil.copytree(stored, tmp_path / "stages")
    expected = model_of({**TINY, **changes}).fit(IMAGES, LABELS)
    other, reused = fit_in({**TINY, **changes}, tmp_path / "stages")
    repeated = {name for name, was in reused.items() if not was} - {"classifier", "without"}
    layers = {part for part in lost if "." not in part}
    assert repeated == {name for name in reused if name.partition(".")[0] in layers} | (lost - layers)
    assert layers <= {name.partition(".")[0] for name in repeated}
    np.testing.assert_array_equal(other.decision_function(IMAGES), expected.decision_function(IMAGES))


def test_layers_depend_on_labels_but_edges_do_not(tmp_path):
    fit_in({**FUSED, "blocks": MANY[:1] + MANY[2:3]}, tmp_path)
    reused = {}
    model = model_of({**FUSED, "blocks": MANY[:1] + MANY[2:3]})
    model.fit(IMAGES, LABELS[::-1], checkpoints=tmp_path, report=reused.__setitem__)
    assert {name for name, was in reused.items() if was} == {"edges.words", "edges.vectors1"}


def test_parts_of_the_images_are_stored_one_by_one(fused, tmp_path, monkeypatch):
    for module in ("keys", "fit"):
        monkeypatch.setattr(f"ddsfl.model.{module}.ENCODED_AT_ONCE", 5)
    changes = {**FUSED, "blocks": MANY[2:5]}
    steps = []

    def stop(name, found):
        if name == "corners.vectors2":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        model_of({**changes, "layers": []}).fit(IMAGES, LABELS, checkpoints=tmp_path, report=stop)
    model = model_of({**changes, "layers": []})
    reused = {}
    model.fit(
        IMAGES,
        LABELS,
        checkpoints=tmp_path,
        report=reused.__setitem__,
        progress=lambda done, total: steps.append((done, total)),
    )
    assert [name for name, was in reused.items() if name.startswith("edges.v")] == [
        f"edges.vectors{number}" for number in (1, 2, 3)
    ]
    assert reused["edges.vectors2"]
    assert not reused["corners.vectors2"]
    assert steps[-1] == (12, 12)
    monkeypatch.undo()
    at_once = model_of({**changes, "layers": []}).fit(IMAGES, LABELS)
    np.testing.assert_allclose(model.decision_function(IMAGES), at_once.decision_function(IMAGES), atol=1e-4)


def test_missing_vectors_are_encoded_in_one_pass(tmp_path, monkeypatch):
    passes, original = [], Encoder.encode_all
    monkeypatch.setattr(
        Encoder, "encode_all", lambda encoder, *given: passes.append(encoder) or original(encoder, *given)
    )
    fit_in({**FUSED, "layers": [], "blocks": MANY[2:4]}, tmp_path)
    assert [[block.name for block in encoder.blocks] for encoder in passes] == [["edges", "corners"]]
    fit_in({**FUSED, "layers": [], "blocks": MANY[2:]}, tmp_path)
    assert [block.name for block in passes[-1].blocks] == ["census"]


def test_vectors_are_in_the_order_of_the_images_whatever_the_batches(fused, monkeypatch):
    shapes = [(64, 64), (40, 64), (64, 64), (64, 40), (40, 64)]
    images = [torch.from_numpy(image[:h, :w].copy())[None] for image, (h, w) in zip(IMAGES, shapes)]
    coded = list(zip(fused.settings_.blocks, fused.codings_))
    encoder = Encoder(fused.sources_, coded, torch.device("cpu"))
    monkeypatch.setattr("ddsfl.patches.batches.BATCH_PIXELS", {"cpu": 2 * 64 * 64})
    vectors = encoder.encode_all(images)
    for number, image in enumerate(images):
        for name, expected in encoder.encode_batch([image]).items():
            np.testing.assert_allclose(vectors[name][number], expected[0], atol=1e-4)


def test_weights_are_chosen_with_the_parameters_of_the_classifier(monkeypatch):
    asked = {}
    monkeypatch.setattr(
        "ddsfl.model.vectors.choose_weights",
        lambda grams, y, **given: asked.update(given) or WeightChoice((1.0, 2.0), []),
    )
    first = sorted(set(LABELS))[0]
    svm = {"C": 3.0, "cv": 2, "class_weight": {first: 5.0}}
    blocks = [MANY[2], {**MANY[3], "weight": "cv"}]
    model = model_of({**FUSED, "layers": [], "blocks": blocks, "classifier": svm}).fit(IMAGES, LABELS)
    assert model.weights_ == (1.0, 2.0)
    assert asked == {
        "given": [0.5, None],
        "Cs": (3.0,),
        "cv": 2,
        "class_weight": {0: 5.0},
        "random_state": model.classifier_.random_state,
    }


@pytest.mark.parametrize("part", ["edges.vectors1", "corners.vectors1", "layer1.words"])
def test_a_damaged_stage_is_learned_again_and_the_model_is_the_same(fused, tmp_path, part):
    """A flipped bit in a header, or in data, which only the checksum shows; the others are reused."""
    fit_in(FUSED, tmp_path)
    (path,) = tmp_path.glob(f"{part}.*")
    whole = bytearray(path.read_bytes())
    whole[-5] ^= 4
    path.write_bytes(whole)
    with pytest.warns(UserWarning, match=f"{part}.* is damaged; its result is computed again"):
        again, reused = fit_in(FUSED, tmp_path)
    assert [name for name, was in reused.items() if not was] == [part]
    np.testing.assert_array_equal(again.decision_function(IMAGES), fused.decision_function(IMAGES))


@pytest.mark.parametrize("change", ["torch", "device", "ddsfl"])
def test_stages_of_another_library_or_device_are_not_mixed_in(stored, tmp_path, monkeypatch, change):
    shutil.copytree(stored, tmp_path / "stages")
    if change == "torch":
        monkeypatch.setattr(torch, "__version__", "1.2.3+cpu")
    elif change == "ddsfl":
        monkeypatch.setattr("ddsfl.__version__", "99")
    else:
        monkeypatch.setattr("ddsfl.model.fit.StageKeys", on_a_gpu)
    _, reused = fit_in(TINY, tmp_path / "stages")
    assert not any(reused.values())


def on_a_gpu(*args):
    """Return the keys of a fit on CUDA."""
    return StageKeys(*args[:-1], torch.device("cuda"))

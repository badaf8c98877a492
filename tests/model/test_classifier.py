"""SceneClassifier: learns, takes every form of input, and behaves like a scikit-learn estimator."""

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score

from ddsfl.compute.device import spawn_seeds
from ddsfl.images.image_list import UnreadableImage
from ddsfl.model.classifier import SceneClassifier
from tests.support.models import same_model, tiny
from tests.support.tiny import TINY, tiny_scenes, write_scenes

IMAGES, LABELS = tiny_scenes()


@pytest.fixture(scope="module")
def fitted():
    return tiny().fit(IMAGES, LABELS)


def test_labels_scores_probabilities_and_vectors_have_their_shapes(fitted):
    assert set(fitted.predict(IMAGES)) <= set(LABELS)
    assert fitted.decision_function(IMAGES).shape == (12, 3)
    np.testing.assert_allclose(fitted.predict_proba(IMAGES).sum(axis=1), 1, rtol=1e-5)
    vectors = fitted.transform(IMAGES)
    assert vectors.shape == (12, 2 * 21 * 12)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), np.sqrt(2), rtol=1e-5)


def test_decisions_are_the_svm_s_on_the_joined_vectors(fitted):
    expected = fitted.classifier_.decision_function(fitted.transform(IMAGES))
    np.testing.assert_allclose(fitted.decision_function(IMAGES), expected, atol=1e-5)


def test_it_learns(fitted):
    assert fitted.score(IMAGES, LABELS) > 0.9
    assert list(fitted.run_.seconds)[:3] == ["layer1.space", "layer1.exemplars", "layer1.bank"]
    assert fitted.training_["images_per_class"] == [4, 4, 4]


def test_iterations_are_told_within_the_stages_that_iterate():
    stage, seen = [""], {}

    def step(done, most):
        seen.setdefault(stage[0], []).append((done, most))

    tiny().fit(IMAGES, LABELS, report=lambda name, found: stage.__setitem__(0, name), steps=step)
    learned = {f"layer{number}.{part}" for number in (1, 2) for part in ("exemplars", "bank", "words")}
    assert set(seen) == learned | {"classifier", "without"}
    assert all(0 < done <= most for steps in seen.values() for done, most in steps)


def test_the_seed_of_words_depends_only_on_what_they_code(fitted):
    words_seed = spawn_seeds(fitted.seed_, 3)[1]
    assert [coding.random_state for coding in fitted.codings_] == spawn_seeds(words_seed, 2)
    assert spawn_seeds(words_seed, 1) == spawn_seeds(words_seed, 2)[:1]  # sharing of stages relies on it


def test_same_seed_same_model_and_another_seed_another(fitted):
    same_model(fitted, tiny().fit(IMAGES, LABELS))
    other = tiny(random_state=1).fit(IMAGES, LABELS)
    assert not torch.equal(fitted.stack_.learned_[0].filters, other.stack_.learned_[0].filters)


def test_order_of_images_in_predict_does_not_matter(fitted):
    order = np.random.default_rng(0).permutation(len(IMAGES))
    mixed = [np.ascontiguousarray(IMAGES[i][: 64 - (i % 3) * 8]) for i in order]  # several shapes
    straight = [np.ascontiguousarray(IMAGES[i][: 64 - (i % 3) * 8]) for i in range(len(IMAGES))]
    expected = fitted.decision_function(straight)[order]
    np.testing.assert_allclose(fitted.decision_function(mixed), expected, atol=1e-4)


def test_vectors_of_blocks_are_in_the_order_of_the_images(fitted):
    images = [IMAGES[0], IMAGES[1][:40], IMAGES[2][:, :50]]  # batches group images by shape
    together = fitted.block_vectors(images)
    for row, image in enumerate(images):
        for name, alone in fitted.block_vectors([image]).items():
            torch.testing.assert_close(together[name][row], alone[0], rtol=1e-4, atol=1e-5)


def test_paths_pil_images_and_arrays_are_the_same(fitted, tmp_path):
    paths = write_scenes(tmp_path)
    expected = fitted.decision_function(IMAGES)
    np.testing.assert_array_equal(fitted.decision_function(paths), expected)
    np.testing.assert_array_equal(fitted.decision_function([str(path) for path in paths]), expected)
    np.testing.assert_array_equal(fitted.decision_function([Image.fromarray(i) for i in IMAGES]), expected)


def test_it_works_in_cross_validation_and_grid_search_on_paths(tmp_path):
    paths, labels = np.array([str(path) for path in write_scenes(tmp_path)]), np.array(LABELS)
    candidates = [{**TINY, "classifier.C": 1e-6}, {**TINY, "blocks.levels": [[1, 1]]}]
    expected = []
    for changes in candidates:
        accuracies = []
        for train, test in StratifiedKFold(2).split(paths, labels):
            model = tiny(changes=changes).fit(paths[train].tolist(), labels[train])
            accuracies.append(np.mean(model.predict(paths[test].tolist()) == labels[test]))
        expected.append(accuracies)
    scores = cross_val_score(tiny(changes=candidates[1]), paths.tolist(), LABELS, cv=2, error_score="raise")
    assert scores.tolist() == expected[1]
    search = GridSearchCV(tiny(), {"changes": candidates}, cv=2, error_score="raise")
    search.fit(paths.tolist(), LABELS)
    assert search.cv_results_["mean_test_score"].tolist() == pytest.approx(np.mean(expected, axis=1))
    assert np.mean(expected[1]) > np.mean(expected[0])
    assert search.best_params_ == {"changes": candidates[1]}


def test_clone_keeps_parameters_and_forgets_what_was_learned(fitted):
    copy = clone(fitted)
    assert copy.get_params() == fitted.get_params()
    with pytest.raises(NotFittedError):
        copy.predict(IMAGES)


def test_two_classes(tmp_path):
    images, labels = tiny_scenes(classes=2)
    model = tiny().fit(images, labels)
    assert model.decision_function(images).shape == (8,)
    assert model.scores_by_class(model.decision_function(images)).shape == (8, 2)
    assert (model.predict(images) == np.array(labels)).mean() > 0.8
    model.save(tmp_path / "m.safetensors")
    loaded = SceneClassifier.load(tmp_path / "m.safetensors", device="cpu")
    assert list(loaded.predict(images)) == list(model.predict(images))


def test_several_labels_per_image(tmp_path):
    several = [(label, "scene") if number % 2 else (label,) for number, label in enumerate(LABELS)]
    model = tiny().fit(IMAGES, several)
    assert list(model.classes_) == sorted({*LABELS, "scene"})
    assert model.predict(IMAGES).shape == (12, 4)
    assert model.predict(IMAGES).dtype == bool
    model.save(tmp_path / "m.safetensors")
    loaded = SceneClassifier.load(tmp_path / "m.safetensors", device="cpu")
    np.testing.assert_array_equal(loaded.predict(IMAGES), model.predict(IMAGES))


def test_numbers_as_labels():
    numbers = np.array([3, 7, 9])[np.unique(LABELS, return_inverse=True)[1]]
    model = tiny().fit(IMAGES, numbers)
    assert model.classes_.tolist() == [3, 7, 9]
    assert np.mean(model.predict(IMAGES) == numbers) > 0.9


def test_colour_images():
    rng = np.random.default_rng(0)
    images = [rng.integers(0, 256, (48, 52, 3), dtype=np.uint8) for _ in range(6)]
    model = tiny(changes={**TINY, "colour": "lab"}).fit(images, ["a", "b"] * 3)
    assert model.stack_.pixel_filters_[0].shape == (10, 3, 16, 16)


def test_one_pixel_images_and_flat_images_are_classified(fitted):
    odd = [np.zeros((1, 1), np.uint8), np.full((400, 3), 200, np.uint8), np.full((64, 64), 90, np.uint8)]
    assert np.isfinite(fitted.decision_function(odd)).all()


@pytest.mark.parametrize(
    ("images", "labels", "message"),
    [
        (IMAGES, LABELS[:-1], "y has 11 labels; expected one for each of the 12 images"),
        (IMAGES, ["a"] * 12, "y contains only one class, 'a'"),
        ([], [], "X is empty"),
        ("photo.jpg", ["a"], r"X is one image \('photo.jpg'\); expected a list of images: \[X\]"),
    ],
)
def test_bad_input_is_named(images, labels, message):
    with pytest.raises(ValueError, match=message):
        tiny().fit(images, labels)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(UnreadableImage, match=r"gone\.png"):
        tiny().fit([*IMAGES[:-1], tmp_path / "gone.png"], LABELS)


def test_unknown_presets_and_settings_are_named():
    with pytest.raises(
        ValueError, match="preset='fast' is unknown; expected one of 'quick', 'paper', 'best'"
    ):
        SceneClassifier("fast").fit(IMAGES, LABELS)
    with pytest.raises(ValueError, match=r"does not exist; did you mean 'layers\.bank\.eta'\?"):
        tiny(changes={"layers.banks.eta": 1}).fit(IMAGES, LABELS)


@pytest.mark.cuda
def test_a_model_of_a_gpu_works_on_a_cpu(tmp_path):
    model = tiny(device="cuda").fit(IMAGES, LABELS)
    model.save(tmp_path / "m.safetensors")
    loaded = SceneClassifier.load(tmp_path / "m.safetensors", device="cpu")
    assert (loaded.predict(IMAGES) == model.predict(IMAGES)).all()
    # Half-precision searches on the GPU may choose other words, which changes scores a little.
    np.testing.assert_allclose(loaded.decision_function(IMAGES), model.decision_function(IMAGES), atol=0.05)


def test_images_too_small_for_so_many_words_still_train(tmp_path):
    small = [image[:32, :32] for image in IMAGES]
    with pytest.warns(UserWarning, match="n_words=60 but only 12 descriptors were found"):
        model = tiny(changes={**TINY, "blocks.coding.n_words": 60}).fit(small, LABELS)
    assert [len(coding.words_) for coding in model.codings_] == [60, 12]
    model.save(tmp_path / "m.safetensors")
    loaded = SceneClassifier.load(tmp_path / "m.safetensors", device="cpu")
    np.testing.assert_array_equal(loaded.decision_function(small), model.decision_function(small))


def test_fewer_descriptors_than_neighbours():
    images, labels = tiny_scenes(n_per_class=2, classes=2)
    with pytest.warns(UserWarning, match="only 4 descriptors"):
        model = tiny().fit([image[:32, :32] for image in images], labels)
    assert np.isfinite(model.decision_function(images)).all()


def test_class_weights_are_given_by_name(fitted):
    last = sorted(set(LABELS))[-1]
    heavy = tiny(changes={**TINY, "classifier.class_weight": {last: 1000.0}}).fit(IMAGES, LABELS)
    assert not np.allclose(heavy.decision_function(IMAGES), fitted.decision_function(IMAGES))
    svm = clone(fitted.classifier_).set_params(class_weight={2: 1000.0})
    svm.fit(fitted.transform(IMAGES), np.searchsorted(fitted.classes_, LABELS))
    np.testing.assert_allclose(heavy.classifier_.coef_, svm.coef_, atol=1e-4)
    with pytest.raises(ValueError, match="class_weight names moon; expected some of"):
        tiny(changes={**TINY, "classifier.class_weight": {"moon": 2.0}}).fit(IMAGES, LABELS)


def test_labels_of_a_data_frame(fitted):
    pandas = pytest.importorskip("pandas")
    labels = pandas.Series(LABELS, index=range(5, 5 + len(LABELS)))
    same_model(fitted, tiny().fit(IMAGES, labels))


def test_score_of_several_labels_is_mean_average_precision():
    several = [(label, "scene") if number % 2 else (label,) for number, label in enumerate(LABELS)]
    model = tiny().fit(IMAGES, several)
    indicator = np.array([[name in labels for name in model.classes_] for labels in several])
    assert model.score(IMAGES, several) == model.score(IMAGES, indicator) > 0.8


def test_numbers_of_numpy_can_be_saved(tmp_path):
    changes = {**TINY, "layers.bank.n_filters": np.int64(10)}
    model = tiny(changes=changes, random_state=np.int64(0)).fit(IMAGES, LABELS)
    model.save(tmp_path / "m.safetensors")
    assert SceneClassifier.load(tmp_path / "m.safetensors").random_state == 0


def test_an_image_list_must_fit_the_settings(fitted):
    from ddsfl.images.image_list import ImageList

    with pytest.raises(
        ValueError, match="colour='lab', max_side=300 and min_side=16; expected colour='gray'"
    ):
        fitted.predict(ImageList(IMAGES, colour="lab"))
    with pytest.raises(
        ValueError, match="max_side=200 and min_side=16; expected colour='gray', max_side=300"
    ):
        fitted.predict(ImageList(IMAGES, max_side=200))
    np.testing.assert_array_equal(
        fitted.predict(ImageList(IMAGES, min_side=fitted.settings_.min_side)), fitted.predict(IMAGES)
    )


def test_unknown_class_weights_and_bad_images_end_a_fit_before_any_stage(tmp_path):
    stages = []
    changes = {**TINY, "classifier.class_weight": {"moon": 2.0}}
    with pytest.raises(ValueError, match="class_weight names moon"):
        tiny(changes=changes).fit(IMAGES, LABELS, report=lambda name, found: stages.append(name))
    changes["classifier.class_weight"] = {LABELS[0]: 2.0}
    several = [(label, "scene") for label in LABELS]
    with pytest.raises(ValueError, match="expected None or 'balanced', because images have several labels"):
        tiny(changes=changes).fit(IMAGES, several, report=lambda name, found: stages.append(name))
    (tmp_path / "bad.jpg").write_bytes(b"no image")
    with pytest.raises(ValueError, match=r"bad\.jpg"):
        tiny().fit(
            [*IMAGES[:-1], tmp_path / "bad.jpg"], LABELS, report=lambda name, found: stages.append(name)
        )
    assert stages == []

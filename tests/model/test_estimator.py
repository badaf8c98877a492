"""SceneClassifier with scikit-learn's own tools: parameters, searches, pipelines, weights, containers."""

import io
import pickle

import joblib
import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.base import clone
from sklearn.ensemble import StackingClassifier, VotingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline
from sklearn.utils import estimator_checks

from ddsfl.images.image_list import ImageList
from ddsfl.model.classifier import SceneClassifier
from tests.support.models import FUSED, IMAGES, LABELS, SOURCES, edges, model_of
from tests.support.tiny import TINY, write_scenes

WORDS = "changes__blocks.coding.n_words"


@pytest.fixture(scope="module")
def fitted():
    return edges().fit(IMAGES, LABELS)


# One image and many -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "method", ["predict", "decision_function", "predict_proba", "transform", "block_vectors"]
)
def test_one_image_is_never_taken_for_many(method):
    model = edges(**{"classifier.calibrate": True}).fit(IMAGES, LABELS)
    image = IMAGES[0]
    for one in (image, np.dstack([image] * 3), Image.fromarray(image), torch.from_numpy(image)[None], b"..."):
        with pytest.raises(ValueError, match=r"X is one image .*; expected a list of images: \[X\]"):
            getattr(model, method)(one)
    assert len(model.predict([image])) == 1


def test_one_image_cannot_be_fitted_or_scored(fitted):
    for call in (edges().fit, fitted.score, edges().fit_transform):
        with pytest.raises(ValueError, match=r"X is one image \(an array of shape \(64, 64\)\)"):
            call(IMAGES[0], LABELS)


def test_a_model_is_the_same_whatever_the_form_of_the_images(fitted, tmp_path):
    paths = write_scenes(tmp_path)
    files = [io.BytesIO(path.read_bytes()) for path in paths]
    expected = fitted.decision_function(IMAGES)
    forms = [
        np.stack(IMAGES),
        (image for image in IMAGES),
        tuple(paths),
        np.array(paths, dtype=str)[:, None],
        [path.read_bytes() for path in paths],
        files,
        [torch.from_numpy(image)[None] for image in IMAGES],
    ]
    for X in forms:
        np.testing.assert_array_equal(edges().fit(X, LABELS).decision_function(IMAGES), expected)
    np.testing.assert_array_equal(fitted.decision_function(files), expected)  # the same files again
    np.testing.assert_array_equal(fitted.decision_function(iter(IMAGES)), expected)


# The forms of y -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (None, "requires y to be passed, but the target y is None"),
        (np.linspace(0, 1, 12), "Unknown label type: continuous"),
        ([*LABELS[:-1], float("nan")], "y has no label for image 11"),
        ([*LABELS[:-1], None], "y has no label for image 11"),
        (LABELS[:-1], "y has 11 labels; expected one for each of the 12 images"),
    ],
)
def test_labels_that_do_not_fit_are_named(fitted, y, message):
    for call in (edges().fit, edges().fit_transform, fitted.score):
        with pytest.raises(ValueError, match=message):
            call(IMAGES, y)


# Parameters -------------------------------------------------------------------------------------


def test_changes_are_parameters_of_their_own():
    shared = {"layers.bank.eta": 0.01}
    model = SceneClassifier("quick", changes=shared)
    assert model.get_params()["changes__layers.bank.eta"] == 0.01
    assert "changes__layers.bank.eta" not in model.get_params(deep=False)
    other = clone(model).set_params(
        **{"changes__layers.bank.eta": 0, "device": "cpu", "changes__max_side": 99}
    )
    model.set_params(**{"changes__max_side": 200})
    assert shared == {"layers.bank.eta": 0.01}
    assert model.changes == {"layers.bank.eta": 0.01, "max_side": 200}
    assert other.changes == {"layers.bank.eta": 0, "max_side": 99}
    assert (other.device, other.settings_in_use().layers[0].bank["eta"]) == ("cpu", 0)
    assert SceneClassifier().set_params(**{"changes__max_side": 99}).changes == {"max_side": 99}
    assert clone(other).get_params() == other.get_params()
    both = clone(model).set_params(**{"changes__max_side": 50}, changes={"layers.bank.eta": 0.5})
    assert both.changes == {"layers.bank.eta": 0.5, "max_side": 50}
    assert model.set_params(changes=None).get_params()["changes"] is None


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("layers.banks.eta", 0, "setting 'layers.banks.eta' does not exist"),
        ("blocks.power", 0, "power.*expected"),
    ],
)
def test_an_unknown_change_is_named_before_any_fit(path, value, message):
    model = model_of(TINY)
    before = model.get_params()
    with pytest.raises(ValueError, match=message):
        model.set_params(**{f"changes__{path}": value})
    assert model.get_params() == before
    with pytest.raises(ValueError, match=message):
        GridSearchCV(model, {f"changes__{path}": [value]}, cv=2).fit(IMAGES, LABELS)
    with pytest.raises(ValueError, match="Invalid parameter 'change'"):
        model.set_params(change={})


def test_a_grid_search_over_changes():
    names = [WORDS, "changes__classifier.C"]
    search = GridSearchCV(edges(), {names[0]: [6, 8], names[1]: [0.5]}, cv=2, error_score="raise")
    search.fit(IMAGES, LABELS)
    for parameters, score in zip(search.cv_results_["params"], search.cv_results_["mean_test_score"]):
        changes = {name.removeprefix("changes__"): value for name, value in parameters.items()}
        alone = cross_val_score(edges(**changes), IMAGES, LABELS, cv=2, error_score="raise")
        assert score == pytest.approx(alone.mean())
    assert len(search.best_estimator_.codings_[0].words_) == search.best_params_[WORDS]
    assert search.n_features_in_ == 1


def test_a_grid_search_over_the_class_terms_of_learned_filters():
    search = GridSearchCV(model_of(TINY), {"changes__layers.bank.eta": [0, 0.5]}, cv=2, error_score="raise")
    assert search.fit(IMAGES, LABELS).best_estimator_.settings_.layers[0].bank["eta"] in (0, 0.5)


@pytest.mark.parametrize(
    "check",
    [
        "check_estimator_cloneable", "check_estimator_repr", "check_estimator_tags_renamed",
        "check_get_params_invariance", "check_mixin_order", "check_no_attributes_set_in_init",
        "check_parameters_default_constructible", "check_requires_y_none", "check_set_params",
        "check_valid_tag_types",
    ],
)  # fmt: skip
def test_the_checks_of_scikit_learn_that_need_no_matrix(check):
    getattr(estimator_checks, check)("SceneClassifier", edges())


# Transformers -----------------------------------------------------------------------------------


def test_fit_transform_is_fit_and_transform(fitted):
    expected = fitted.transform(IMAGES)
    for X in (IMAGES, iter(IMAGES)):
        np.testing.assert_array_equal(edges().fit_transform(X, LABELS), expected)
    weighted = edges()
    weighted.fit_transform(IMAGES, LABELS, sample_weight=np.arange(1, 13))
    assert not np.array_equal(weighted.classifier_.coef_, fitted.classifier_.coef_)


def test_every_value_has_the_name_of_its_block():
    model = model_of(FUSED).fit(IMAGES, LABELS)
    names = model.get_feature_names_out()
    vectors = model.transform(IMAGES[:2])
    assert len(names) == vectors.shape[1] == len(set(names))
    of_block = np.array([name.rpartition("_")[0] for name in names])
    for block, rows in model.block_vectors(IMAGES[:2]).items():
        weight = model.weights_[[part.name for part in model.settings_.blocks].index(block)]
        np.testing.assert_allclose(vectors[:, of_block == block], weight * rows.numpy(), atol=1e-5)
    assert names[0] == "layer1_0"
    colour = edges(colour="rgb").fit([np.dstack([image] * 3) for image in IMAGES], LABELS)
    assert len(colour.get_feature_names_out()) == 10


def test_names_of_vectors_from_networks_and_tables(tmp_path):
    paths = write_scenes(tmp_path)
    np.savez(tmp_path / "deep.npz", paths=[str(path) for path in paths], vectors=np.eye(12, 7))
    sources = {
        "table": {"method": "table", "path": str(tmp_path / "deep.npz")},
        "net": {"method": "callable", "function": _mean_colours, "input_size": 8},
    }
    blocks = [{"name": name, "source": name, "coding": None} for name in ("table", "net")]
    model = edges(sources=sources, blocks=blocks).fit(paths, LABELS)
    names = model.get_feature_names_out().tolist()
    assert names == [*(f"table_{i}" for i in range(7)), *(f"net_{i}" for i in range(3))]


def _mean_colours(pixels):
    return pixels.mean(dim=(2, 3))


def test_images_are_one_column(fitted, tmp_path):
    assert not hasattr(edges(), "n_features_in_")
    with pytest.raises(NotFittedError):
        edges().get_feature_names_out()
    fitted.save(tmp_path / "m.safetensors")
    loaded = SceneClassifier.load(tmp_path / "m.safetensors", device="cpu")
    assert fitted.n_features_in_ == loaded.n_features_in_ == 1
    np.testing.assert_array_equal(loaded.get_feature_names_out(), fitted.get_feature_names_out())


def test_vectors_as_a_data_frame():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"image": pandas.Series(IMAGES, index=range(5, 17))})
    plain = edges().fit_transform(frame, LABELS)
    model = edges().set_output(transform="pandas")
    for vectors in (model.fit_transform(frame, LABELS), model.transform(frame)):
        assert vectors.columns.tolist() == [f"edges_{number}" for number in range(10)]
        assert vectors.index.tolist() == list(range(5, 17))
        np.testing.assert_array_equal(vectors, plain)
    labels = pandas.Series(LABELS, index=range(5, 17))
    scores = cross_val_score(edges(), frame, labels, cv=2, error_score="raise")
    assert scores.tolist() == cross_val_score(edges(), IMAGES, LABELS, cv=2).tolist()


# Other tools ------------------------------------------------------------------------------------


def test_image_lists_are_split_without_losing_their_sources():
    colours = [np.dstack([image, np.roll(image, 9), image.T]) for image in IMAGES]
    model = edges(colour="lab", sources=SOURCES)
    images = model.settings_in_use().image_list(colours)
    assert isinstance(images, ImageList)
    scores = cross_val_score(model, images, LABELS, cv=3, error_score="raise")
    assert scores.tolist() == cross_val_score(model, colours, LABELS, cv=3).tolist()


def test_pipelines_as_the_last_step_and_as_a_transformer(fitted):
    alone = Pipeline([("scene", edges())])
    alone.set_params(**{f"scene__{WORDS}": 6}).fit(IMAGES, LABELS)
    assert len(alone["scene"].codings_[0].words_) == 6
    assert alone.get_params()[f"scene__{WORDS}"] == 6
    before = Pipeline([("scene", edges()), ("labels", LogisticRegression(C=100))])
    search = GridSearchCV(before, {f"scene__{WORDS}": [6, 10]}, cv=2, error_score="raise")
    assert search.fit(IMAGES, LABELS).score(IMAGES, LABELS) > 0.8
    before.fit(IMAGES, LABELS, scene__sample_weight=np.ones(12))
    vectors = fitted.transform(IMAGES)
    expected = LogisticRegression(C=100).fit(vectors, LABELS).predict(vectors)
    np.testing.assert_array_equal(before.predict(IMAGES), expected)
    assert before[:-1].get_feature_names_out()[0] == "edges_0"


def test_votes_and_stacks():
    members = [("few", edges(**{"blocks.coding.n_words": 6})), ("many", edges())]
    weights = np.arange(1.0, 13.0)
    votes = VotingClassifier(members).fit(IMAGES, LABELS, sample_weight=weights)
    assert votes.score(IMAGES, LABELS) > 0.6
    stacked = StackingClassifier(members, LogisticRegression(C=100), cv=2).fit(IMAGES, LABELS)
    assert stacked.predict(IMAGES).shape == (12,)


def test_models_are_sent_to_other_processes(fitted):
    for model in (edges(), fitted):
        assert pickle.loads(pickle.dumps(model)).get_params() == model.get_params()
    copy = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(copy.decision_function(IMAGES), fitted.decision_function(IMAGES))


@pytest.mark.slow
def test_loky_fits_and_predicts_in_other_processes(fitted):
    parallel = joblib.Parallel(2, backend="loky")
    with joblib.parallel_config(backend="loky"):
        scores = cross_val_score(edges(), IMAGES, LABELS, cv=2, n_jobs=2, error_score="raise")
    assert scores.tolist() == cross_val_score(edges(), IMAGES, LABELS, cv=2).tolist()
    halves = parallel(joblib.delayed(fitted.decision_function)(half) for half in (IMAGES[:6], IMAGES[6:]))
    np.testing.assert_allclose(np.concatenate(halves), fitted.decision_function(IMAGES), atol=1e-4)

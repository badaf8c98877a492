"""Model files as hostile input: each loads to a model that predicts, or is refused with one sentence."""

import copy
import json

import numpy as np
import pytest

from ddsfl.model.classifier import SceneClassifier
from ddsfl.model.file import ModelFileError, read_model, write_model
from ddsfl.report.inspection import describe_model
from tests.support.models import FISHER, IMAGES, LABELS, LEVELS, SOURCES, WORDS, model_of
from tests.support.tiny import TINY

BLOCKS = [
    {"name": "layer1", "coding": WORDS, "levels": LEVELS},
    {"name": "sift", "source": "sift", "coding": FISHER, "levels": [[1, 1]]},
    {"name": "census", "source": "centrist", "coding": None},
]


@pytest.fixture(scope="module")
def parts():
    """Tensors and header of a model with layers, words, Gaussians, a global descriptor and patches."""
    layers = {path: value for path, value in TINY.items() if path.startswith("layers")}
    model = model_of({**layers, "sources": SOURCES, "blocks": BLOCKS, "classifier.calibrate": True})
    model.fit(IMAGES, LABELS).collect_patches(IMAGES, LABELS)
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        model.save(f"{folder}/m")
        return read_model(f"{folder}/m")


@pytest.fixture
def refused(parts, tmp_path):
    """Return a function that changes a model and returns the sentence with which its file is refused."""

    def attempt(change):
        tensors, header = dict(parts[0]), copy.deepcopy(parts[1])
        change(tensors, header)
        write_model(tmp_path / "m", tensors, header)
        with pytest.raises(ModelFileError) as caught:
            SceneClassifier.load(tmp_path / "m", device="cpu")
        said = str(caught.value)
        assert said.startswith(f"{tmp_path / 'm'} is ")
        assert said.endswith(".")
        assert len(said) < 600
        return said

    return attempt


def test_the_model_itself_is_accepted(parts, tmp_path):
    write_model(tmp_path / "m", *parts)
    model = SceneClassifier.load(tmp_path / "m", device="cpu")
    assert np.isfinite(model.decision_function(IMAGES[:2])).all()
    assert describe_model(model)


HEADER = [
    ("classes", ["a", "a", "b"], "classes"),
    ("classes", ["a", 1, "b"], "classes"),
    ("classes", ["a", "b"], "2 classes, but 3 numbers"),
    ("classes", [2**70, 1, 2], "classes"),
    ("classes", "abc", "classes"),
    ("classes", {"a": 1}, "classes"),
    ("multilabel", 0, "multilabel"),
    ("multilabel", True, "other classes"),
    ("seed", -1, "seed"),
    ("seed", 1.5, "seed"),
    ("random_state", "x", "random_state"),
    ("weights", [1.0], "1 weights"),
    ("weights", [1.0, 1.0, 0.0], "weights"),
    ("weights", [1.0, 1.0, 1e300], "weights"),
    ("weights", [1.0, 1.0, "cv"], "weights"),
    ("training", [], "training"),
    ("training", {}, "is incomplete: 'training.fingerprint' is missing"),
    ("preset", ["quick"], "preset"),
    ("preset", "x" * 1000, "preset"),
    ("changes", [1], "changes"),
    ("changes", {f"sources.x{n}": {} for n in range(3000)}, "changes"),
    ("settings", [], "settings"),
    ("settings", {}, "layers is missing"),
    ("networks", {"net": {"file": "x.onnx", "fingerprint": "0" * 64}}, "networks names"),
    ("networks", {"net": 3}, "networks.net"),
    ("keeps_patches", "yes", "keeps_patches"),
]


@pytest.mark.parametrize(("name", "value", "named"), HEADER)
def test_values_of_the_header(refused, name, value, named):
    assert named in refused(lambda _, header: header.update({name: value}))


@pytest.mark.parametrize(
    "name", ["preset", "settings", "classes", "multilabel", "seed", "training", "weights"]
)
def test_missing_values_of_the_header(refused, name):
    assert f"is incomplete: '{name}' is missing" in refused(lambda _, header: header.pop(name))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("fingerprint", "[/red]"),
        ("fingerprint", 3),
        ("n_images", -1),
        ("n_images", 1.5),
        ("images_per_class", [4, 4]),
        ("images_per_class", "444"),
    ],
)
def test_values_of_the_training(refused, name, value):
    refused(lambda _, header: header["training"].update({name: value}))


def test_deep_and_many_values(refused):
    nested = json.loads("[" * 400 + "]" * 400)
    assert "nested deeper than 20 levels" in refused(lambda _, header: header.update(more=nested))
    assert "nested deeper" in refused(lambda _, header: header["changes"].update(max_side=nested))
    assert "more than 1,000,000" in refused(lambda _, header: header.update(more=[[0] * 1000] * 1001))


SETTINGS = [
    (("layers", 0, "n_scales"), 10**6),
    (("layers", 0, "field"), 17),
    (("layers", 0, "bank", "n_filters"), 11),
    (("layers", 0, "n_components"), 3),
    (("layers", 0, "signs"), 0.0),
    (("layers", 0, "x" * 5000), 1),
    (("layers", 0, "bank"), None),
    (("blocks", 0, "levels"), [[20_000, 20_000]]),
    (("blocks", 0, "levels"), [[3, 3]]),
    (("blocks", 0, "coding", "n_words"), 3),
    (("blocks", 0, "coding", "n_words"), 10**6),
    (("blocks", 0, "coding"), WORDS | {"n_words": 60, "n_neighbors": 51}),
    (("blocks", 0, "output"), 2),
    (("blocks", 1, "coding", "n_components"), 2),
    (("blocks", 2, "source"), "gist"),
    (("blocks", 2, "name"), "layer1"),
    (("blocks", 0, "coding"), WORDS | {"method": "vq", "n_words": 9, "n_neighbors": 5}),
    (("sources",), {f"s{n}": {"method": "sift"} for n in range(33)} | {"sift": SOURCES["sift"]}),
    (("sources",), {"sift": {"method": "callable", "function": "os.system"}}),
    (("colour",), "lab"),
    (("max_side",), 10**9),
    (("classifier", "Cs"), [1.0]),
    (("classifier", "C"), float(10**300)),
]


@pytest.mark.parametrize(("path", "value"), SETTINGS)
def test_settings_have_the_bounds_that_users_have_and_fit_the_tensors(refused, path, value):
    def change(_, header):
        place = header["settings"]
        for part in path[:-1]:
            place = place[part]
        place[path[-1]] = value

    refused(change)


@pytest.mark.parametrize(
    "name", ["/tmp/evil", "../evil", "a\\evil", "evil.png", "..", "C:evil", "e\nvil", " "]
)
@pytest.mark.parametrize("what", ["block", "source"])
def test_names_that_lead_out_of_the_folder_of_pictures_are_refused(refused, name, what):
    def change(tensors, header):
        settings = header["settings"]
        if what == "source":
            settings["sources"][name] = settings["sources"].pop("sift")
            settings["blocks"][1]["source"] = name
            return
        settings["blocks"][1]["name"] = name
        for tensor in [tensor for tensor in tensors if ".sift" in tensor]:
            tensors[tensor.replace("sift", name)] = tensors.pop(tensor)

    assert "characters, none of them" in refused(change)


ALL_TENSORS = [
    *(f"source.stack.layer1.{part}" for part in ("mean", "axes", "gains", "filters", "pixel_filters")),
    *(f"source.stack.layer1.{part}" for part in ("sharing", "n_exemplars", "objective", "terms")),
    *(f"source.centrist.{part}" for part in ("mean", "axes", "lowest", "highest")),
    "block.layer1.words",
    *(f"block.sift.{part}" for part in ("mean", "axes", "weights", "means", "variances")),
    *(f"classifier.{part}" for part in ("coef", "intercept", "classes", "single_label", "C", "cv_scores")),
    *(f"validation.{part}" for part in ("score", "folds", "decisions", "membership")),
    *("classifier.slopes", "classifier.offsets", "novelty.middle", "novelty.weights"),
    *(
        f"novelty.{kind}.{part}"
        for kind in ("whole", "windows")
        for part in ("means", "factors", "log_volumes")
    ),
    *("average.cells.layer1", "average.words.sift", "average.cells.census"),
    *(f"patches.{part}.sift" for part in ("words", "pixels", "labels", "features")),
]


@pytest.mark.parametrize("name", ALL_TENSORS)
def test_each_tensor_has_its_type_shape_and_finite_values(refused, parts, name):
    array = parts[0][name]
    assert name in refused(lambda tensors, _: tensors.update({name: array[None]}))
    refused(lambda tensors, _: tensors.update({name: (array != 0).astype(np.uint16)}))
    if array.ndim and name.rpartition(".")[2] not in ("objective", "terms"):
        refused(lambda tensors, _: tensors.update({name: array[:-1]}))
    if array.dtype.kind == "f":
        for bad in (np.nan, np.inf, -np.inf, 3e38):
            spoiled = array.copy()
            spoiled.reshape(-1)[-1] = bad
            assert name in refused(lambda tensors, _, spoiled=spoiled: tensors.update({name: spoiled}))
    if name != "classifier.cv_scores":
        assert name in refused(lambda tensors, _: tensors.pop(name))


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("patches.words.sift", lambda array: array[::-1]),
        ("patches.words.sift", lambda array: array + 10),
        ("patches.labels.sift", lambda array: array + 3),
        ("patches.labels.sift", lambda array: -array - 1),
        ("block.sift.variances", lambda array: 0 * array),
        ("block.sift.weights", lambda array: -array),
        ("source.stack.layer1.terms", lambda array: array * 0 + ord("$")),
        ("source.stack.layer1.n_exemplars", lambda array: -array - 1),
        ("source.stack.layer1.axes", lambda array: array * 1e6),
    ],
)
def test_numbers_that_no_training_writes(refused, parts, name, change):
    assert name in refused(lambda tensors, _: tensors.update({name: change(parts[0][name]).copy()}))


def test_answers_held_out_are_those_of_all_training_images(refused, parts):
    """Each array may be right in itself; together they must be of the images that the header counts."""
    held_out = [name for name in parts[0] if name.startswith("validation.")]
    per_image = [name for name in held_out if name.rpartition(".")[2] not in ("score", "without")]
    assert sorted(per_image) == [f"validation.{name}" for name in ("decisions", "folds", "membership")]
    shorter = {name: parts[0][name][:-1] for name in per_image}
    assert "was validated on 11 images; expected 12" in refused(lambda tensors, _: tensors.update(shorter))
    undecided = {"validation.undecided": np.zeros((12, 2), bool)}
    assert "undecided' has shape (12, 2)" in refused(lambda tensors, _: tensors.update(undecided))
    for wrong in ({"validation.score": np.array(1.5)}, {"validation.without": np.full(3, -0.1)}):
        assert next(iter(wrong)) in refused(lambda tensors, _, wrong=wrong: tensors.update(wrong))
    assert "'validation.without' has shape (2,)" in refused(
        lambda tensors, _: tensors.update({"validation.without": np.ones(2)})
    )


def test_a_model_of_an_older_ddsfl_has_no_validation(parts, tmp_path):
    older = {name: array for name, array in parts[0].items() if not name.startswith("validation.")}
    write_model(tmp_path / "m", older, parts[1])
    model = SceneClassifier.load(tmp_path / "m", device="cpu")
    assert model.validation_ is None
    assert describe_model(model)
    model.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "m").read_bytes()


def test_unknown_tensors(refused):
    for name in ("extra", "source.stack.layer3.filters", "block.layer1.more", "average.cells.other"):
        said = refused(lambda tensors, _, name=name: tensors.update({name: np.zeros(1)}))
        assert f"tensor '{name}' is unknown" in said


def test_a_device_in_stored_settings_is_not_used(parts, tmp_path):
    tensors, header = parts[0], copy.deepcopy(parts[1])
    header["settings"]["blocks"][0]["coding"]["device"] = "cuda"
    header["settings"]["sources"]["sift"]["device"] = "cuda"
    write_model(tmp_path / "m", tensors, header)
    model = SceneClassifier.load(tmp_path / "m", device="cpu")
    assert np.isfinite(model.decision_function(IMAGES[:2])).all()


def test_huge_but_finite_weights_give_finite_scores(parts, tmp_path):
    tensors = {**parts[0], "classifier.coef": np.full_like(parts[0]["classifier.coef"], 1e12)}
    write_model(tmp_path / "m", tensors, parts[1])
    model = SceneClassifier.load(tmp_path / "m", device="cpu")
    json.dumps(model.decision_function(IMAGES[:2]).tolist(), allow_nan=False)
    json.dumps(model.predict_proba(IMAGES[:2]).tolist(), allow_nan=False)

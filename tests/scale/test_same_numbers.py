"""All parts together hold what one process computes for all images, however the images are given and cut."""

import numpy as np
import pytest

from ddsfl import SceneClassifier
from ddsfl.scale.carried import CarriedModel
from ddsfl.scale.computations import NetworkVectors, Predictions, Vectors
from tests.support.containers import BY_BYTES, BY_PATH, container_of
from tests.support.networks import tiny_network
from tests.support.shards import matrix_of, rows_of, run_job
from tests.support.tiny import TINY, tiny_scenes


@pytest.fixture(scope="module")
def expected(model_file, paths):
    model = SceneClassifier.load(model_file, device="cpu")
    files = [str(path) for path in paths]
    return {
        "scores": model.decision_function(files),
        "labels": model.predict(files).tolist(),
        "probabilities": model.predict_proba(files),
        "novelty": model.novelty(files),
        "vectors": model.transform(files),
    }


@pytest.mark.parametrize("size", [1, 7, 100])
@pytest.mark.parametrize("kind", [*BY_PATH, *BY_BYTES])
def test_predictions_equal_those_of_one_process(predictions, paths, expected, tmp_path, kind, size):
    given, names = container_of(kind, paths, tmp_path / "given")
    outcomes = run_job(predictions, [given], tmp_path / "out", size)
    assert (outcomes.rows, outcomes.errors, outcomes.failures) == (12, 0, {})
    table = rows_of(tmp_path / "out")
    assert table["path"].to_pylist() == names
    assert table["label"].to_pylist() == expected["labels"]
    np.testing.assert_allclose(matrix_of(table["scores"]), expected["scores"], atol=1e-6)
    np.testing.assert_allclose(table["novelty"].to_numpy(), expected["novelty"], atol=1e-5)
    order = np.argsort(-expected["probabilities"], axis=1)
    ranked = np.take_along_axis(expected["probabilities"], order, axis=1)
    np.testing.assert_allclose(table["probability"].to_numpy(), ranked[:, 0], atol=1e-6)
    classes = predictions.classes
    for place in range(3):
        best = table[f"top{place + 1}_probability"].to_numpy()
        np.testing.assert_allclose(best, ranked[:, place], atol=1e-6)
        assert table[f"top{place + 1}"].to_pylist() == [classes[number] for number in order[:, place]]
    assert table["unlike"].to_pylist() == (expected["novelty"] > 1).tolist()
    assert table["error"].null_count == 12


@pytest.mark.parametrize("half", [False, True])
def test_vectors_equal_those_of_one_process(model_file, paths, expected, tmp_path, half):
    vectors = Vectors(CarriedModel(model_file), "cpu", {}, half)
    run_job(vectors, [paths[0].parents[1]], tmp_path, 5)
    table = rows_of(tmp_path)
    assert str(table["vector"].type).startswith(
        "fixed_size_list<element: " + ("half" if half else "") + "float"
    )
    np.testing.assert_allclose(matrix_of(table["vector"]), expected["vectors"], atol=1e-3 if half else 1e-6)


def test_vectors_of_a_network(paths, tmp_path):
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    from ddsfl.cli.encode import _network_settings
    from ddsfl.descriptors.network import OnnxFeatures, file_fingerprint

    network = tmp_path / "net.onnx"
    tiny_network(network)
    given = NetworkVectors(str(network), file_fingerprint(network), _network_settings(network), "cpu")
    run_job(given, [paths[0].parents[1]], tmp_path / "out", 5)
    expected = OnnxFeatures(network, device="cpu").vectors([str(path) for path in paths])
    np.testing.assert_allclose(matrix_of(rows_of(tmp_path / "out")["vector"]), expected, atol=1e-6)
    network.write_bytes(b"another one")
    with pytest.raises(ValueError, match="changed while it was in use"):
        given.load()


def test_two_classes_and_no_probabilities(paths, tmp_path):
    images, labels = tiny_scenes(classes=2)
    changes = {**TINY, "classifier.calibrate": False}
    model = SceneClassifier("quick", changes=changes, device="cpu", random_state=0).fit(images, labels)
    model.save(tmp_path / "m")
    run_job(Predictions(CarriedModel(tmp_path / "m"), "cpu", {}), paths, tmp_path / "out", 7)
    table = rows_of(tmp_path / "out")
    scores = model.decision_function([str(path) for path in paths])
    np.testing.assert_allclose(matrix_of(table["scores"])[:, 1], scores, atol=1e-6)
    assert table["label"].to_pylist() == model.predict([str(path) for path in paths]).tolist()
    assert table["probability"].null_count == 12
    np.testing.assert_allclose(table["top1_score"].to_numpy(), np.abs(scores), atol=1e-6)
    assert "top3" not in table.column_names


def test_several_labels_are_lists(paths, tmp_path):
    images, labels = tiny_scenes()
    several = [(label, "odd") if number % 2 else (label,) for number, label in enumerate(labels)]
    model = SceneClassifier("quick", changes=TINY, device="cpu", random_state=0).fit(images, several)
    model.save(tmp_path / "m")
    run_job(Predictions(CarriedModel(tmp_path / "m"), "cpu", {}), paths, tmp_path / "out", 5)
    table = rows_of(tmp_path / "out")
    files = [str(path) for path in paths]
    given, sure = model.predict(files), model.predict_proba(files)
    assert given.any()
    assert table["label"].to_pylist() == [model.classes_[row].tolist() for row in given]
    for shown, row, values in zip(table["probability"].to_pylist(), given, sure):
        np.testing.assert_allclose(shown, values[row], atol=1e-6)

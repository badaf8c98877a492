import hashlib
import sys

import numpy as np
import pytest
import torch
from sklearn.base import clone

from ddsfl.descriptors import network
from ddsfl.descriptors.network import CallableFeatures, OnnxFeatures
from ddsfl.descriptors.network_inputs import Preparation
from ddsfl.images.image_list import ImageList
from tests.support.networks import WEIGHTS, tiny_network


def picture(seed=0, height=40, width=60):
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


SOURCES = [picture(seed) for seed in range(5)]


def expected(sources=SOURCES, size=(4, 6), weights=WEIGHTS, **options):
    pixels = torch.cat(list(Preparation(input_size=size, **options).batches(sources, 100)))
    return (pixels.numpy().reshape(len(pixels), -1) @ weights) ** 2


@pytest.mark.parametrize("batch_size", [1, 2, 32])
def test_an_onnx_file_gives_its_first_output(tmp_path, batch_size):
    network = OnnxFeatures(tiny_network(tmp_path / "a.onnx"), batch_size=batch_size, device="cpu")
    steps = []
    vectors = network.vectors(SOURCES, progress=lambda done, total: steps.append((done, total)))
    assert vectors.dtype == np.float32
    assert np.allclose(vectors, expected(), rtol=1e-4, atol=1e-4)
    assert steps == [(min(5, start + batch_size), 5) for start in range(0, 5, batch_size)]


def test_the_preparation_reaches_the_network(tmp_path):
    path = tiny_network(tmp_path / "a.onnx", ("n", 4, 6, 3))
    options = {
        "resize": "crop", "layout": "nhwc", "value_range": (0, 255), "mean": (9, 8, 7), "std": (60, 70, 80),
    }  # fmt: skip
    vectors = OnnxFeatures(path, device="cpu", **options).vectors(SOURCES)
    assert np.allclose(vectors, expected(**options), rtol=1e-4, atol=1e-3)


def test_open_sides_take_the_input_size_and_fixed_batches_are_filled(tmp_path):
    path = tiny_network(tmp_path / "open.onnx", ("n", 3, "h", "w"))
    network = OnnxFeatures(path, input_size=(4, 6), device="cpu")
    assert np.allclose(network.vectors(SOURCES), expected(), rtol=1e-4, atol=1e-4)
    path = tiny_network(tmp_path / "fixed.onnx", (2, 3, 4, 6))
    vectors = OnnxFeatures(path, batch_size=32, device="cpu").vectors(SOURCES)
    assert np.allclose(vectors, expected(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("batch", ["n", 1, 2, 7])
def test_five_views_give_the_mean_of_their_vectors(tmp_path, batch):
    network = OnnxFeatures(tiny_network(tmp_path / "a.onnx", (batch, 3, 4, 6)), views=5, device="cpu")
    steps = []
    vectors = network.vectors(SOURCES, progress=lambda done, total: steps.append((done, total)))
    assert np.allclose(vectors, expected(views=5).reshape(5, 5, -1).mean(axis=1), rtol=1e-4, atol=1e-4)
    assert steps[-1] == (5, 5)
    assert not np.allclose(vectors, expected(), rtol=0.1)


@pytest.mark.parametrize(("kind", "close"), [("FLOAT16", 0.05), ("DOUBLE", 1e-4)])
def test_other_precisions(tmp_path, kind, close):
    vectors = OnnxFeatures(tiny_network(tmp_path / "a.onnx", kind=kind), device="cpu").vectors(SOURCES)
    assert vectors.dtype == np.float32
    assert np.allclose(vectors, expected(), rtol=close, atol=close)


def test_the_same_twice_and_the_fingerprint_is_that_of_the_bytes(tmp_path):
    path = tiny_network(tmp_path / "a.onnx")
    network = OnnxFeatures(str(path), device="cpu")
    assert np.array_equal(network.vectors(SOURCES), network.vectors(SOURCES))
    assert network.fingerprint() == hashlib.sha256(path.read_bytes()).hexdigest()
    assert clone(network).path == str(path)


def test_networks_that_do_not_fit_are_named(tmp_path):
    cases = {
        "flat": (
            tiny_network(tmp_path / "flat.onnx", ("n", 72)),
            r"pixels \['n', 72\]; expected a single input with 4 axes",
        ),
        "order": (tiny_network(tmp_path / "order.onnx", ("n", 4, 6, 3)), "layout='nchw'"),
        "bytes": (
            tiny_network(tmp_path / "bytes.onnx", kind="INT64"),
            r"an input of tensor\(int64\); expected one of tensor\(float\)",
        ),
    }
    (tmp_path / "text.onnx").write_text("This is no network.")
    cases["text"] = (tmp_path / "text.onnx", r"text\.onnx cannot be read by onnxruntime")
    for path, message in cases.values():
        with pytest.raises(ValueError, match=message):
            OnnxFeatures(path, device="cpu").vectors(SOURCES)


def test_a_missing_package_is_one_clear_sentence(tmp_path, monkeypatch):
    (tmp_path / "a.onnx").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(
        ImportError, match=r"^OnnxFeatures needs the package onnxruntime: pip install onnxruntime\.$"
    ):
        OnnxFeatures(tmp_path / "a.onnx").vectors(SOURCES)


def test_cuda_that_onnxruntime_lacks_is_refused_unless_automatic(tmp_path, monkeypatch):
    onnxruntime = pytest.importorskip("onnxruntime")
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: ["CPUExecutionProvider"])
    monkeypatch.setattr(network, "resolve_device", lambda device: torch.device("cuda"))
    path = tiny_network(tmp_path / "a.onnx")
    with pytest.raises(ValueError, match="device='cuda' was requested, but this onnxruntime runs on CPU"):
        OnnxFeatures(path, device="cuda").vectors(SOURCES)
    assert OnnxFeatures(path, device="auto").vectors(SOURCES).shape == (5, 7)


def test_a_function_sees_prepared_batches():
    seen = []

    def function(pixels):
        assert not torch.is_grad_enabled()
        seen.append(pixels)
        return pixels.amax(dim=3)  # further axes are flattened

    network = CallableFeatures(
        function, input_size=(4, 6), mean=0.5, std=(1, 2, 3), batch_size=3, layout="nchw", device="cpu"
    )
    vectors = network.vectors(SOURCES)
    [pixels] = Preparation(input_size=(4, 6), mean=0.5, std=(1, 2, 3)).batches(SOURCES, 5)
    assert [len(batch) for batch in seen] == [3, 2]
    assert torch.allclose(torch.cat(seen), pixels)
    assert np.allclose(vectors, pixels.amax(dim=3).flatten(1))
    assert vectors.shape == (5, 12)


def test_a_function_sees_five_views():
    network = CallableFeatures(lambda pixels: pixels.amax(dim=(2, 3)), input_size=8, views=5, device="cpu")
    [pixels] = Preparation(input_size=8, views=5).batches(SOURCES, 25)
    assert np.allclose(
        network.vectors(SOURCES), pixels.amax(dim=(2, 3)).unflatten(0, (5, 5)).mean(1), atol=1e-6
    )


def test_a_function_may_return_arrays_and_must_return_rows():
    network = CallableFeatures(lambda pixels: pixels.numpy().mean(axis=(2, 3)), input_size=4, device="cpu")
    assert network.vectors(SOURCES).shape == (5, 3)
    for wrong in (
        lambda pixels: pixels[1:],
        lambda pixels: pixels.mean(),
        lambda pixels: pixels.mean(dim=(1, 2, 3)),
    ):
        with pytest.raises(ValueError, match="for 5 images; expected one row each"):
            CallableFeatures(wrong, input_size=4, device="cpu").vectors(SOURCES)


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "length"), [("alexnet_pool5.onnx", 9216), ("efficientnet_lite0.onnx", 1280)]
)
def test_real_networks_are_the_same_alone_and_in_a_batch(shared, name, length):
    pytest.importorskip("onnxruntime")
    if not (shared / "weights" / name).is_file():
        pytest.skip(f"no ../shared/weights/{name}")
    network = OnnxFeatures(shared / "weights" / name, batch_size=2, device="cpu")
    vectors = network.vectors(SOURCES[:3])
    assert vectors.shape == (3, length)
    assert np.isfinite(vectors).all()
    assert np.allclose(vectors[2], network.vectors(SOURCES[2:3])[0], atol=1e-3)
    assert np.abs(vectors[0] - vectors[1]).max() > 0.1


def test_sources_of_an_image_list_are_taken():
    network = CallableFeatures(lambda pixels: pixels.mean(dim=(2, 3)), input_size=4, device="cpu")
    assert np.array_equal(network.vectors(ImageList(SOURCES).sources), network.vectors(SOURCES))

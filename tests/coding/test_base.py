"""Codings of descriptors with positions: in memory or lazy, arrays or tensors, and wrong input."""

import numpy as np
import pytest
import torch
from sklearn.exceptions import NotFittedError

from ddsfl.coding.codes import LocalCodes
from ddsfl.coding.fisher import FisherVector
from ddsfl.coding.llc import LLC
from ddsfl.coding.pyramid import SpatialPyramid
from ddsfl.coding.vq import VectorQuantisation
from ddsfl.descriptors.lbp import LBP
from ddsfl.descriptors.sift import DenseSIFT
from ddsfl.patches.described import DescribedImages
from ddsfl.patches.local import LocalDescriptors

RNG = np.random.default_rng(0)
IMAGES = [RNG.integers(0, 256, shape, dtype=np.uint8) for shape in [(40, 52), (64, 40), (48, 48), (40, 52)]]
DESCRIBED = DenseSIFT(step=4, n_scales=2, device="cpu").transform(IMAGES)
LOCAL = DESCRIBED.collect()
LEVELS = ((1, 1), (2, 2))
MAKE = {
    "llc": lambda n=6: LLC(n_words=n, n_neighbors=3, device="cpu", random_state=0),
    "vq": lambda n=6: VectorQuantisation(n_words=n, device="cpu", random_state=0),
    "fisher": lambda n=3: FisherVector(n_gaussians=n, n_components=4, device="cpu", random_state=0),
}
FITTED = {name: make().fit(LOCAL) for name, make in MAKE.items()}
EACH = pytest.mark.parametrize("name", MAKE)
WORDS = pytest.mark.parametrize("name", ["llc", "vq"])


@EACH
def test_fit_draws_a_seeded_sample(name, monkeypatch):
    learned = next(iter(FITTED[name].state()))
    lazy = MAKE[name]().fit(DESCRIBED)
    np.testing.assert_allclose(lazy.state()[learned], FITTED[name].state()[learned], atol=1e-4)
    assert lazy.n_features_in_ == 128
    monkeypatch.setattr(type(lazy), "samples_per_word", 20)
    coding = MAKE[name](4)
    rows = LOCAL.draw(coding.n_samples_wanted, np.random.RandomState(0).randint(2**31 - 1))
    assert len(rows) == 80 < len(LOCAL)
    by_hand = MAKE[name](4).fit(rows)
    np.testing.assert_array_equal(coding.fit(LOCAL).state()[learned], by_hand.state()[learned])


@WORDS
def test_codes_keep_positions_and_are_those_of_the_rows(name):
    coding = FITTED[name]
    codes = coding.transform(LOCAL)
    assert isinstance(codes, LocalCodes)
    assert codes.n_words == 6
    assert isinstance(codes.values, np.ndarray)
    dense = np.zeros((len(LOCAL), 6), np.float32)
    np.put_along_axis(dense, codes.indices, codes.values, axis=1)
    np.testing.assert_array_equal(dense, coding.transform(LOCAL.vectors))
    for part in ("positions", "images", "shapes"):
        np.testing.assert_array_equal(getattr(codes, part), getattr(LOCAL, part))
    tensors = coding.transform(LOCAL.on("cpu"))
    assert isinstance(tensors.values, torch.Tensor)
    np.testing.assert_array_equal(tensors.values, codes.values)


@WORDS
@pytest.mark.parametrize("pooling", ["max", "average"])
def test_a_pyramid_pools_codes_in_memory_lazy_ones_and_lists_alike(name, pooling):
    coding, pyramid = FITTED[name], SpatialPyramid(LEVELS, pooling)
    pooled = pyramid.transform(coding.transform(LOCAL))
    assert pooled.shape == (4, 5 * 6)
    tensors = LOCAL.on("cpu")
    expected = pyramid.pool(coding.encode(tensors.vectors), 6, tensors)
    np.testing.assert_array_equal(pooled, expected)
    lazy = coding.transform(DESCRIBED)
    assert isinstance(lazy, DescribedImages)
    np.testing.assert_allclose(pyramid.transform(lazy), pooled, atol=1e-4)
    np.testing.assert_allclose(pyramid.transform(list(lazy)), pooled, atol=1e-4)
    np.testing.assert_allclose(pyramid.transform(coding.transform(list(DESCRIBED))), pooled, atol=1e-4)
    assert isinstance(pyramid.transform(coding.transform(tensors)), torch.Tensor)
    assert pyramid.fit(lazy).get_feature_names_out()[-1] == "spatialpyramid29"


def test_fisher_vectors_in_memory_lazy_and_of_lists_are_alike():
    coding, tensors = FITTED["fisher"], LOCAL.on("cpu")
    expected = coding.pool(tensors.vectors, tensors, LEVELS)
    assert isinstance(expected, torch.Tensor)
    np.testing.assert_array_equal(coding.pool(LOCAL.vectors, LOCAL, LEVELS), expected)
    assert isinstance(coding.pool(LOCAL.vectors, LOCAL, LEVELS), np.ndarray)
    for X in (LOCAL, tensors, DESCRIBED, list(DESCRIBED)):
        np.testing.assert_allclose(coding.transform(X, levels=LEVELS), expected, atol=1e-4)
        assert isinstance(coding.transform(X), torch.Tensor if X is tensors else np.ndarray)
    pyramids = FisherVector(n_gaussians=3, levels=LEVELS, device="cpu").restore(coding.state())
    np.testing.assert_allclose(pyramids.transform(LOCAL), expected, atol=1e-4)
    assert len(pyramids.get_feature_names_out()) == expected.shape[1]
    assert coding.transform(LOCAL).shape == (4, coding.n_values)


def test_the_rows_of_a_matrix_are_images_of_one_descriptor():
    coding = FITTED["fisher"]
    rows = coding.transform(LOCAL.vectors[:3])
    for row, vector in zip(rows, LOCAL.vectors):
        np.testing.assert_allclose(row, coding.encode(vector[None]), atol=1e-6)
    with pytest.raises(ValueError, match="need positions; X is a matrix, expected LocalDescriptors"):
        coding.transform(LOCAL.vectors[:3], levels=LEVELS)


@EACH
def test_descriptors_of_another_kind_and_codes_are_refused(name):
    other = LBP(n_scales=1, device="cpu").transform(IMAGES)
    message = "X has descriptors of 59 values; expected 128, as in fit"
    with pytest.raises(ValueError, match=message):
        FITTED[name].transform(other.collect())
    with pytest.raises(ValueError, match=message):
        list(FITTED[name].transform(other))
    with pytest.raises(NotFittedError):
        MAKE[name]().transform(DESCRIBED)
    codes = FITTED["llc"].transform(DESCRIBED)
    for step in (MAKE[name]().fit, lambda X: list(FITTED[name].transform(X))):
        with pytest.raises(ValueError, match="X is LocalCodes; expected LocalDescriptors"):
            step(codes[0])
        with pytest.raises(ValueError, match="X holds LocalCodes; expected LocalDescriptors"):
            step(codes)


@EACH
@pytest.mark.parametrize("images", [IMAGES, ["a.jpg", "b.jpg"], [torch.zeros(1, 40, 40)]])
def test_images_instead_of_descriptors_are_named(name, images):
    with pytest.raises(ValueError, match="X is a list of images; expected their descriptors"):
        MAKE[name]().fit(images)


def test_a_pyramid_names_what_it_cannot_pool():
    pyramid, llc = SpatialPyramid(), FITTED["llc"]
    with pytest.raises(ValueError, match=r"X is ndarray of shape \(9, 6\); expected codes with positions"):
        pyramid.transform(llc.transform(LOCAL.vectors[:9]))
    with pytest.raises(ValueError, match="codes is ndarray; expected Codes"):
        pyramid.pool(llc.transform(LOCAL.vectors), 6, LOCAL)
    for descriptors in (DESCRIBED, LOCAL):
        with pytest.raises(ValueError, match="X holds LocalDescriptors; expected LocalCodes"):
            pyramid.transform(descriptors)
        with pytest.raises(ValueError, match="X holds LocalDescriptors; expected LocalCodes"):
            pyramid.fit(descriptors)
    more = MAKE["vq"](7).fit(LOCAL).transform(LOCAL)
    with pytest.raises(ValueError, match="X has codes over 7 words; expected 6, as in fit"):
        pyramid.fit(llc.transform(LOCAL)).transform(more)
    for X in (DESCRIBED, LOCAL):
        codes = llc.transform(X)
        with pytest.raises(ValueError, match=r"levels=\(2, 2\); expected 1 to 20 pairs"):
            SpatialPyramid(levels=(2, 2)).fit(codes)
        with pytest.raises(ValueError, match="pooling='sum'"):
            SpatialPyramid(pooling="sum").transform(codes)
        with pytest.raises(ValueError, match="levels=3; expected 1 to 20 pairs"):
            FITTED["fisher"].transform(X, levels=3)


def test_descriptors_in_double_precision_are_coded_in_it():
    double = LocalDescriptors(LOCAL.vectors.astype(float), LOCAL.positions, LOCAL.images, LOCAL.shapes)
    assert FITTED["llc"].transform(double).values.dtype == np.float64
    assert FITTED["fisher"].transform(double).dtype == np.float64


@pytest.mark.cuda
@EACH
def test_cuda_agrees(name):
    coding = MAKE[name]().set_params(device="cuda").restore(FITTED[name].state())
    described = DenseSIFT(step=4, n_scales=2, device="cuda").transform(IMAGES)
    there, here = coding.transform(described), FITTED[name].transform(DESCRIBED)
    if name != "fisher":
        there, here = SpatialPyramid(LEVELS).transform(there), SpatialPyramid(LEVELS).transform(here)
        assert isinstance(coding.transform(LOCAL).values, np.ndarray)
        assert coding.transform(LOCAL.on("cuda")).values.is_cuda
        assert not coding.transform(LOCAL.on("cpu")).values.is_cuda
    assert isinstance(there, np.ndarray)
    np.testing.assert_allclose(there, here, atol=5e-3)
    assert coding.fit(described).n_features_in_ == 128
    assert isinstance(described.collect().vectors, np.ndarray)

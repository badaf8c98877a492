"""Images whose descriptors are computed batch by batch, when they are needed."""

import pickle
import weakref

import numpy as np
import pytest
import torch

from ddsfl.descriptors.sift import DenseSIFT
from ddsfl.images.image_list import ImageList
from ddsfl.patches.described import DescribedImages

RNG = np.random.default_rng(0)
ARRAYS = [
    RNG.integers(0, 256, shape, dtype=np.uint8)
    for shape in [(40, 52), (33, 30), (52, 40), (40, 52), (64, 33)]
]
TENSORS = [torch.from_numpy(array)[None] for array in ARRAYS]
SIFT = DenseSIFT(step=6, n_scales=2, device="cpu")


@pytest.fixture
def small_batches(monkeypatch):
    monkeypatch.setattr("ddsfl.patches.batches.BATCH_PIXELS", {"cpu": 4500})


def recorded(images=TENSORS):
    """Described images, the sizes of the batches so far, and references to their descriptors."""
    sizes, alive = [], []

    def describe(batch):
        assert sum(reference() is not None for reference in alive) <= 1  # the batch before
        [rows] = SIFT.describe(batch)
        sizes.append(len(batch))
        alive.append(weakref.ref(rows.vectors))
        return rows

    return DescribedImages(images, describe, torch.device("cpu")), sizes, alive


def test_nothing_is_computed_before_it_is_needed_and_one_batch_is_held(small_batches):
    described, sizes, alive = recorded()
    coded = described.then(lambda rows: rows)
    assert len(coded) == 5
    assert sizes == []
    pooled = coded.pooled(lambda rows: torch.ones(rows.n_images, 2))
    assert pooled.shape == (5, 2)
    assert sizes == [2, 1, 1, 1]
    assert not any(reference() is not None for reference in alive)
    described.draw(20, seed=0)
    assert sum(sizes) == 10


def test_vectors_are_in_the_order_of_the_images(small_batches):
    described, _, _ = recorded()
    areas = described.pooled(lambda rows: rows.shapes.prod(dim=1, keepdim=True).to(torch.float32))
    assert areas.flatten().tolist() == [float(array.size) for array in ARRAYS]


def test_collected_descriptors_are_those_of_the_images_in_order(small_batches):
    local = SIFT.transform(ARRAYS).collect()
    assert isinstance(local.vectors, np.ndarray)
    assert local.shapes.tolist() == [list(array.shape) for array in ARRAYS]
    assert (np.diff(local.images) >= 0).all()
    for number, tensor in enumerate(TENSORS):
        [alone] = SIFT.describe([tensor])
        np.testing.assert_allclose(local.vectors[local.images == number], alone.vectors, atol=2e-5)
        np.testing.assert_array_equal(local.positions[local.images == number], alone.positions)


def test_a_sequence_with_one_entry_per_image():
    described = SIFT.transform(ARRAYS)
    assert [len(local) for local in described] == [len(local) for local in SIFT.transform(TENSORS)]
    assert [local.shapes.tolist() for local in described[1:3]] == [[[33, 30]], [[52, 40]]]
    assert described[-1].shapes.tolist() == [[64, 33]]
    with pytest.raises(IndexError):
        described[5]
    with pytest.raises(ValueError, match="images is empty"):
        described[5:]


def test_arrays_give_arrays_and_tensors_tensors():
    assert isinstance(SIFT.transform(ARRAYS)[0].vectors, np.ndarray)
    assert isinstance(SIFT.transform(ImageList(ARRAYS))[0].vectors, np.ndarray)
    described = SIFT.transform(TENSORS)
    assert isinstance(described[0].vectors, torch.Tensor)
    assert isinstance(described.collect().images, torch.Tensor)
    assert isinstance(described.pooled(lambda rows: rows.shapes), torch.Tensor)


def test_samples_do_not_depend_on_batches(monkeypatch):
    described = SIFT.transform(ARRAYS)
    together = described.draw(33, seed=4)
    monkeypatch.setattr("ddsfl.patches.batches.BATCH_PIXELS", {"cpu": 4500})
    torch.testing.assert_close(described.draw(33, seed=4), together, atol=2e-5, rtol=1e-4)
    torch.testing.assert_close(described.collect().draw(33, seed=4), together, atol=2e-5, rtol=1e-4)
    assert len(together) == 33
    assert len(described.draw(3, seed=4)) == 3


def test_samples_of_large_sets_come_from_some_images(monkeypatch):
    monkeypatch.setattr("ddsfl.patches.sampling.SAMPLED_IMAGES", 2)
    described, sizes, _ = recorded()
    described.draw(9, seed=0)
    assert sum(sizes) == 3  # images 0, 2 and 4


def test_later_changes_of_the_source_do_not_matter():
    source = DenseSIFT(step=6, n_scales=1, device="cpu")
    described = source.transform(ARRAYS)
    before = len(described[0])
    source.set_params(step=12)
    assert len(described[0]) == before


def test_it_can_be_sent_to_another_process():
    described = SIFT.transform(ARRAYS)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(described))[1].vectors, described[1].vectors)


def test_described_images_are_not_a_matrix():
    with pytest.raises(ValueError, match="DescribedImages is not a matrix with one row per image"):
        np.asarray(SIFT.transform(ARRAYS))

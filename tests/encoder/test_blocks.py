"""Blocks: vectors equal those worked out by hand from descriptors, whatever else is in the batch."""

import pickle

import numpy as np
import pytest
import torch

from ddsfl.coding.fisher import FisherVector
from ddsfl.coding.llc import LLC
from ddsfl.descriptors.gist import GIST
from ddsfl.descriptors.sift import DenseSIFT
from ddsfl.encoder.block import Block
from ddsfl.encoder.encoder import Encoder, unit_vectors
from ddsfl.encoder.samples import first_samples, sample_descriptors
from ddsfl.patches.source import LocalSource

CPU = torch.device("cpu")
RNG = np.random.default_rng(0)
IMAGES = [
    torch.from_numpy(RNG.integers(0, 256, (1, *shape), dtype=np.uint8))
    for shape in [(40, 52), (33, 30), (52, 40), (40, 52)]
]
LEVELS = ((1, 1), (2, 2))
BLOCKS = (
    Block("llc", source="sift", coding={"method": "llc", "n_words": 6, "n_neighbors": 3}, levels=LEVELS),
    Block("counts", source="sift", coding={"method": "vq", "n_words": 5}, levels=LEVELS, pooling="average"),
    Block("fisher", source="sift", coding={"method": "fisher", "n_gaussians": 3, "n_components": 4}),
    Block("gist", source="gist", coding=None, power=0.5),
)


class Counting(LocalSource):
    """Counts the passes over the pixels."""

    def __init__(self, source):
        self.source, self.passes = source, 0

    def describe(self, images, outputs=None):
        self.passes += 1
        return self.source.describe(images, outputs)

    def field_grid(self, output):
        return self.source.field_grid(output)


def encoder_of(sources, blocks, codings):
    return Encoder(sources, list(zip(blocks, codings)), CPU)


@pytest.fixture(scope="module")
def sources():
    return {"sift": DenseSIFT(step=6, n_scales=2, device="cpu"), "gist": GIST(device="cpu")}


@pytest.fixture(scope="module")
def codings(sources):
    samples = torch.cat([described.vectors for described in sources["sift"].describe(IMAGES)])
    made = [block.make_coding("cpu", seed=0) for block in BLOCKS]
    return [None if coding is None else coding.fit(samples) for coding in made]


def unit(vector):
    return vector / np.linalg.norm(vector)


def pooled_by_hand(codes, positions, shape, reduce):
    """Level 1x1, then 2x2 row by row."""
    height, width = shape
    rows = np.minimum((positions[:, 0] * 2 / height).astype(int), 1)
    columns = np.minimum((positions[:, 1] * 2 / width).astype(int), 1)
    cells = [reduce(codes)]
    for row in (0, 1):
        for column in (0, 1):
            cells.append(reduce(codes[(rows == row) & (columns == column)]))
    return unit(np.concatenate(cells))


def test_vectors_are_those_worked_out_by_hand(sources, codings):
    vectors = list(encoder_of(sources, BLOCKS, codings).encode_batch(IMAGES).values())
    for number, image in enumerate(IMAGES):
        [alone] = sources["sift"].describe([image])
        positions, shape = alone.positions.numpy(), image.shape[1:]
        llc = codings[0].transform(alone.vectors).numpy()
        expected = pooled_by_hand(llc, positions, shape, lambda codes: np.maximum(codes.max(axis=0), 0))
        np.testing.assert_allclose(vectors[0][number], expected, atol=1e-4)
        counts = codings[1].transform(alone.vectors).numpy()
        expected = pooled_by_hand(counts, positions, shape, lambda codes: codes.mean(axis=0))
        np.testing.assert_allclose(vectors[1][number], expected, atol=1e-4)
        fisher = codings[2].pool(alone.vectors, alone, BLOCKS[2].levels)[0]
        np.testing.assert_allclose(vectors[2][number], unit(fisher.numpy()), atol=1e-4)
        gist = sources["gist"].embed([image])[0].numpy()
        np.testing.assert_allclose(vectors[3][number], unit(np.sign(gist) * np.abs(gist) ** 0.5), atol=1e-4)


def test_all_images_are_encoded_whatever_their_batches(sources, codings, monkeypatch):
    encoder = encoder_of(sources, BLOCKS, codings)
    together = encoder.encode_batch(IMAGES)
    monkeypatch.setattr("ddsfl.patches.batches.BATCH_PIXELS", {"cpu": 5000})
    done = []
    for numbers, vectors in encoder.encode(IMAGES, lambda *steps: done.append(steps)):
        assert len(numbers) < len(IMAGES)
        assert list(vectors) == [block.name for block in BLOCKS]
        for name, rows in vectors.items():
            torch.testing.assert_close(rows, together[name][numbers], atol=1e-4, rtol=1e-4)
    assert done[-1] == (4, 4)


def test_blocks_of_one_source_share_a_pass_and_other_sources_are_not_used(sources, codings):
    counting = Counting(sources["sift"])
    encoder = encoder_of({"sift": counting, "unused": None}, BLOCKS[:3], codings[:3])
    encoder.encode_batch(IMAGES)
    assert counting.passes == 1


def test_an_encoder_can_be_sent_to_another_process(sources, codings):
    encoder = encoder_of(sources, BLOCKS, codings)
    sent = pickle.loads(pickle.dumps(encoder))
    here, there = encoder.encode_batch(IMAGES[:2]), sent.encode_batch(IMAGES[:2])
    assert list(here) == [block.name for block in BLOCKS]
    assert all(torch.equal(here[name], there[name]) for name in here)


def test_fewer_samples_are_the_first_of_more(sources):
    def draw(n_samples):
        return sample_descriptors(IMAGES, sources["sift"], device=CPU, seed=3, n_samples=n_samples)[0]

    few, many = draw(10), draw(40)
    assert [len(part) for part in few] == [3] * 4
    assert torch.equal(torch.cat(few), first_samples(many, 10))
    assert torch.equal(torch.cat(many), first_samples(many, 40))
    [every] = sources["sift"].describe([IMAGES[1]])
    # An image alone and in a batch may be rounded differently, depending on the processor.
    distances = (few[1][:, None] - every.vectors).abs().amax(dim=2)
    assert distances.amin(dim=1).max() < 1e-6
    assert len(distances.argmin(dim=1).unique()) == 3


def test_equal_images_give_different_samples(sources):
    drawn = sample_descriptors([IMAGES[0]] * 2, sources["sift"], device=CPU, seed=3, n_samples=40)[0]
    assert not torch.equal(*drawn)


def test_gaussians_need_more_samples_than_words():
    assert LLC(n_words=7).n_samples_wanted == 700
    assert FisherVector(n_gaussians=7).n_samples_wanted == 7000


def test_too_few_descriptors_make_a_smaller_coding():
    few = torch.randn(4, 6, generator=torch.Generator().manual_seed(0))
    with pytest.warns(
        UserWarning, match="n_gaussians=9 but only 4 descriptors were found: all are Gaussians"
    ):
        fisher = FisherVector(n_gaussians=9, n_components=3, device="cpu", random_state=0).fit_to_samples(few)
    assert fisher.n_learned == 4
    with pytest.warns(UserWarning, match="n_words=9 but only 4 descriptors were found: all are words"):
        llc = LLC(n_words=9, device="cpu", random_state=0).fit_to_samples(few)
    assert llc.n_learned == 4
    with pytest.raises(ValueError, match="n_neighbors=5; expected from 1 to n_words=3"):
        LLC(n_words=3, device="cpu").fit_to_samples(few)


def test_powers_keep_signs_and_zero_vectors_stay_zero():
    vectors = unit_vectors(torch.tensor([[-4.0, 0.0, 9.0], [0.0, 0.0, 0.0]]), 0.5)
    torch.testing.assert_close(vectors[0], torch.tensor([-2.0, 0.0, 3.0]) / 13**0.5)
    assert vectors[1].tolist() == [0, 0, 0]


def test_an_unknown_coding_is_named():
    with pytest.raises(ValueError, match=r"coding\.method='pq'; expected one of 'llc', 'vq', 'fisher'"):
        Block("a", coding={"method": "pq"})


def test_a_mirrored_block_gives_an_image_and_its_mirror_image_the_same_vector(sources, codings):
    plain = Block("plain", source="sift", coding=BLOCKS[2].coding, levels=((1, 1), (3, 1)))
    mirrored = Block("both", source="sift", coding=BLOCKS[2].coding, levels=((1, 1), (3, 1)), mirrored=True)
    encoder = encoder_of(sources, (plain, mirrored), [codings[2]] * 2)
    flipped = [image.flip(2) for image in IMAGES]
    (alone, both), (other_alone, other_both) = (
        encoder.encode_batch(some).values() for some in (IMAGES, flipped)
    )
    torch.testing.assert_close(both, other_both, rtol=1e-4, atol=1e-5)
    assert (alone - other_alone).abs().max() > 0.01
    [here], [there] = sources["sift"].describe(IMAGES[:1]), sources["sift"].describe(flipped[:1])
    vectors = torch.cat([here.vectors, there.vectors])
    expected = codings[2].encode(vectors)  # the first cell is the complete image
    cell = both[0, : len(expected)]
    torch.testing.assert_close(cell / cell.norm(), expected / expected.norm(), rtol=1e-4, atol=1e-5)


def test_mirrored_descriptors_are_in_the_mirrored_cells(sources, codings):
    levels = ((1, 2),)
    block = Block(
        "both", source="sift", coding=BLOCKS[1].coding, levels=levels, pooling="average", mirrored=True
    )
    [vectors] = encoder_of(sources, (block,), [codings[1]]).encode_batch(IMAGES[:1]).values()
    [here], [there] = (sources["sift"].describe([image]) for image in (IMAGES[0], IMAGES[0].flip(2)))
    width = IMAGES[0].shape[2]
    left = torch.cat([here.positions[:, 1] < width / 2, width - there.positions[:, 1] < width / 2])
    codes = codings[1].encode(torch.cat([here.vectors, there.vectors])).dense(5)
    expected = torch.cat([codes[cell].sum(0) / len(codes[cell]) for cell in (left, ~left)])
    torch.testing.assert_close(vectors[0], expected / expected.norm(), rtol=1e-4, atol=1e-5)


def test_vectors_of_all_images_are_in_their_order(sources, codings):
    """Batches sort images by shape: the smallest first, the tallest last."""
    encoder = encoder_of(sources, BLOCKS[:1], codings[:1])
    assert [numbers for numbers, _ in encoder.encode(IMAGES)] == [[1, 0, 3, 2]]
    vectors = encoder.encode_all(IMAGES)["llc"]
    for row, image in zip(vectors, IMAGES, strict=True):
        np.testing.assert_allclose(row, encoder.encode_batch([image])["llc"][0], rtol=1e-4, atol=1e-5)

"""Who owns the values of pooled codes, against plain loops."""

import numpy as np
import pytest
import torch

from ddsfl.coding.codes import Codes
from ddsfl.coding.llc import LLC
from ddsfl.coding.pyramid import SpatialPyramid
from ddsfl.coding.sharing import AverageSharing, WinnerSharing, sum_rows
from ddsfl.coding.vq import VectorQuantisation
from ddsfl.patches.local import LocalDescriptors
from tests.oracles import coding as pooled_oracle
from tests.oracles import sharing as oracle

PYRAMIDS = [((1, 1),), ((1, 1), (2, 2), (4, 4)), ((1, 1), (3, 1)), ((2, 3), (3, 2)), ((2, 2), (2, 2))]
RULES = {"max": (WinnerSharing, oracle.winners), "average": (AverageSharing, oracle.terms)}
N_WORDS, SHAPE = 7, (30, 40)


def placed_codes(seed=0, n=23, k=3, dtype=torch.float64):
    """Random signed codes of one image, with ties, zeros, places on borders and empty cells."""
    rng = np.random.default_rng(seed)
    indices = np.array([rng.permutation(N_WORDS)[:k] for _ in range(n)]).reshape(n, k)
    values = np.round(rng.normal(size=(n, k)), 1)  # rounded: there are ties and zeros
    positions = rng.uniform(0, 1, (n, 2)) * [SHAPE[0], SHAPE[1] * 0.7]  # none on the right
    positions[: n // 4] = [SHAPE[0] / 2, SHAPE[1] / 4]
    codes = Codes(torch.from_numpy(indices), torch.from_numpy(values).to(dtype))
    return codes, LocalDescriptors(
        torch.zeros(n, 1),
        torch.from_numpy(positions).float(),
        torch.zeros(n, dtype=torch.int64),
        torch.tensor([SHAPE]),
    )


def told_of(vector, n_directions=3, seed=1):
    """What the values of a vector say; 0 where they are 0, as the product with weights is."""
    rng = np.random.default_rng(seed)
    return torch.from_numpy(rng.normal(size=(n_directions, len(vector)))) * vector.double()


def check_shares(shares, expected, told, atol=1e-12):
    """All three ways of sharing are those of the loops, and nothing is lost."""
    voices, by_descriptor, by_word = expected
    np.testing.assert_allclose(shares.by_descriptor.numpy(), by_descriptor, atol=atol)
    np.testing.assert_allclose(shares.by_word.numpy(), by_word, atol=atol)
    found = {(int(d), int(w)): values.numpy() for d, w, values in zip(*shares.voices, strict=True)}
    assert len(found) == len(shares.voices.words)
    nothing = np.zeros(len(told))
    for pair in found.keys() | voices.keys():
        np.testing.assert_allclose(found.get(pair, nothing), voices.get(pair, nothing), atol=atol)
    assert (shares.voices.descriptors.diff() >= 0).all()
    for part in (shares.by_descriptor, shares.by_word, shares.voices.values):
        assert part.dtype == torch.float64
        torch.testing.assert_close(part.sum(dim=0), told.sum(dim=1).double(), rtol=0, atol=max(atol, 1e-12))


@pytest.mark.parametrize("pooling", RULES)
@pytest.mark.parametrize("levels", PYRAMIDS)
@pytest.mark.parametrize("seed", [0, 1])
def test_values_belong_to_whom_the_loops_say(pooling, levels, seed):
    codes, placed = placed_codes(seed)
    sharing_of, rule = RULES[pooling]
    pyramid = SpatialPyramid(levels=levels, pooling=pooling)
    sharing = sharing_of(codes, N_WORDS, pyramid, placed)
    assert torch.equal(sharing.vector, pyramid.pool(codes, N_WORDS, placed)[0])
    dense = codes.dense(N_WORDS).numpy()
    vector, _ = pooled_oracle.pyramid(dense, placed.positions, placed.images, placed.shapes, levels, pooling)
    np.testing.assert_allclose(sharing.vector.numpy(), vector[0], atol=1e-12)
    told = told_of(torch.from_numpy(vector[0]))
    if pooling == "average":  # where codes cancel, rounding alone is left, which no one owns
        told = torch.where(torch.from_numpy(np.abs(vector[0]) > 1e-12), told, 0)
    expected = rule(dense, placed.positions.double().tolist(), SHAPE, levels, told.numpy())
    check_shares(sharing.share(told), expected, told)


@pytest.mark.parametrize("pooling", RULES)
def test_one_descriptor_owns_everything(pooling):
    codes, placed = placed_codes(n=1)
    pyramid = SpatialPyramid(levels=((1, 1), (2, 2)), pooling=pooling)
    sharing = RULES[pooling][0](codes, N_WORDS, pyramid, placed)
    told = told_of(sharing.vector)
    torch.testing.assert_close(sharing.share(told).by_descriptor, told.sum(dim=1)[None])


def test_a_tie_goes_to_the_first_and_a_negative_code_wins_nothing():
    codes = Codes(
        torch.tensor([[0, 1], [0, 1], [0, 2]]), torch.tensor([[-0.5, 0.5], [0.3, 0.5], [0.3, -2.0]])
    )
    placed = LocalDescriptors(
        torch.zeros(3, 1), torch.ones(3, 2), torch.zeros(3, dtype=torch.int64), torch.tensor([[4, 4]])
    )
    sharing = WinnerSharing(codes, 3, SpatialPyramid(levels=((1, 1),)), placed)
    shares = sharing.share(torch.tensor([[1.0, 10.0, 0.0]]))
    assert shares.by_descriptor.flatten().tolist() == [10, 1, 0]
    assert shares.by_word.flatten().tolist() == [1, 10, 0]
    assert shares.voices.descriptors.tolist() == [0, 1]
    assert shares.voices.words.tolist() == [1, 0]


def test_terms_of_an_average_keep_their_signs_and_are_shared_after_a_power_alike():
    codes = Codes(torch.zeros(3, 1, dtype=torch.int64), torch.tensor([[0.5], [-0.25], [0.75]]))
    placed = LocalDescriptors(
        torch.zeros(3, 1), torch.ones(3, 2), torch.zeros(3, dtype=torch.int64), torch.tensor([[4, 4]])
    )
    sharing = AverageSharing(codes, 1, SpatialPyramid(levels=((1, 1),), pooling="average"), placed)
    assert sharing.vector.tolist() == [pytest.approx(1 / 3)]
    for said in (2.0, -np.sqrt(1 / 3)):  # what a value says need not be proportional to it
        shared = sharing.share(torch.tensor([[said]])).by_descriptor.flatten()
        np.testing.assert_allclose(shared.numpy(), said * np.array([0.5, -0.25, 0.75]), rtol=1e-6)


def test_codes_that_cancel_say_nothing():
    codes = Codes(torch.zeros(2, 1, dtype=torch.int64), torch.tensor([[0.5], [-0.5]]))
    placed = LocalDescriptors(
        torch.zeros(2, 1), torch.ones(2, 2), torch.zeros(2, dtype=torch.int64), torch.tensor([[4, 4]])
    )
    sharing = AverageSharing(codes, 1, SpatialPyramid(levels=((1, 1),), pooling="average"), placed)
    shares = sharing.share(torch.zeros(1, 1))
    assert shares.by_descriptor.flatten().tolist() == [0, 0]


@pytest.mark.parametrize("pooling", RULES)
@pytest.mark.parametrize("coding", [LLC(n_words=9, n_neighbors=4), VectorQuantisation(n_words=9)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_sharer_of_a_coding_gives_the_vector_of_its_pooler(pooling, coding, dtype):
    generator = torch.Generator().manual_seed(3)
    vectors = torch.randn(60, 5, generator=generator, dtype=dtype)
    coding = coding.set_params(device="cpu", random_state=0).fit(vectors)
    positions = torch.rand(60, 2, generator=generator) * torch.tensor(SHAPE)
    local = LocalDescriptors(vectors, positions, torch.zeros(60, dtype=torch.int64), torch.tensor([SHAPE]))
    levels = ((1, 1), (3, 2))
    like = torch.empty(0, dtype=dtype)
    sharing = coding.sharer(like, levels, pooling)(local)
    assert sharing.vector.dtype == dtype
    assert torch.equal(sharing.vector, coding.pooler(like, levels, pooling)(local)[0])
    told = told_of(sharing.vector)
    shares = sharing.share(told)
    dense = coding.encode(vectors).dense(9).double().numpy()
    rule = RULES[pooling][1]
    expected = rule(dense, positions.double().tolist(), SHAPE, levels, told.numpy())
    check_shares(shares, expected, told, atol=1e-6)
    assert coding.features(vectors).shape == (60, 0)
    assert sharing.echoes(told, 2, coding.features(vectors)).tolist() == [[0.0] * 3] * 60


def test_likeness_ranks_by_distance():
    vectors = torch.randn(30, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    coding = VectorQuantisation(n_words=5, device="cpu", random_state=0).fit(vectors)
    expected = -((vectors.numpy()[:, None] - coding.words_) ** 2).sum(axis=2)
    np.testing.assert_allclose(coding.likeness(vectors).numpy(), expected, atol=1e-6)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)])
def test_rows_with_equal_numbers_are_summed_the_same_way_every_time(device):
    generator = torch.Generator().manual_seed(0)
    terms = torch.randn(5000, 2, generator=generator, dtype=torch.float64).to(device)
    numbers = torch.randint(0, 7, (5000,), generator=generator).to(device)
    sums = sum_rows(terms, numbers, 9)
    expected = [terms[numbers == number].sum(dim=0).tolist() for number in range(9)]
    np.testing.assert_allclose(sums.cpu().numpy(), expected, atol=1e-10)
    assert all(torch.equal(sum_rows(terms, numbers, 9), sums) for _ in range(5))

"""Rows with positions: checked, converted, joined and drawn from."""

import numpy as np
import pytest
import torch

from ddsfl.coding.codes import LocalCodes
from ddsfl.patches.local import LocalDescriptors

RNG = np.random.default_rng(0)


def local(n_rows=9, n_images=3, n_values=4):
    return LocalDescriptors(
        RNG.standard_normal((n_rows, n_values)),
        RNG.uniform(0, 9, (n_rows, 2)),
        np.arange(n_rows) % n_images,
        np.arange(2 * n_images).reshape(-1, 2) + 5,
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"vectors": np.zeros((8, 4))}, r"vectors has shape \(8, 4\); expected \(9, columns\)"),
        ({"vectors": np.zeros(9)}, r"vectors has shape \(9,\)"),
        ({"positions": np.zeros((9, 3))}, r"positions has shape \(9, 3\); expected \(9, 2\)"),
        ({"images": np.zeros((9, 1), int)}, r"images has shape \(9, 1\); expected one number per row"),
        ({"shapes": np.zeros(3)}, r"shapes has shape \(3,\); expected \(n_images, 2\)"),
        ({"vectors": [[1.0]] * 9}, "vectors is a list; expected an array or a tensor"),
    ],
)
def test_arrays_that_do_not_fit_together_are_named(changes, message):
    with pytest.raises(ValueError, match=message):
        LocalDescriptors(**{**vars(local()), **changes})


def test_codes_that_do_not_fit_together_are_named():
    where = {name: getattr(local(), name) for name in ("positions", "images", "shapes")}
    with pytest.raises(ValueError, match=r"indices has shape \(9, 3\) and values \(9, 2\)"):
        LocalCodes(np.zeros((9, 3), int), np.zeros((9, 2)), n_words=5, **where)
    codes = LocalCodes(np.full((9, 3), 5), np.zeros((9, 3)), n_words=5, **where)
    with pytest.raises(ValueError, match="indices has numbers from 5 to 5; expected 0 to 4, because n_words"):
        codes.then(lambda rows: rows)


def test_numbers_of_images_that_do_not_exist_are_named():
    rows = local()
    one_too_few = LocalDescriptors(rows.vectors, rows.positions, rows.images, rows.shapes[:2])
    with pytest.raises(
        ValueError, match="images has numbers from 0 to 2; expected 0 to 1, because shapes has 2"
    ):
        one_too_few.pooled(lambda rows: rows.vectors)


@pytest.mark.parametrize("name", ["vectors", "positions"])
def test_values_that_are_not_finite_are_named(name):
    rows = local()
    getattr(rows, name)[4, 1] = np.nan
    with pytest.raises(ValueError, match=f"{name} contains NaN or infinity; expected finite numbers"):
        rows.then(lambda rows: rows)


def test_descriptors_of_different_kinds_are_not_joined():
    with pytest.raises(ValueError, match="X has vectors of 3 and 4 values; expected the same number for all"):
        LocalDescriptors.stacked([local(n_values=4), local(n_values=3)])


def test_steps_see_tensors_and_arrays_give_arrays():
    seen = []

    def step(rows):
        seen.append({name: getattr(rows, name).dtype for name in rows.ARRAYS})
        return rows

    arrays = local()
    again = arrays.then(step)
    assert seen == [
        {
            "vectors": torch.float64,
            "positions": torch.float64,
            "images": torch.int64,
            "shapes": torch.int64,
        }
    ]
    np.testing.assert_array_equal(again.vectors, arrays.vectors)
    assert isinstance(again.images, np.ndarray)
    assert isinstance(arrays.pooled(lambda rows: rows.vectors), np.ndarray)
    tensors = arrays.on("cpu")
    assert isinstance(tensors.then(step).vectors, torch.Tensor)
    assert isinstance(tensors.pooled(lambda rows: rows.vectors), torch.Tensor)
    assert isinstance(tensors.numpy().vectors, np.ndarray)


@pytest.mark.parametrize("kind", ["arrays", "tensors"])
def test_rows_of_different_images_are_numbered_on(kind):
    parts = [local(5, 2), local(4, 1)]
    if kind == "tensors":
        parts = [part.on("cpu") for part in parts]
    joined = LocalDescriptors.stacked(parts)
    assert joined.images.tolist() == [0, 1, 0, 1, 0, 2, 2, 2, 2]
    assert joined.shapes.tolist() == [*parts[0].shapes.tolist(), *parts[1].shapes.tolist()]
    assert joined.vectors.tolist() == [*parts[0].vectors.tolist(), *parts[1].vectors.tolist()]


def test_renumbered_images_keep_their_rows_and_shapes():
    rows = local(6, 3).on("cpu")
    new = rows.renumbered([2, 0, 1])
    assert new.images.tolist() == [0, 0, 1, 1, 2, 2]
    for old, number in enumerate([2, 0, 1]):
        assert torch.equal(new.vectors[new.images == number], rows.vectors[rows.images == old])
        assert torch.equal(new.positions[new.images == number], rows.positions[rows.images == old])
        assert torch.equal(new.shapes[number], rows.shapes[old])


def test_samples_are_spread_evenly_seeded_and_bounded():
    rows = local(60, 3)
    drawn = rows.draw(8, seed=1)
    assert len(drawn) == 8
    rank = {tuple(vector): image for vector, image in zip(rows.vectors.tolist(), rows.images.tolist())}
    assert np.bincount([rank[tuple(row)] for row in drawn.tolist()]).tolist() == [3, 3, 2]
    assert len({tuple(row) for row in drawn.tolist()}) == 8
    assert torch.equal(drawn, rows.draw(8, seed=1))
    assert not torch.equal(drawn, rows.draw(8, seed=2))
    assert len(rows.draw(1000, seed=1)) == 60
    with pytest.raises(ValueError, match="X has no descriptors"):
        local(0, 3).draw(8, seed=1)


def test_rows_are_not_a_matrix():
    with pytest.raises(
        ValueError, match="LocalDescriptors is not a matrix with one row per image; code and pool"
    ):
        np.asarray(local())

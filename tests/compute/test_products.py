"""Products by either library, against double precision."""

import numpy as np
import pytest
import torch

from ddsfl.compute import products
from ddsfl.compute.products import add_times, onednn_is_faster, plus_times, times, times_in


@pytest.fixture(
    autouse=True,
    params=[
        False,
        pytest.param(
            True,
            marks=pytest.mark.skipif(
                not hasattr(torch.ops.mkldnn, "_linear_pointwise"), reason="this torch is without oneDNN"
            ),
        ),
    ],
    ids=["MKL", "oneDNN"],
)
def calls(request, monkeypatch):
    """Multiply by one of the libraries, however small the matrices; list the products of oneDNN."""
    made, multiplied = [], products._multiplied

    def counted(*operands):
        made.append([tuple(operand.shape) for operand in operands if operand is not None])
        return multiplied(*operands)

    monkeypatch.setattr(products, "onednn_is_faster", lambda: request.param)
    monkeypatch.setattr(products, "LEAST_WORK", 1)
    monkeypatch.setattr(products, "_multiplied", counted)
    return made


def drawn(seed, *shape):
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


def close(found, expected):
    assert found.dtype == torch.float32
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-4, atol=1e-4)


#: How operands lie in memory: as they are, transposed, every second row, a part of the columns.
LAYOUTS = {
    "plain": lambda matrix: matrix,
    "transposed": lambda matrix: matrix.T.contiguous().T,
    "every second row": lambda matrix: matrix.repeat_interleave(2, dim=0)[::2],
    "some columns": lambda matrix: torch.cat([matrix, matrix], dim=1)[:, : matrix.shape[1]],
}


@pytest.mark.parametrize("of_left", LAYOUTS)
@pytest.mark.parametrize("of_right", LAYOUTS)
def test_products_of_matrices_in_any_layout(of_left, of_right):
    left, right = drawn(0, 37, 19), drawn(1, 19, 23)
    expected = left.double().numpy() @ right.double().numpy()
    one, other = LAYOUTS[of_left](left), LAYOUTS[of_right](right)
    close(times(one, other), expected)
    offset = drawn(2, 23)
    close(plus_times(offset, one, other), expected + offset.numpy())
    room = torch.full((900,), -1.0)
    found = times_in(room, one, other)
    close(found, expected)
    assert (found.data_ptr() == room.data_ptr()) != products.onednn_is_faster()
    assert (room[37 * 23 :] == -1).all()
    total = drawn(3, 37, 23)
    before = total.numpy().copy()
    assert add_times(total, one, other) is None
    close(total, before + expected)


@pytest.mark.parametrize("count", [1, 3])
def test_products_of_batches(count):
    left, right = drawn(4, count, 7, 11), drawn(5, count, 11, 13)
    close(times(left, right), left.double().numpy() @ right.double().numpy())
    close(times(left.mT.contiguous().mT, right), left.double().numpy() @ right.double().numpy())


def test_operands_are_unchanged():
    left, right, offset = drawn(6, 9, 5), drawn(7, 5, 4), drawn(8, 4)
    before = [operand.clone() for operand in (left, right, offset)]
    times(left, right), plus_times(offset, left, right)
    assert all(map(torch.equal, before, (left, right, offset)))


def test_only_large_products_of_single_precision_go_to_onednn(calls, monkeypatch):
    left, right = drawn(9, 8, 4), drawn(10, 4, 2)
    times(left, right)
    assert calls == ([[(8, 4), (4, 2)]] if products.onednn_is_faster() else [])
    calls.clear()
    monkeypatch.setattr(products, "LEAST_WORK", 65)
    times(left, right)
    monkeypatch.setattr(products, "LEAST_WORK", 64)
    times(left.double(), right.double())
    times(drawn(11, 2, 8, 4), right)  # a batch times one matrix
    times(drawn(11, 1, 8, 4), drawn(12, 3, 4, 2))
    assert calls == []


def test_no_product_is_lost_without_rows():
    assert times(drawn(0, 0, 3), drawn(0, 3, 2)).shape == (0, 2)


@pytest.mark.parametrize(
    ("able", "faster"),
    [
        ({"cpu_name": "AMD EPYC", "avx512_f": True}, True),
        ({"cpu_name": "AMD EPYC", "avx512_f": False}, False),
        ({"cpu_name": "Intel(R) Xeon(R)", "avx512_f": True}, False),
        ({}, False),
    ],
)
def test_which_processors(monkeypatch, able, faster):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: able)
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: True)
    assert onednn_is_faster.__wrapped__() is faster
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    assert not onednn_is_faster.__wrapped__()

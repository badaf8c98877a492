"""Products and row-wise steps, on the CPU and on CUDA, against float64."""

import pytest
import torch

from ddsfl.compute.rows import Responses, product, rectified, respond, unit_rows


def reference(rows, filters, offset):
    return (rows.double() @ filters.double().T - offset.double()).abs()


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)])
@pytest.mark.parametrize(("count", "width", "n_filters"), [(1, 1, 1), (37, 256, 400), (130, 65, 33)])
def test_responses_rectified_and_of_unit_length(device, count, width, n_filters):
    rows = torch.randn(count, width, device=device)
    filters = torch.randn(n_filters, width, device=device) / width
    offset = torch.randn(n_filters, device=device) / width
    expected = reference(rows, filters, offset)
    responses = respond(rows, filters, offset)
    exactness = {"rtol": 1e-3, "atol": 2e-3 * float(expected.max())} if device == "cuda" else {}
    torch.testing.assert_close(responses.absolute().double(), expected, **(exactness or TIGHT))

    above = (expected - expected.mean(dim=1, keepdim=True)).clamp(min=0)
    above /= above.norm(dim=1, keepdim=True).clamp(min=1e-12)
    loose = {"rtol": 1e-2, "atol": 1e-2} if device == "cuda" else TIGHT
    torch.testing.assert_close(rectified(responses).double(), above, **loose)

    for every in (1, 2):
        chosen = torch.arange(0, count, every, device=device)
        units = expected[chosen] / expected[chosen].norm(dim=1, keepdim=True)
        room = torch.full((len(chosen), n_filters), torch.nan, device=device)
        assert unit_rows(responses, chosen, room) is room
        torch.testing.assert_close(room.double(), units, **loose)


TIGHT = {"rtol": 1e-4, "atol": 1e-5}


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)])
@pytest.mark.parametrize(("count", "width", "n_filters"), [(1, 3, 1), (37, 256, 400), (130, 65, 33)])
@pytest.mark.parametrize("shifted", [False, True])
def test_signed_values_follow_the_responses(device, count, width, n_filters, shifted):
    rows = torch.randn(count, width, device=device)
    filters = torch.randn(n_filters, width, device=device) / width
    offset = torch.randn(n_filters, device=device) / width if shifted else None
    responses = respond(rows, filters, offset, keep_signs=True)
    signed = rows.double() @ filters.double().T - (0 if offset is None else offset.double())
    exactness = {"rtol": 1e-3, "atol": 2e-3} if device == "cuda" else TIGHT
    torch.testing.assert_close(responses.absolute().double(), signed.abs(), **exactness)
    for every in (1, 2):
        chosen = torch.arange(0, count, every, device=device)
        expected = torch.cat([signed[chosen].abs(), 0.4 * signed[chosen]], dim=1)
        expected /= expected.norm(dim=1, keepdim=True)
        room = torch.full((len(chosen), 2 * n_filters), torch.nan, device=device)
        assert unit_rows(responses, chosen, room, 0.4) is room
        loose = {"rtol": 1e-2, "atol": 1e-2} if device == "cuda" else TIGHT
        torch.testing.assert_close(room.double(), expected, **loose)


def test_missing_signs_are_an_error():
    responses = respond(torch.ones(2, 3), torch.ones(4, 3))
    with pytest.raises(ValueError, match="these responses have no signs"):
        unit_rows(responses, torch.arange(2), torch.empty(2, 8), 0.5)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)])
def test_rows_of_zeros_stay_zero_and_no_rows_are_no_error(device):
    responses = Responses(torch.zeros(2, 5, device=device), None)
    assert not rectified(responses).any()
    assert not unit_rows(responses, torch.tensor([1], device=device), torch.ones(1, 5, device=device)).any()
    nothing = torch.empty(0, dtype=torch.int64, device=device)
    assert unit_rows(responses, nothing, torch.empty(0, 5, device=device)).shape == (0, 5)
    assert rectified(Responses(torch.zeros(0, 5, device=device), None)).shape == (0, 5)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)])
@pytest.mark.parametrize("size", [1e-4, 1.0, 1e4])
def test_products_of_any_scale_keep_their_digits(device, size):
    rows, columns = torch.randn(40, 64, device=device), torch.randn(30, 64, device=device) * size
    expected = rows.double() @ columns.double().T
    values, scale = product(rows, columns)
    error = (values.double() * (1 if scale is None else scale) - expected).norm() / expected.norm()
    assert error < (1e-3 if device == "cuda" else 1e-6)


def test_without_offset_the_products_alone_count():
    rows, filters = torch.tensor([[1.0, 2.0]]), torch.tensor([[1.0, -1.0], [0.0, 3.0]])
    assert respond(rows, filters).absolute().tolist() == [[1.0, 6.0]]

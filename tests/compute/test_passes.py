import torch

from ddsfl.compute.passes import HeldRows, every_nth, gathered


def test_numbers_at_equal_distances_cover_all_rows():
    numbers = every_nth(1001, 10)
    assert len(numbers) == 10
    gaps = numbers.diff()
    assert int(gaps.min()) >= 100
    assert int(gaps.max()) <= 101
    assert every_nth(7, 10).tolist() == list(range(7))


def test_gathered_rows_are_those_asked_for_whatever_the_parts():
    rows = torch.arange(22.0).reshape(11, 2)
    numbers = torch.tensor([0, 3, 4, 10])
    for at_once in (1, 3, 4, 20):
        torch.testing.assert_close(gathered(HeldRows(rows, at_once), numbers), rows[numbers])

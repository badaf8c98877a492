import threading

import numpy as np
import pytest
import torch

from ddsfl.images.image_list import ImageList, UnreadableImage, decode
from ddsfl.patches import batches
from ddsfl.patches.batches import batches_of_like_shape, image_batches, over, read_ahead
from tests.support.pictures import picture

SHAPES = [(20, 31), (17, 40), (20, 31), (50, 16), (17, 40), (20, 30), (90, 80), (17, 41), (20, 31)]


def pictures(shapes=SHAPES):
    """Images whose pixels are their own number."""
    return [torch.full((1, *shape), number, dtype=torch.uint8) for number, shape in enumerate(shapes)]


@pytest.mark.parametrize("budget", [1, 620, 1300, 2500, 10**6])
def test_every_image_is_in_one_group_and_groups_keep_to_the_budget(budget):
    groups = batches_of_like_shape(SHAPES, budget)
    assert sorted(number for group in groups for number in group) == list(range(len(SHAPES)))
    for group in groups:
        height = max(SHAPES[number][0] for number in group)
        width = max(SHAPES[number][1] for number in group)
        assert len(group) == 1 or len(group) * height * width <= budget


def test_like_shapes_come_together_in_the_order_of_their_numbers():
    assert batches_of_like_shape([(9, 9), (5, 5), (9, 9), (5, 5)], 200) == [[1, 3], [0, 2]]
    # 3 * 20 * 31 pixels just fit; one pixel less and they do not.
    assert batches_of_like_shape([(20, 31)] * 4, 1860) == [[0, 1, 2], [3]]
    assert batches_of_like_shape([(20, 31)] * 4, 1859) == [[0, 1], [2, 3]]
    assert batches_of_like_shape([(20, 31)] * 3, 10**6) == [[0, 1, 2]]
    assert batches_of_like_shape([], 100) == []


def test_padding_counts_in_both_directions():
    # Each fits with its own size, but together they are padded to 30 x 40.
    assert batches_of_like_shape([(10, 40), (30, 10)], 2399) == [[0], [1]]
    assert batches_of_like_shape([(10, 40), (30, 10)], 2400) == [[0, 1]]
    # A wide image in the first group must not count for later groups.
    assert batches_of_like_shape([(10, 99), (11, 10), (11, 10)], 220) == [[0], [1, 2]]


@pytest.mark.parametrize("read_ahead", [1, 4, 100])
@pytest.mark.parametrize("make", [list, lambda images: ImageList([image[0].numpy() for image in images])])
def test_all_images_come_once_under_their_numbers(monkeypatch, make, read_ahead):
    monkeypatch.setitem(batches.READ_AHEAD, "cpu", read_ahead)
    monkeypatch.setattr(batches, "BATCH_PIXELS", {"cpu": 2000})
    seen = []
    for numbers, images in image_batches(make(pictures()), torch.device("cpu")):
        assert [int(image.max()) for image in images] == numbers
        assert [tuple(image.shape) for image in images] == [(1, *SHAPES[number]) for number in numbers]
        assert len({number // read_ahead for number in numbers}) == 1
        seen += numbers
    assert sorted(seen) == list(range(len(SHAPES)))


def test_the_budget_is_that_of_the_device(monkeypatch):
    monkeypatch.setattr(batches, "BATCH_PIXELS", {"cpu": 1, "cuda": 10**6})
    few = [numbers for numbers, _ in image_batches(pictures(), torch.device("cpu"))]
    many = [numbers for numbers, _ in image_batches(pictures(), torch.device("cuda"))]
    assert [len(numbers) for numbers in few] == [1] * len(SHAPES)
    assert [len(numbers) for numbers in many] == [len(SHAPES)]


def test_progress_follows_the_batches_and_ends_with_all(monkeypatch):
    monkeypatch.setitem(batches.READ_AHEAD, "cpu", 4)
    monkeypatch.setattr(batches, "BATCH_PIXELS", {"cpu": 2000})
    calls, expected, done = [], [], 0
    for numbers, _ in image_batches(pictures(), torch.device("cpu"), lambda *call: calls.append(call)):
        assert calls == expected  # a batch is done only when the next one is requested
        done += len(numbers)
        expected.append((done, len(SHAPES)))
    assert calls == expected
    assert calls[-1] == (len(SHAPES), len(SHAPES))


def test_a_pass_in_this_process_is_one_part_that_is_not_collected():
    events = []

    def work(batched):
        for numbers, _ in batched:
            events.append(f"give {numbers}")
            yield numbers

    images = ImageList([picture(), picture(seed=1), picture(20, 20)])
    for taken in over(images, work, torch.device("cpu"), lambda *step: events.append(step)):
        events.append(f"take {taken}")
    assert events == ["give [2, 0, 1]", "take [2, 0, 1]", (3, 3)]


@pytest.mark.parametrize("every", [1, 2, 3, 20])
def test_every_nth_image_comes_under_its_number(monkeypatch, every):
    monkeypatch.setitem(batches.READ_AHEAD, "cpu", 4)
    monkeypatch.setattr(batches, "BATCH_PIXELS", {"cpu": 2000})
    lazy = ImageList([image[0].numpy() for image in pictures()])
    for images in (pictures(), lazy):
        found = {
            number: int(image.max())
            for numbers, batch in over(images, iter, torch.device("cpu"), every=every)
            for number, image in zip(numbers, batch)
        }
        assert found == {number: number for number in range(0, len(SHAPES), every)}
    assert [number for number, digest in enumerate(lazy.digests()) if digest] == sorted(found)


def test_no_images_give_no_batches():
    assert list(image_batches([], torch.device("cpu"), lambda *_: pytest.fail("nothing was done"))) == []


@pytest.mark.parametrize("size", [1, 3, 7, 20])
def test_reading_ahead_keep_order(size):
    arrays = [np.full((16, 16 + index), index, np.uint8) for index in range(11)]
    tensors = [decode(array) for array in arrays]
    for images in (ImageList(arrays), tensors, tuple(tensors)):
        lists = list(read_ahead(images, size))
        assert [len(batch) for batch in lists] == [min(size, 11 - start) for start in range(0, 11, size)]
        flat = [image for batch in lists for image in batch]
        assert all(torch.equal(a, b) for a, b in zip(flat, tensors))
    assert list(read_ahead(ImageList([]), size)) == []


def test_reading_ahead_raise_what_goes_wrong_in_the_background_and_leave_no_threads():
    images = ImageList([*[picture()] * 5, "missing.png", *[picture()] * 5])
    iterator = read_ahead(images, 2)
    assert [len(next(iterator)), len(next(iterator))] == [2, 2]
    with pytest.raises(UnreadableImage, match=r"missing\.png"):
        next(iterator)
    with pytest.raises(ValueError, match="size=0"):
        next(read_ahead(images, 0))
    stopped = read_ahead(images, 2)
    next(stopped)
    stopped.close()  # as an interruption in the caller does
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("read")]


def test_reading_ahead_decode_no_more_than_two_batches_ahead():
    asked = []

    class Lazy(ImageList):
        def __init__(self):
            super().__init__([picture()] * 200)

        def __getitem__(self, index):
            asked.append(index)
            return super().__getitem__(index)

    iterator = read_ahead(Lazy(), 8)
    next(iterator)
    iterator.close()
    assert max(asked) < 16

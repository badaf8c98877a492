import pickle
import threading

import numpy as np
import pytest
import torch
from PIL import Image

from ddsfl.images import store as module
from ddsfl.images.image_list import ImageList, UnreadableImage, decode
from tests.support.pictures import bad_files, picture


def test_read_all_names_what_is_bad_and_nothing_else(tmp_path):
    bad = bad_files(tmp_path)
    good = [picture(seed=seed) for seed in range(4)]
    sources = [good[0], *(tmp_path / name for name in bad), *good[1:]]
    steps = []
    problems = ImageList(sources).read_all(lambda done, total: steps.append((done, total)))
    assert [problem.index for problem in problems] == list(range(1, 1 + len(bad)))
    assert [problem.source.name for problem in problems] == list(bad)
    assert steps == [(step, len(sources)) for step in range(1, len(sources) + 1)]
    assert "text.jpg cannot be read: it is not an image" in str(problems[0])


def test_the_cache_is_bounded_and_shared_with_subsets(tmp_path, monkeypatch):
    calls = []

    def counted(source, **options):
        calls.append(source.shape)
        return decode(source, **options)

    monkeypatch.setattr(module, "decode", counted)
    arrays = [np.zeros((20, 20 + index), np.uint8) for index in range(5)]
    images = ImageList(arrays, cache_bytes=20 * 20 + 20 * 21)
    for _ in range(3):
        assert [image.shape[2] for image in images] == [20, 21, 22, 23, 24]
    assert len(calls) == 5 + 2 * 3  # two are kept
    part = images.subset([1, 0, 4])
    assert [image.shape[2] for image in part] == [21, 20, 24]
    assert len(calls) == 5 + 2 * 3 + 1
    assert part.sources[2] is arrays[4]
    assert part.subset([2]).sources[0] is arrays[4]
    assert [image.shape[2] for image in images[1:3]] == [21, 22]
    assert images[-1].shape[2] == 24
    with pytest.raises(IndexError):
        images[5]


def test_the_fingerprint_is_that_of_the_pixels(tmp_path):
    arrays = [picture(seed=seed, channels=1) for seed in range(3)]
    paths = [tmp_path / f"{index}.png" for index in range(3)]
    for path, array in zip(paths, arrays):
        Image.fromarray(array).save(path)
    images = ImageList(arrays)
    assert ImageList(paths, cache_bytes=0).fingerprint() == images.fingerprint()
    assert images.subset([0, 1]).fingerprint() == ImageList(arrays[:2]).fingerprint()
    others = [
        ImageList(arrays[::-1]), ImageList(arrays[:2]), ImageList(arrays, max_side=20),
        ImageList([arrays[0].reshape(53, 37), *arrays[1:]]),
    ]  # fmt: skip
    assert len({images.fingerprint(), *(other.fingerprint() for other in others)}) == 5
    with pytest.raises(UnreadableImage):
        ImageList(["missing.png"]).fingerprint()


def test_an_image_that_changes_while_it_is_in_use_is_noticed(tmp_path):
    path = tmp_path / "a.png"
    Image.fromarray(np.zeros((20, 20), np.uint8)).save(path)
    images = ImageList([path], cache_bytes=0)
    before = images.fingerprint()
    Image.fromarray(np.zeros((20, 20), np.uint8)).save(path, optimize=True)  # other bytes, the same pixels
    assert images[0].sum() == 0
    Image.fromarray(np.eye(20, dtype=np.uint8)).save(path)
    with pytest.raises(UnreadableImage, match=r"a\.png cannot be read: it changed while it was in use"):
        images[0]
    assert images.fingerprint() == before
    assert [problem.reason for problem in images.read_all()] == ["it changed while it was in use"]


def test_an_image_list_survives_pickling_without_its_pictures():
    images = ImageList([picture(200, 200)], colour="lab").subset([0, 0])
    images.read_all()
    assert len(pickle.dumps(images)) < 150_000  # the source has 120,000 bytes; no decoded copy
    assert torch.equal(pickle.loads(pickle.dumps(images))[1], images[1])


def test_only_the_images_of_a_part_travel_and_what_is_known_of_them():
    images = ImageList([picture(seed=seed) for seed in range(9)], max_side=40, cache_bytes=10**4)
    images.read_all(glance=True)
    part = images.subset([7, 3, 3])
    assert len(pickle.dumps(part)) < len(pickle.dumps(images)) / 3
    there = pickle.loads(pickle.dumps(part))
    assert there.digests() == part.digests() == [images.digest(at) for at in (7, 3, 3)]
    assert all(torch.equal(a, b) for a, b in zip(there, part))
    assert (there.colour, there.max_side, there._store.cache_bytes) == ("gray", 40, 10**4)
    assert len(there) == len(there.sources) == 3
    again = pickle.loads(pickle.dumps(images))
    assert again.seen() == list(range(9))


def test_a_travelled_image_that_has_changed_is_noticed(tmp_path):
    path = tmp_path / "a.png"
    Image.fromarray(np.zeros((20, 20), np.uint8)).save(path)
    images = ImageList(["missing.png", path])
    assert images.subset([1]).read_all() == []
    there = pickle.loads(pickle.dumps(images))
    Image.fromarray(np.eye(20, dtype=np.uint8)).save(path)
    assert there.digests()[0] is None
    with pytest.raises(UnreadableImage, match="it changed while it was in use"):
        there[1]


def test_all_images_are_read_however_few_may_wait(monkeypatch):
    monkeypatch.setattr("ddsfl.images.image_list.WAITING", 4)
    images, steps = ImageList([picture(seed=seed) for seed in range(10)] + ["missing.png"]), []
    assert [problem.index for problem in images.read_all(lambda *step: steps.append(step))] == [10]
    assert steps == [(done, 11) for done in range(1, 12)]
    assert None not in images.digests()[:10]


def test_ctrl_c_while_reading_ends_the_reading(monkeypatch):
    def interrupt(done, total):
        raise KeyboardInterrupt

    images = ImageList([picture(seed=seed) for seed in range(50)])
    with pytest.raises(KeyboardInterrupt):
        images.read_all(interrupt)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("read")]
    assert images.read_all() == []

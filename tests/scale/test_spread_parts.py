"""Parts of images on workers: what travels, what comes back, and which words a user reads."""

import pickle

import numpy as np
import pytest
import torch
from PIL import Image

from ddsfl.images.image_list import ImageList, UnreadableImage
from ddsfl.patches.batches import over
from ddsfl.scale.engine import Here
from ddsfl.scale.spread import Spreading, packed
from tests.support.engines import Far, only_workers_decode, use_small_parts
from tests.support.models import IMAGES, LABELS, edges, model_of
from tests.support.pictures import bad_files, picture
from tests.support.tiny import TINY

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    use_small_parts(monkeypatch)


@pytest.fixture
def decoding(monkeypatch):
    return only_workers_decode(monkeypatch)


def numbered(batched):
    yield from batched


def wrong(batched):
    first = min(number for numbers, _ in batched for number in numbers)
    if first:
        raise ValueError(f"wrong from {first} on.")
    yield first


@pytest.fixture
def paths(tmp_path):
    made = [tmp_path / f"{at}.png" for at in range(7)]
    for at, path in enumerate(made):
        Image.fromarray(picture(seed=at)).save(path)
    Image.fromarray(picture(seed=2)).save(made[5])  # a copy
    Image.fromarray(np.full((40, 40), 9, np.uint8)).save(made[6])
    return made


def test_reading_on_workers_finds_the_same(tmp_path, paths, decoding):
    bad = [tmp_path / name for name in bad_files(tmp_path)]
    sources = [paths[0], *bad[:2], *paths[1:4], *bad[2:], *paths[4:]]
    here, steps = ImageList(sources, cache_bytes=0), []
    expected = here.read_all(glance=True)
    decoding.append(engine := Far())
    there = ImageList(sources, cache_bytes=0).with_spread(Spreading(engine))
    found = there.read_all(lambda *step: steps.append(step), glance=True)
    assert list(map(str, found)) == list(map(str, expected))
    assert [(p.index, p.source) for p in found] == [(p.index, p.source) for p in expected]
    np.testing.assert_array_equal(there.glances.described, here.glances.described)
    np.testing.assert_array_equal(there.glances.contrasts, here.glances.contrasts)
    assert (there.copies(), there.flat(), there.seen()) == (here.copies(), here.flat(), here.seen())
    assert there.digests() == here.digests()
    assert [total for _, total in steps] == [13] * 5
    assert [done for done, _ in steps] == sorted(done for done, _ in steps)
    assert steps[-1] == (13, 13)
    good = there.subset(there.seen())
    assert good.fingerprint() == here.subset(here.seen()).fingerprint()
    assert engine.n_runs == 1  # all digests were known
    assert there.with_spread(Spreading(engine)).read_all() == found  # without glances
    with pytest.raises(ValueError, match="not looked at"):
        there.with_spread(None).seen()


def test_an_image_that_cannot_be_read_is_named_as_in_one_process(paths):
    sources = [*paths, "missing.png", "absent.png"]
    for images in (ImageList(sources), ImageList(sources).with_spread(Spreading(Far()))):
        with pytest.raises(UnreadableImage, match=r"missing\.png cannot be read: no such file") as caught:
            images.subset(range(1, 8)).fingerprint()
        assert caught.value.number == 7
    given = ImageList([*IMAGES[:6], b"no image", *IMAGES[6:]])
    with pytest.raises(UnreadableImage, match=r"image 6 \(given as bytes\) cannot be read") as caught:
        edges().fit(given, [*LABELS, LABELS[0]], spread=Spreading(Far()))
    given = given.subset(range(1, 12)).with_spread(Spreading(Far()))
    with pytest.raises(UnreadableImage, match="image 6") as caught:
        list(over(given, numbered, CPU))
    assert (caught.value.source, caught.value.number) == (b"no image", 6)


def test_an_image_that_changes_meanwhile_ends_the_training(paths):
    images = ImageList(paths, cache_bytes=0).with_spread(Spreading(Far()))
    before = images.fingerprint()
    assert sorted(number for numbers, _ in over(images, numbered, CPU) for number in numbers) == list(
        range(7)
    )
    Image.fromarray(picture(seed=99)).save(paths[4])
    with pytest.raises(UnreadableImage, match=r"4\.png cannot be read: it changed while it was in use"):
        list(over(images, numbered, CPU))
    assert [problem.reason for problem in images.read_all()] == ["it changed while it was in use"]
    assert images.fingerprint() == before


def test_a_change_that_only_two_workers_together_can_notice_is_noticed(paths):
    """Both read an image for the first time, before and after it changed."""
    images = ImageList([paths[0], paths[1]])
    images.note_digests(0, ImageList(paths[:2]).with_spread(Spreading(Far())).digests())
    first = ImageList(paths[:2])
    first.read_all()
    images.note_digests(0, [None, first.digest(1)])
    with pytest.raises(UnreadableImage, match=r"1\.png cannot be read: it changed") as caught:
        images.note_digests(1, [first.digest(0)])
    assert caught.value.number == 1


def test_a_part_that_no_worker_finishes_is_an_error_that_names_it():
    images = ImageList(IMAGES)
    for fails, named in (({1}, "images 6 to 10"), ({2}, "images 11 to 12")):
        message = f"no worker finished {named}: a process was killed by SIGKILL"
        with pytest.raises(ValueError, match=message):
            list(over(images.with_spread(Spreading(Far(fails))), numbered, CPU))


def test_a_mistake_is_reported_in_the_words_of_one_process():
    def small(spread):
        with pytest.raises(ValueError) as caught:
            model_of({**TINY, "layers.field": 16}).fit([np.eye(20)[:, :20]] * 4, [0, 0, 1, 1], spread=spread)
        return str(caught.value)

    assert small(None) == small(Spreading(Far()))

    images = ImageList(IMAGES[:6]).with_spread(Spreading(Far()))
    with pytest.raises(ValueError, match=r"^wrong from 5 on\.$"):
        list(over(images, wrong, CPU))


def test_results_come_as_parts_end_or_in_order():
    images = ImageList([picture()] * 23).with_spread(Spreading(Far()))
    starts = [
        [numbers[0] // 5 for numbers, _ in over(images, numbered, CPU, ordered=o)] for o in (False, True)
    ]
    assert starts[1] == sorted(starts[1])
    assert starts[0] != sorted(starts[0])
    assert set(starts[0]) == set(starts[1]) == {0, 1, 2, 3, 4}
    assert list(over(images.subset([]), numbered, CPU)) == []


def test_results_are_not_kept():
    """An engine that is asked for one outcome at a time: nothing is waiting in between."""
    engine = Far()
    images = ImageList([picture()] * 23).with_spread(Spreading(engine))
    for taken, _ in enumerate(over(images, numbered, CPU), start=1):
        assert len(engine.returned) <= taken


def test_tensors_travel_as_they_are_without_their_storage():
    whole = torch.arange(10_000.0).view(100, 100)
    values = [whole[3], whole.T[:2], torch.tensor(7), torch.ones(3, dtype=torch.bool), whole[:0]]
    sent = packed({"tensors": values})
    assert len(sent) < 5_000
    for value, back in zip(values, pickle.loads(sent)["tensors"]):
        assert torch.equal(value, back)
        assert value.dtype == back.dtype
        back.zero_()  # can be written


def test_parts_have_no_workers_of_their_own():
    images = ImageList(IMAGES).with_spread(Spreading(Here()))
    assert images.read_all(glance=True) == []  # in this process, with the very same store
    assert pickle.loads(pickle.dumps(images)).spread is None
    assert images.subset([1]).spread is images.spread

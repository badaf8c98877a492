"""Copies are found, however they were changed; different pictures and flat ones are not copies."""

import io

import numpy as np
import pytest
from PIL import Image, ImageEnhance

from ddsfl.images.image_list import ImageList
from ddsfl.images.likeness import ALIKE, SIDE, Copies, describe_thumbnail, groups_alike
from ddsfl.images.scenes import make_scenes


def glances_of(pictures, **options):
    images = ImageList(pictures, **options)
    assert images.read_all(glance=True) == []
    return images.glances, {index: images.digest(index) for index in range(len(images))}


@pytest.fixture(scope="module")
def scenes():
    return [Image.fromarray(pixels) for pixels in make_scenes(6, random_state=3)[0]]


def recompressed(image, quality=30):
    stream = io.BytesIO()
    image.convert("L").save(stream, "JPEG", quality=quality)
    return Image.open(io.BytesIO(stream.getvalue()))


CHANGES = {
    "half": lambda image: image.resize((56, 56), Image.Resampling.BICUBIC),
    "larger": lambda image: image.resize((150, 150), Image.Resampling.BICUBIC),
    "narrower": lambda image: image.resize((80, 112), Image.Resampling.BICUBIC),
    "recompressed": recompressed,
    "brighter": lambda image: ImageEnhance.Brightness(image).enhance(1.15),
    "less contrast": lambda image: ImageEnhance.Contrast(image).enhance(0.7),
    "one pixel cut off": lambda image: image.crop((1, 1, 111, 111)),
}


@pytest.mark.parametrize("change", CHANGES)
def test_changed_copies_are_found_and_nothing_else(scenes, change):
    glances, digests = glances_of([*scenes, *map(CHANGES[change], scenes)])
    n_scenes = len(scenes)
    assert glances.copies(digests) == [Copies((i, n_scenes + i), exact=False) for i in range(n_scenes)]


def test_mirrored_and_turned_images_are_no_copies(scenes):
    turned = [image.transpose(way) for image in scenes[:9] for way in (0, 1, 3)]
    glances, digests = glances_of([*scenes, *turned])
    assert glances.copies(digests) == []


def test_images_of_one_texture_are_no_copies():
    """Fine and coarse textures, stripes with the same period, and gradients of light with different grain."""
    rng = np.random.default_rng(0)
    pictures = []
    for coarse in (3, 8, 25, 120):
        grain = rng.uniform(0, 255, (12, coarse, coarse)).astype(np.uint8)
        pictures += [
            np.asarray(Image.fromarray(g).resize((120, 120), Image.Resampling.BICUBIC)) for g in grain
        ]
    light = np.linspace(60, 190, 120)[:, None]
    pictures += [(light + rng.normal(0, 12, (120, 120))).clip(0, 255).astype(np.uint8) for _ in range(12)]
    glances, digests = glances_of(pictures)
    assert glances.copies(digests) == []


def test_flat_images_are_copies_only_if_their_pixels_are_equal():
    rng = np.random.default_rng(0)
    pictures = [(level + rng.normal(0, 0.8, (90, 90))).astype(np.uint8) for level in (40, 40, 200)]
    pictures += [
        np.full((90, 90), 40, np.uint8),
        np.full((50, 90), 40, np.uint8),
        np.full((90, 90), 40, np.uint8),
    ]
    light = np.tile(np.linspace(0, 2, 90), (90, 1))  # the same faint light on two walls
    pictures += [np.rint(level + light).astype(np.uint8) for level in (100, 150)]
    glances, digests = glances_of(pictures)
    assert glances.flat.all()
    assert glances.copies(digests) == [Copies((3, 5), exact=True)]


def test_faint_texture_is_not_flat():
    pixels = np.random.default_rng(0).normal(128, 6, (90, 90)).clip(0, 255).astype(np.uint8)
    assert not glances_of([pixels])[0].flat.any()


def test_colour_images_are_compared_by_their_lightness(scenes):
    glances, digests = glances_of(
        [scenes[0].convert("RGB"), CHANGES["half"](scenes[0]), scenes[1]], colour="lab"
    )
    assert glances.copies(digests) == [Copies((0, 1), exact=False)]


def test_images_that_cannot_be_read_are_not_seen(scenes):
    images = ImageList([scenes[0], "missing.png", scenes[0]])
    with pytest.raises(ValueError, match="not looked at"):
        images.seen()
    assert [problem.index for problem in images.read_all(glance=True)] == [1]
    assert images.seen() == [0, 2]
    assert images.copies() == [Copies((0, 2), exact=True)]
    assert images.glances.copies({}) == []


@pytest.mark.parametrize("block", [1, 3, 7, 1000])
def test_groups_do_not_depend_on_the_size_of_blocks(block):
    """A chain: each thumbnail is like the next, the first is not like the last."""
    rng = np.random.default_rng(1)
    first, last = rng.normal(128, 40, (2, SIDE, SIDE))
    chain = [first + step * (last - first) for step in np.linspace(0, 1, 9)]
    thumbnails = np.stack([*chain, *rng.normal(128, 40, (3, SIDE, SIDE))]).astype(np.float32)
    described = np.stack([describe_thumbnail(thumbnail) for thumbnail in thumbnails])
    assert described[0] @ described[8] < 0.5
    assert all(described[i] @ described[i + 1] > ALIKE for i in range(8))
    order = rng.permutation(12)
    groups = np.empty(12, int)
    groups[order] = groups_alike(described[order], block)
    assert len(set(groups[:9])) == 1
    assert len(set(groups)) == 4


def test_likeness_is_the_correlation_of_differences_between_neighbours():
    """Against the definition, for pictures without the frequencies that are filtered out."""
    x = (np.arange(SIDE) + 0.5) / SIDE
    waves = np.cos(np.pi * np.arange(16)[:, None] * x)
    one, two = (waves.T @ np.random.default_rng(seed).normal(size=(16, 16)) @ waves for seed in (0, 1))
    two += one

    def differences(picture):
        return np.concatenate([np.diff(picture, axis=0).ravel(), np.diff(picture, axis=1).ravel()])

    first, second = map(differences, (one, two))
    expected = first @ second / np.linalg.norm(first) / np.linalg.norm(second)
    assert describe_thumbnail(one) @ describe_thumbnail(two) == pytest.approx(expected, abs=1e-6)


def test_a_digest_is_known_without_the_image():
    images = ImageList([np.eye(20)], cache_bytes=0)
    images.read_all()
    images._store.sources[0] = None  # reading it again would fail
    assert images.digest(0) == ImageList([np.eye(20)]).digest(0)
    assert isinstance(images.digest(0), bytes)

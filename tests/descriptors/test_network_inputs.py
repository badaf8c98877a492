import numpy as np
import pytest
import torch
from PIL import Image

from ddsfl.descriptors import network_inputs
from ddsfl.descriptors.network_inputs import Preparation, fitted_to, side_pair, views_of
from ddsfl.images.decode import UnreadableImage, decode


def picture(height=40, width=60, seed=0):
    """A smooth image, for which the filters of different libraries agree."""
    small = np.random.default_rng(seed).integers(0, 256, (6, 8, 3), dtype=np.uint8)
    return np.array(Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC))


def prepared(sources, batch_size=32, **options):
    return torch.cat(list(Preparation(**options).batches(sources, batch_size)))


def test_squash_is_pillows_antialiased_bicubic():
    rgb = picture(90, 130)
    squashed = fitted_to(torch.from_numpy(rgb).permute(2, 0, 1), (24, 32), "squash")
    expected = np.asarray(Image.fromarray(rgb).resize((32, 24), Image.Resampling.BICUBIC))
    assert squashed.shape == (3, 24, 32)
    assert np.abs(squashed.permute(1, 2, 0).numpy() - expected).max() <= 1.5
    assert squashed.min() >= 0
    assert squashed.max() <= 255


@pytest.mark.parametrize(
    ("shape", "size"), [((30, 60), (12, 12)), ((90, 45), (12, 12)), ((40, 60), (10, 30))]
)
def test_crop_is_the_middle_of_the_covering_image(shape, size):
    rgb = picture(*shape)
    ratio = max(size[0] / shape[0], size[1] / shape[1])
    covering = (round(shape[1] * ratio), round(shape[0] * ratio))
    resized = np.asarray(Image.fromarray(rgb).resize(covering, Image.Resampling.BICUBIC))
    top, left = (resized.shape[0] - size[0]) // 2, (resized.shape[1] - size[1]) // 2
    cropped = fitted_to(torch.from_numpy(rgb).permute(2, 0, 1), size, "crop")
    expected = resized[top : top + size[0], left : left + size[1]]
    assert np.abs(cropped.permute(1, 2, 0).numpy() - expected).max() <= 1.5


def test_an_image_of_the_right_size_is_taken_as_it_is():
    rgb = picture(16, 16)
    inputs = prepared([rgb], input_size=16, value_range=(0, 255))
    assert torch.equal(inputs[0], torch.from_numpy(rgb).permute(2, 0, 1).float())


def test_range_mean_and_std_come_in_this_order():
    gray = np.full((20, 20), 51, np.uint8)
    inputs = prepared([gray], input_size=4, value_range=(-1, 1), mean=(0.1, 0.2, 0.3), std=(1, 2, 4))
    level = -1 + 2 * 51 / 255
    expected = torch.tensor([level - 0.1, (level - 0.2) / 2, (level - 0.3) / 4])
    assert torch.allclose(inputs[0], expected[:, None, None].expand(3, 4, 4))


def test_layouts_hold_the_same_pixels():
    sources = [picture(seed=seed) for seed in range(3)]
    first, last = (prepared(sources, input_size=(6, 9), layout=layout) for layout in ("nchw", "nhwc"))
    assert first.shape == (3, 3, 6, 9)
    assert torch.equal(last, first.permute(0, 2, 3, 1))
    assert last.is_contiguous()


def test_batches_keep_order_and_size():
    sources = [np.full((10, 10), level, np.uint8) for level in range(7)]
    batches = list(Preparation(input_size=2, value_range=(0, 255)).batches(sources, 3))
    assert [len(batch) for batch in batches] == [3, 3, 1]
    assert torch.cat(batches)[:, 0, 0, 0].round().tolist() == list(range(7))


def test_five_views_are_the_corners_and_the_middle():
    image = torch.arange(3 * 90 * 120).reshape(3, 90, 120)
    views = views_of(image, 5)
    assert all(view.shape == (3, 60, 80) for view in views)
    starts = [tuple(divmod(int(view[0, 0, 0]), 120)) for view in views]
    assert starts == [(0, 0), (0, 40), (30, 0), (30, 40), (15, 20)]
    assert [view.shape for view in views_of(image[:, :1, :1], 5)] == [(3, 1, 1)] * 5
    assert views_of(image, 1)[0] is image


@pytest.mark.parametrize(("batch_size", "sizes"), [(1, [1] * 15), (4, [4, 1] * 3), (12, [10, 5]), (99, [15])])
def test_views_of_an_image_follow_each_other_whatever_the_batch(batch_size, sizes):
    sources = [picture(seed=seed) for seed in range(3)]
    batches = list(Preparation(input_size=(12, 18), views=5).batches(sources, batch_size))
    assert [len(batch) for batch in batches] == sizes
    images = [torch.from_numpy(source).permute(2, 0, 1) for source in sources]
    expected = [fitted_to(view, (12, 18), "squash") / 255 for image in images for view in views_of(image, 5)]
    assert torch.allclose(torch.cat(batches), torch.stack(expected), atol=1e-6)


def test_decoding_is_bounded_by_the_input_and_keeps_thin_images(monkeypatch):
    asked = []

    def spied(source, **options):
        asked.append(options)
        return decode(source, **options)

    monkeypatch.setattr(network_inputs, "decode", spied)
    assert prepared([np.zeros((1, 300), np.uint8)], input_size=(8, 16)).shape == (1, 3, 8, 16)
    assert asked == [{"colour": "rgb", "max_side": 64, "min_side": 1}]


def test_what_is_wrong_is_named():
    with pytest.raises(ValueError, match="resize='stretch'; expected 'squash' or 'crop'"):
        Preparation(resize="stretch").check()
    with pytest.raises(ValueError, match="layout='chw'"):
        Preparation(layout="chw").check()
    with pytest.raises(ValueError, match="views=3; expected 1 or 5"):
        Preparation(views=3).check()
    with pytest.raises(ValueError, match="input_size=0"):
        Preparation(input_size=0).check()
    with pytest.raises(ValueError, match=r"std=\(1, 2\)"):
        Preparation(std=(1, 2)).check()
    Preparation(input_size=np.int64(4), std=np.ones(3)).check()
    assert side_pair(np.int64(4)) == (4, 4)
    with pytest.raises(ValueError, match="sources is empty"):
        prepared([])
    with pytest.raises(UnreadableImage, match=r"missing\.png"):
        prepared([picture(), "missing.png"])

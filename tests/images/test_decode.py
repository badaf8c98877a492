import os
import pickle
import struct
import zlib

import numpy as np
import pytest
import torch
from PIL import Image

from ddsfl.images.budget import MAX_PIXELS
from ddsfl.images.decode import UnreadableImage, decode, lab_from_rgb
from tests.support.pictures import bad_files, picture


def smooth(height, width):
    """A gradient with one bright corner: every flip and rotation looks different."""
    y, x = np.mgrid[:height, :width]
    return (40 + 100 * x / width + 100 * y / height).astype(np.uint8)


def test_gray_is_the_luma_of_the_array_as_it_is():
    rgb = picture()
    expected = rgb @ np.array([0.299, 0.587, 0.114])
    gray = decode(rgb)
    assert gray.dtype == torch.uint8
    assert gray.shape == (1, 37, 53)
    assert np.abs(gray[0].numpy() - expected).max() <= 1
    assert torch.equal(decode(Image.fromarray(rgb)), gray)


def test_uint16_and_floats_reach_the_same_levels():
    gray = picture(channels=1)
    expected = torch.from_numpy(gray)[None]
    assert torch.equal(decode(gray), expected)
    assert torch.equal(decode(gray.astype(np.uint16) * 257), expected)
    assert torch.equal(decode(gray / 255), expected)
    assert torch.equal(decode((gray / 255).astype(np.float32)), expected)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.full((20, 20), 1.5), "must lie in"),
        (np.full((20, 20), np.nan), "must lie in"),
        (np.zeros((20, 20), np.int64), "int64"),
        (np.zeros((20, 20, 2), np.uint8), "shape"),
        (np.zeros((0, 20), np.uint8), "shape"),
        (torch.zeros(2, 20, 20), r"with 1, 3 or 4 channels, found shape \(2, 20, 20\)"),
        (np.full((20, 20), 255.0), r"floats must lie in \[0, 1\]; found 255 to 255"),
        (20.5, "a tensor, found float"),
        ([[0, 255], [255, 0]], "a tensor, found list"),
    ],
)
def test_arrays_that_are_no_pictures_are_refused(array, message):
    with pytest.raises(UnreadableImage, match=message):
        decode(array)


def test_options_are_checked():
    with pytest.raises(ValueError, match=r"colour='hsv'.*'rgb'"):
        decode(picture(), colour="hsv")
    with pytest.raises(ValueError, match="min_side=64"):
        decode(picture(), min_side=64, max_side=32)


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((400, 600), (200, 300)),
        ((601, 30), (300, 16)),
        ((300, 299), (300, 299)),
        ((5, 40), (16, 40)),
        ((1, 1), (16, 16)),
        ((1, 3000), (16, 300)),
    ],
)
def test_sides_are_bounded(shape, expected):
    assert decode(np.zeros(shape, np.uint8)).shape[1:] == expected


def test_a_single_pixel_becomes_a_flat_square(tmp_path):
    path = tmp_path / "dot.png"
    Image.new("L", (1, 1), 99).save(path)
    assert torch.equal(decode(path), torch.full((1, 16, 16), 99, dtype=torch.uint8))


def test_downscaling_is_antialiased():
    checks = (np.indices((600, 600)).sum(axis=0) % 2 * 255).astype(np.uint8)
    inner = decode(checks, max_side=97)[0, 2:-2, 2:-2].float()
    assert inner.std() < 12  # plain subsampling would give over 100
    assert abs(inner.mean() - 127.5) < 3


def test_every_exif_orientation_comes_out_upright(tmp_path):
    upright = smooth(40, 60)
    stored = {  # orientation -> how a camera stores the upright image
        1: upright, 2: upright[:, ::-1], 3: upright[::-1, ::-1], 4: upright[::-1],
        5: upright.T, 6: np.rot90(upright), 7: upright[::-1, ::-1].T, 8: np.rot90(upright, -1),
    }  # fmt: skip
    for orientation, pixels in stored.items():
        exif = Image.Exif()
        exif[0x0112] = orientation
        for suffix in ("png", "tif"):
            path = tmp_path / f"{orientation}.{suffix}"
            Image.fromarray(np.ascontiguousarray(pixels)).save(path, exif=exif)
            assert torch.equal(decode(path), torch.from_numpy(upright)[None]), (orientation, suffix)


def test_a_damaged_exif_block_does_not_lose_the_picture(tmp_path):
    path = tmp_path / "a.jpg"
    Image.fromarray(smooth(30, 30)).save(path, exif=b"Exif\x00\x00MM\x00*\xff\xff\xff\xff\x00")
    assert decode(path).shape == (1, 30, 30)


@pytest.mark.parametrize("suffix", ["png", "tif"])
def test_sixteen_bit_files(tmp_path, suffix):
    gray = picture(channels=1)
    path = tmp_path / f"deep.{suffix}"
    Image.fromarray(gray.astype(np.uint16) * 257).save(path)
    assert torch.equal(decode(path), torch.from_numpy(gray)[None])


def test_float_files_reach_to_one_or_to_255(tmp_path):
    gray = picture(channels=1).astype(np.float32)
    for number, scale in enumerate((1, 255)):
        path = tmp_path / f"{number}.tif"
        Image.fromarray(gray / 255 * scale).save(path)
        assert torch.equal(decode(path)[0], torch.from_numpy(gray.astype(np.uint8)))
    Image.fromarray(gray * 1000).save(tmp_path / "high.tif")
    with pytest.raises(UnreadableImage, match="levels range from"):
        decode(tmp_path / "high.tif")


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "PA", "RGB", "RGBA", "CMYK", "YCbCr", "HSV"])
def test_every_mode_of_pillow_keeps_the_picture(mode):
    rgb = np.repeat(smooth(32, 48)[..., None], 3, axis=2)
    gray = decode(Image.fromarray(rgb).convert(mode))[0].numpy().astype(float)
    if mode in ("1", "P", "PA"):  # dithered: the brightness survives
        assert abs(gray.mean() - rgb.mean()) < 5
    else:
        assert np.abs(gray - rgb[..., 0]).max() <= 2
    assert decode(Image.fromarray(rgb).convert(mode), colour="lab").shape == (3, 32, 48)


def test_what_is_transparent_shows_white(tmp_path):
    hidden = np.zeros((20, 20, 4), np.uint8)
    hidden[:10, :, 3] = 255
    expected = torch.cat([torch.zeros(10, 20), torch.full((10, 20), 255)])[None].byte()
    assert torch.equal(decode(Image.fromarray(hidden)), expected)
    palette = Image.fromarray((np.arange(400).reshape(20, 20) >= 200).astype(np.uint8)).convert("P")
    palette.save(tmp_path / "p.png", transparency=1)
    assert torch.equal(decode(tmp_path / "p.png"), expected)


def test_lab_of_known_colours():
    # L*, a*, b* (D65) as printed by Lindbloom's calculator and by skimage.color.rgb2lab.
    known = {
        (0, 0, 0): (0, 0, 0),
        (255, 255, 255): (100, 0, 0),
        (255, 0, 0): (53.24, 80.09, 67.20),
        (0, 255, 0): (87.73, -86.18, 83.18),
        (0, 0, 255): (32.30, 79.19, -107.86),
        (128, 128, 128): (53.59, 0, 0),
        (64, 64, 64): (27.09, 0, 0),
        (10, 10, 10): (2.74, 0, 0),
    }
    for rgb, (lightness, a, b) in known.items():
        lab = lab_from_rgb(np.array(rgb, np.uint8))
        assert np.abs(lab - np.array([lightness * 2.55, a + 128, b + 128])).max() <= 0.56, rgb
    pixels = np.broadcast_to(np.array([255, 0, 0], np.uint8), (20, 30, 3))
    assert decode(pixels, colour="lab")[:, 3, 4].tolist() == [136, 208, 195]


def test_rgb_is_the_array_as_it_is(tmp_path):
    rgb = picture()
    expected = torch.from_numpy(rgb).permute(2, 0, 1)
    Image.fromarray(rgb).save(tmp_path / "a.png")
    for source in (rgb, Image.fromarray(rgb), tmp_path / "a.png"):
        assert torch.equal(decode(source, colour="rgb"), expected)
    gray = decode(picture(channels=1), colour="rgb")
    assert torch.equal(gray, torch.from_numpy(picture(channels=1)).expand(3, -1, -1))
    assert decode(rgb, colour="rgb", max_side=20).shape == (3, 16, 20)
    Image.fromarray(rgb).save(tmp_path / "a.jpg", quality=95)
    assert decode(tmp_path / "a.jpg", colour="rgb", max_side=20).shape == (3, 16, 20)


def test_a_large_jpeg_is_decoded_small_and_right(tmp_path):
    large = np.asarray(Image.fromarray(smooth(30, 40)).resize((2400, 1800), Image.Resampling.BICUBIC))
    Image.fromarray(large).save(tmp_path / "large.jpg", quality=95)
    small = decode(tmp_path / "large.jpg")
    assert small.shape == (1, 225, 300)
    assert (small.float() - decode(large).float()).abs().mean() < 1


def flat_jpeg(path, side):
    """Write a mid-gray JPEG of any size: each of its 8 x 8 blocks is the same six bits."""
    Image.new("L", (8, 8), 128).save(path)
    stored = bytearray(path.read_bytes())
    frame = stored.index(b"\xff\xc0")
    stored[frame + 5 : frame + 9] = struct.pack(">HH", side, side)
    scan = stored.index(b"\xff\xda")
    start = scan + 2 + struct.unpack(">H", stored[scan + 2 : scan + 4])[0]
    blocks = (side // 8) ** 2
    path.write_bytes(bytes(stored[:start]) + b"\x28\xa2\x8a" * (blocks // 4) + b"\xff\xd9")


def test_a_jpeg_of_20000_pixels_a_side_is_decoded_reduced(tmp_path):
    flat_jpeg(tmp_path / "huge.jpg", 20_000)
    small = decode(tmp_path / "huge.jpg")
    assert small.shape == (1, 300, 300)
    assert (small == 128).all()


def bomb(path, side):
    """Write the start of a PNG that claims to be large; it must be refused without the rest."""

    def chunk(kind, content):
        return (
            struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
        )

    header = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"")))


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
@pytest.mark.parametrize("side", [8_200, 10_000, 20_000])
def test_bombs_are_refused_by_their_size(tmp_path, side):
    bomb(tmp_path / "bomb.png", side)
    with pytest.raises(UnreadableImage, match=f"the {MAX_PIXELS // 10**6} million"):
        decode(tmp_path / "bomb.png")


def test_a_progressive_jpeg_of_that_size_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("ddsfl.images.budget.MAX_PIXELS", 10**6)
    Image.new("L", (1200, 1200)).save(tmp_path / "p.jpg", progressive=True)
    Image.new("L", (1200, 1200)).save(tmp_path / "b.jpg")
    assert decode(tmp_path / "b.jpg").shape == (1, 300, 300)
    with pytest.raises(UnreadableImage, match="1200 x 1200 pixels are more"):
        decode(tmp_path / "p.jpg")


def test_bad_files_are_named_with_the_reason(tmp_path):
    for name, reason in bad_files(tmp_path).items():
        with pytest.raises(UnreadableImage, match=reason) as caught:
            decode(tmp_path / name)
        assert caught.value.source == tmp_path / name
        assert str(caught.value).startswith(str(tmp_path / name))
        assert pickle.loads(pickle.dumps(caught.value)).reason == caught.value.reason


def test_a_file_without_permission_is_named(tmp_path, monkeypatch):
    def refuse(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("builtins.open", refuse)
    with pytest.raises(UnreadableImage, match="permission denied"):
        decode(tmp_path / "a.jpg")


def test_names_beyond_ascii(tmp_path):
    path = tmp_path / "Küche 厨房 🏠.png"
    Image.fromarray(picture()).save(path)
    assert torch.equal(decode(str(path)), decode(picture()))


def test_files_are_closed(tmp_path):
    Image.fromarray(picture()).save(tmp_path / "a.png")
    Image.fromarray(picture()).save(tmp_path / "a.jpg")
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else None
    for _ in range(5):
        decode(tmp_path / "a.png")
        decode(tmp_path / "a.jpg")
    if before is not None:
        assert len(os.listdir("/proc/self/fd")) <= before

import sys
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image, features

from ddsfl.images import formats
from ddsfl.images.decode import UnreadableImage, decode
from ddsfl.images.formats import SUFFIXES, readable_suffixes
from tests.support.pictures import picture
from tests.support.pipes import named_pipe


@pytest.fixture
def fresh():
    """What can be read is looked up again within the test, and again after it."""
    readable_suffixes.cache_clear()
    yield
    readable_suffixes.cache_clear()


def save(path, **options):
    pixels = np.kron(picture(5, 7), np.ones((16, 16, 1), np.uint8))
    Image.fromarray(pixels).save(path, **options)
    return pixels


@pytest.mark.parametrize("suffix", sorted(SUFFIXES - {".avif", ".heic", ".heif"}))
def test_every_suffix_can_be_read(tmp_path, suffix):
    kinds = {".jfif": "JPEG", ".jpe": "JPEG", ".pbm": "PPM", ".pnm": "PPM"}
    pixels = save(tmp_path / f"x{suffix}", **({"format": kinds[suffix]} if suffix in kinds else {}))
    assert suffix in readable_suffixes()
    image = decode(tmp_path / f"x{suffix}", colour="rgb").permute(1, 2, 0)
    assert image.shape == pixels.shape
    difference = np.abs(image.numpy().astype(int) - pixels).mean()
    assert difference < (25 if suffix == ".gif" else 8)


def test_heic_is_read_upright(tmp_path):
    heif = pytest.importorskip("pillow_heif")
    heif.register_heif_opener()
    exif = Image.Exif()
    exif[0x0112] = 6
    pixels = save(tmp_path / "x.heic", quality=90, exif=exif.tobytes())
    assert {".heic", ".heif"} <= readable_suffixes()
    image = decode(tmp_path / "x.heic", colour="rgb").permute(1, 2, 0)
    upright = np.rot90(pixels, -1)
    assert image.shape == upright.shape
    assert np.abs(image.numpy().astype(int) - upright).mean() < 12


@pytest.mark.skipif(not features.check("avif"), reason="this Pillow has no AVIF")
def test_avif_is_read(tmp_path):
    pixels = save(tmp_path / "x.avif", quality=90)
    assert ".avif" in readable_suffixes()
    image = decode(tmp_path / "x.avif", colour="rgb").permute(1, 2, 0)
    assert np.abs(image.numpy().astype(int) - pixels).mean() < 12


#: The first box of a file; what follows is not looked at.
HEIC = b"\x00\x00\x00\x18ftypheic\x00\x00\x00\x00mif1heic"
AVIF = b"\x00\x00\x00\x18ftypmif1\x00\x00\x00\x00avifmif1"


def test_without_decoders_an_image_names_what_to_install(tmp_path, fresh, monkeypatch):
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    monkeypatch.setattr(formats.features, "check", lambda name: False)
    assert SUFFIXES - readable_suffixes() == {".avif", ".heic", ".heif"}

    def refused(stream):  # as Pillow without these plugins
        raise formats.UnidentifiedImageError

    monkeypatch.setattr(formats.Image, "open", refused)
    for content, words in (
        (HEIC, "install pillow-heif"),
        (AVIF, "install Pillow"),
        (b"text" * 9, "not an image"),
    ):
        (tmp_path / "x.heic").write_bytes(content)
        with pytest.raises(UnreadableImage, match=words):
            decode(tmp_path / "x.heic")


def test_a_damaged_heic_does_not_ask_for_what_is_there(tmp_path):
    pytest.importorskip("pillow_heif")
    (tmp_path / "x.heic").write_bytes(HEIC + b"damaged" * 20)
    with pytest.raises(UnreadableImage) as error:
        decode(tmp_path / "x.heic")
    assert "install" not in str(error.value)


def test_avif_through_an_older_pillow_heif(fresh, monkeypatch):
    registered = []
    module = SimpleNamespace(
        register_heif_opener=lambda: registered.append("heif"),
        register_avif_opener=lambda: registered.append("avif"),
    )
    monkeypatch.setitem(sys.modules, "pillow_heif", module)
    monkeypatch.setattr(formats.features, "check", lambda name: False)
    assert readable_suffixes() == SUFFIXES
    assert registered == ["heif", "avif"]


def test_decode_does_not_wait_for_a_pipe(tmp_path):
    with named_pipe(tmp_path / "pipe.png") as pipe, pytest.raises(UnreadableImage, match="a named pipe"):
        decode(pipe)

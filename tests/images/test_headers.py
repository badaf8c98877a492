"""What headers say, in the words of the checks."""

import numpy as np
import pytest
from PIL import Image

from ddsfl.images.headers import Header
from ddsfl.images.image_list import ImageList
from ddsfl.images.opening import read_header


@pytest.mark.parametrize(
    ("mode", "name", "kind"),
    [
        ("1", "a.png", "gray"),
        ("L", "a.jpg", "gray"),
        ("RGB", "a.jpg", "colour"),
        ("RGBA", "a.png", "alpha"),
        ("LA", "a.png", "alpha"),
        ("P", "a.png", "palette"),
        ("I;16", "a.png", "16 bit"),
        ("CMYK", "a.jpg", "CMYK"),
    ],
)
def test_kinds_of_pixels(tmp_path, mode, name, kind):
    Image.new(mode, (30, 20)).save(tmp_path / name)
    assert read_header(tmp_path / name) == Header(30, 20, kind, animated=False)


def test_a_transparent_palette_is_alpha(tmp_path):
    Image.new("P", (30, 20)).save(tmp_path / "a.png", transparency=0)
    assert read_header(tmp_path / "a.png").kind == "alpha"


def test_animations_but_not_the_previews_of_phones(tmp_path):
    frames = [Image.fromarray(np.full((20, 20, 3), level, np.uint8)) for level in (0, 99)]
    frames[0].save(tmp_path / "a.gif", save_all=True, append_images=frames[1:])
    frames[0].save(tmp_path / "b.jpg", "MPO", save_all=True, append_images=frames[1:])
    frames[0].save(tmp_path / "c.gif")
    assert [read_header(tmp_path / name).animated for name in ("a.gif", "b.jpg", "c.gif")] == [
        True,
        False,
        False,
    ]


def test_files_without_a_header(tmp_path, recwarn):
    (tmp_path / "a.png").write_text("not an image")
    Image.new("1", (10_000, 9_500)).save(tmp_path / "large.png")  # of which Pillow warns
    images = ImageList(
        [tmp_path / "a.png", tmp_path / "missing.png", np.eye(20), str(tmp_path / "large.png")]
    )
    assert [images.header(index) for index in range(3)] == [None] * 3
    assert images.subset([3]).header(0).width == 10_000
    assert not recwarn.list

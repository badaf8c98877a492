"""Predicted costs: what ordinary files may, how threads share memory, and what conversions in bands give."""

import ast
import io
import struct
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from attacks import crafted_images as crafted
from PIL import Image

import ddsfl
from ddsfl.images import opening, pixels
from ddsfl.images.budget import MAX_MEMORY, Cost, Turns
from ddsfl.images.costs import cost_of
from ddsfl.images.decode import UnreadableImage, decode
from ddsfl.images.headers import Header
from ddsfl.images.image_list import ImageList
from ddsfl.images.opening import read_header
from tests.support.pictures import picture


def cost(content):
    return cost_of(io.BytesIO(content), 300)


def progressive(side):
    """The scans of libjpeg: 10 for an image in colour."""
    scans = [([0, 1, 2], 0, 0, 1), ([0], 1, 5, 2), ([2], 1, 63, 1), ([1], 1, 63, 1), ([0], 6, 63, 2)]
    scans += [
        ([0], 1, 63, 0x21),
        ([0, 1, 2], 0, 0, 0x10),
        ([2], 1, 63, 16),
        ([1], 1, 63, 16),
        ([0], 1, 63, 16),
    ]
    return crafted.jpeg(side, side, frame=0xC2, parts=3, scans=scans)


@pytest.mark.parametrize(
    "content",
    [
        crafted.jpeg(8_192, 8_192, parts=3),
        crafted.jpeg(20_000, 20_000, parts=3),
        progressive(8_192),
        crafted.png(8_192, 8_192, kind=2, data=[b""]),
        crafted.png(8_192, 8_192, kind=6, depth=16, data=[b""] * 25_000),
        crafted.tiff(8_192, 8_192, samples=3, data=bytes(99)),
        crafted.tiff(8_192, 8_192, samples=3, compression=8, data=bytes(99)),
        crafted.tiff(8_000, 8_000, bits=32, compression=5, data=bytes(99)),
        crafted.tiff(8_192, 8_192, bits=1, compression=4, data=bytes(99)),
        crafted.webp(5_100, 5_100),
        crafted.jpeg2000(5_000),
        crafted.bmp_of_runs(8_192, bytes(10**6)),
        b"P6 8192 8192 255\n",
        b"P5 8192 8192 65535\n",
        b"P3 1600 1200 255\n",
        b"GIF89a" + struct.pack("<HHBBB", 8_192, 8_192, 0, 0, 0) + b"," + bytes(9),
    ],
    ids=lambda content: repr(content[:6]),
)
def test_large_files_of_ordinary_kinds_are_allowed(content):
    cost(content).check()


def test_costs_grow_with_what_makes_decoding_costly():
    assert cost(progressive(4_000)).memory > cost(crafted.jpeg(4_000, 4_000, parts=3)).memory + 90 * 10**6
    assert cost(crafted.many_scans(4_000, 20)).work > 9 * cost(crafted.many_scans(4_000, 2)).work
    assert cost(crafted.tiff(16, 16, compression=8, tile=9_000)).memory > 81 * 10**6
    assert cost(crafted.tiff(16, 16, compression=1, tile=9_000)).memory < 10**6
    turned = crafted.tiff(4_000, 4_000, samples=3, tags={274: (3, 1, 6)})
    assert cost(turned).memory >= cost(crafted.tiff(4_000, 4_000, samples=3)).memory


def test_scans_are_counted_as_libjpeg_finds_them():
    """Markers in comments are none, and what follows the end of the image is not read."""
    scans = crafted.many_scans(4_000, 30)
    hidden = crafted.segment(0xFE, b"\xff\xda" * 1_000)
    between = scans.replace(b"\xff\xda", hidden + b"\xff\xda").replace(hidden, b"", 1)
    for content in (between, scans + b"\xff\xda" * 1_000):
        assert cost(content).work < 1.1 * cost(scans).work
        cost(content).check()


@pytest.mark.parametrize("size", [(1, 100_000), (200_000, 1), (70_000, 100), (30, 100_000)])
def test_sides_of_scans_cost_nothing(size):
    """Tables count only for sides that no camera and no scanner makes."""
    plain = cost_of(io.BytesIO(crafted.png(*size, kind=6, data=[b""])), 300)
    assert plain.memory == 8 * size[0] * size[1]


def test_long_sides_cost_memory_and_long_lines_work():
    for kind, content in {
        "PNG": crafted.png(5, 2**22, data=[b""]),
        "PPM": b"P5 5 4194304 255\n",
        "TIFF": crafted.tiff(5, 2**22, data=bytes(99)),
    }.items():
        assert cost(content).memory > (32 + 4 * 16) * 2**22, kind
        stretched = cost_of(io.BytesIO(content), 300, 200)
        assert stretched.memory - cost(content).memory == 4 * (200 - 16) * 2**22
    assert cost(b"P6 2000000 10 255\n").work > 3 * cost(b"P6 20000 1000 255\n").work


def test_bytes_of_a_scan_cost_work(tmp_path):
    content = crafted.jpeg(64, 64)[:-2]
    assert cost(content + bytes(10**6)).work - cost(content).work == 8 * 10**6
    # Runs of fill bytes are read again for each block.
    zeros, fill = (cost(content + value * 2**23).work for value in (b"\0", b"\xff"))
    assert fill > 8 * zeros
    assert cost(content + (b"\xff" * 60 + bytes(4)) * 2**17).work < 1.1 * zeros
    assert cost(content + b"\xff" * 2**21).work < zeros


def test_strips_count_as_long_as_they_say():
    """libtiff reads at most ten times the pixels of a strip, and no more than the file has."""
    for order, claimed, counted in ((1, 10**6, 10**6), (1, 2**30, 3 * 10**7), (2, 2**30, 6 * 10**7)):
        tags = {266: (3, 1, order), 279: (4, 1, claimed)}
        content = crafted.tiff(1_000, 1_000, samples=3, compression=8, tags=tags, data=bytes(40 * 10**6))
        decoder = 3 * 10**6 + counted
        assert decoder <= cost(content).memory - 4 * 10**6 <= decoder + 2**21


def test_metadata_of_a_large_png_counts():
    def memory(kind, size, side=2_000):
        return cost(crafted.png(side, side, crafted.chunk(kind, bytes(size)), data=[b""])).memory

    assert memory(b"iTXt", 10**6) == memory(b"eXIf", 10) == 5 * 2_000**2
    assert memory(b"iTXt", 2 * 10**7) == 2_000**2 + (12 + 4) * 2 * 10**7
    assert memory(b"tEXt", 2 * 10**7) == 2_000**2 + (4 + 1) * 2 * 10**7
    assert memory(b"eXIf", 2 * 10**7) == 2_000**2 + (2 + 1) * 2 * 10**7


def test_only_suspicious_files_are_decoded_apart():
    plain = [crafted.jpeg2000(64), crafted.tiff(16, 16, compression=8), crafted.bmp_of_runs(64, b"\1\1")]
    assert not any(cost(content).apart for content in plain)
    assert not any(
        cost(crafted.saved(Image.new("RGB", (64, 64)), kind)).apart for kind in ("jpeg2000", "tiff")
    )
    odd = [
        crafted.jpeg2000(64, precincts=0x55),
        crafted.jpeg2000(64, layers=99),
        crafted.jpeg2000(64, blocks=0),
    ]
    odd += [crafted.tiff(16, 16, compression=7), crafted.tiff(16, 16, compression=34925)]
    odd += [crafted.bmp_of_runs(8_000, b"\1\1")]
    assert all(cost(content).apart for content in odd)


def test_coding_of_a_tile_is_found():
    """Tiles may have a coding of their own."""
    data = crafted.jpeg2000(64)
    coding = data[data.index(b"\xff\x52") :][: 2 + 12]
    start = data.index(b"\xff\x90")
    size = struct.unpack(">I", data[start + 6 : start + 10])[0] + len(coding)
    tile = data[start : start + 6] + struct.pack(">I", size) + data[start + 10 : start + 12] + coding
    assert not cost(data).apart
    assert cost(data[:start] + tile + data[start + 12 :]).apart


def test_a_repeated_name_of_components_is_that_of_the_next():
    content = crafted.jpeg(640, 480, parts=3)
    frame, scan = content.index(b"\xff\xc0"), content.index(b"\xff\xda")
    renamed = bytearray(content)
    for at in (frame + 10, frame + 13, frame + 16, scan + 5, scan + 7, scan + 9):
        renamed[at] = 1
    assert cost(bytes(renamed)) == cost(content)


def test_every_image_is_opened_with_a_list_of_formats():
    calls = [
        (path.name, call)
        for path in Path(ddsfl.__file__).parent.rglob("*.py")
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "Image.open"
    ]
    assert len(calls) >= 2
    assert [name for name, call in calls if "formats" not in [word.arg for word in call.keywords]] == []


def test_turns_are_taken():
    turns, order = Turns(1_000), []

    def use(name, memory):
        with turns.take(memory):
            order.append(name)

    with turns.take(700):
        large = threading.Thread(target=use, args=("large", 400))
        large.start()
        use("small", 300)
        use("tiny", 5)
        large.join(0.05)
        assert order == ["small", "tiny"]
    large.join()
    assert order == ["small", "tiny", "large"]
    use("more than there is", 5_000)
    assert turns.left == 1_000


def test_memory_is_given_back_after_an_error():
    turns = Turns(1_000)
    with pytest.raises(KeyError), turns.take(900):
        raise KeyError
    assert turns.left == 1_000


def test_threads_decode_large_images_in_turns(tmp_path, monkeypatch):
    """Four images of 200 MB each do not fit into 512 MB at once."""
    for number in range(4):
        (tmp_path / f"{number}.png").write_bytes(crafted.png(6_000, 4_200, kind=2, data=[b""]))
    assert MAX_MEMORY / 3 < cost((tmp_path / "0.png").read_bytes()).memory < MAX_MEMORY / 2
    now, most = [], []

    def slow(stream, *arguments):
        now.append(stream)
        most.append(len(now))
        time.sleep(0.05)
        now.remove(stream)
        return Image.new("L", (20, 20))

    monkeypatch.setattr(opening, "pixels_of", slow)
    monkeypatch.setattr("ddsfl.images.image_list.THREADS", 4)
    assert ImageList(sorted(tmp_path.iterdir())).read_all() == []
    assert max(most) == 2


@pytest.mark.parametrize("colour", ["gray", "rgb"])
@pytest.mark.parametrize(
    "mode", ["1", "L", "LA", "P", "PA", "RGB", "RGBA", "CMYK", "YCbCr", "HSV", "LAB", "I", "F"]
)
def test_bands_give_the_same_image(monkeypatch, mode, colour):
    image = Image.fromarray(picture(61, 47))
    if mode == "LAB":
        image = Image.merge("LAB", image.split())
    elif mode in ("RGBA", "LA", "PA"):
        image.putalpha(Image.fromarray(picture(61, 47, seed=1, channels=1)))
        image = image.convert(mode)
    else:
        image = image.convert(mode)
    expected = decode(image, colour=colour)
    for band in (47 * 7,) if mode == "LAB" else (47 * 7, 40):  # lines together, and parts of a line
        monkeypatch.setattr(pixels, "_BAND", band)
        assert torch.equal(decode(image, colour=colour), expected)


@pytest.mark.parametrize("size", [(47, 61), (700, 3), (1, 999)])
def test_bands_are_small_and_cover_the_image_once(monkeypatch, size):
    monkeypatch.setattr(pixels, "_BAND", 100)
    seen = np.zeros(size[::-1], int)
    for left, top, right, bottom in pixels._bands(Image.new("L", size)):
        assert (right - left) * (bottom - top) <= 100
        seen[top:bottom, left:right] += 1
    assert (seen == 1).all()


def test_levels_are_those_of_the_entire_image(monkeypatch):
    levels = np.zeros((60, 40), np.float32)
    levels[50] = 200  # only the last band tells that levels reach to 255
    levels[3] = 1
    expected = decode(Image.fromarray(levels))
    assert expected[0, 3].unique().tolist() == [1]
    monkeypatch.setattr(pixels, "_BAND", 400)
    assert torch.equal(decode(Image.fromarray(levels)), expected)
    levels[55] = np.nan
    with pytest.raises(UnreadableImage, match="nan"):
        decode(Image.fromarray(levels))


def test_headers_are_read_within_the_same_bounds(tmp_path):
    for name, content in {
        "canvas.webp": crafted.webp(16_383, 16_383),
        "exif.jpg": crafted.jpeg(64, 64, before=crafted.segment(0xE1, crafted.exif_bomb())),
        "ps.png": b"%!PS-Adobe-3.0 EPSF-3.0\n",
        "text.png": crafted.png(64, 64, crafted.chunk(b"iTXt", bytes(5 * 10**7))),
        "chunks.png": crafted.png(64, 64, crafted.chunk(b"abCd", b"") * 220_000),
        "boxes.jp2": crafted.jp2_of_boxes(300_000),
    }.items():
        (tmp_path / name).write_bytes(content)
        assert read_header(tmp_path / name) is None, name
    (tmp_path / "large.png").write_bytes(crafted.png(9_000, 9_000, kind=2, data=[b""]))
    assert read_header(tmp_path / "large.png") == Header(9_000, 9_000, "colour", animated=False)


def test_a_gif_is_searched_for_a_second_frame_only_as_far_as_ordinary_ones_reach(tmp_path):
    path = tmp_path / "a.gif"
    blocks = {10: True, 3 * 2**20: False}
    for count, animated in blocks.items():
        frame = crafted.gif(16)[:-2] + b"\1\0" * count + b"\0"
        later = crafted.gif(16, frames=2)[len(crafted.gif(16)) - 1 :]
        path.write_bytes(frame + later)
        assert read_header(path).animated is animated


def test_the_reason_names_pixels_memory_or_work():
    for given, words in (
        ({"decoded": 2**27}, "pixels are more than the 67 million"),
        ({"memory": 2**30}, "1024 MB of memory; 512 MB are allowed"),
        ({"work": 2**40}, "more work than is allowed"),
    ):
        with pytest.raises(UnreadableImage, match=words):
            Cost("PNG", 10, 20, **{"decoded": 200, "memory": 800, **given}).check()

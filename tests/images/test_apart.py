"""Files whose cost cannot be predicted are decoded in another process, with limits."""

import io
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from attacks import crafted_images as crafted
from attacks import image_holes as holes
from PIL import Image, features

import ddsfl
from ddsfl.images import apart, opening
from ddsfl.images.budget import Cost
from ddsfl.images.costs import cost_of
from ddsfl.images.decode import UnreadableImage, decode, upright_shape
from ddsfl.images.headers import Header, header_of
from ddsfl.images.opening import read_header
from ddsfl.images.pixels import pixels_of
from tests.support.pictures import picture

limited = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits are kept on Linux")


@pytest.fixture
def helpers(monkeypatch):
    """Helpers of this test alone, which end with it."""
    own = apart._Helpers()
    monkeypatch.setattr(apart, "_HELPERS", own)
    yield own
    for helper in own._idle:
        helper.end()


def soft(height=90, width=120):
    return Image.fromarray(picture(height // 10, width // 10)).resize(
        (width, height), Image.Resampling.BICUBIC
    )


def files():
    image = soft()
    yield crafted.saved(image, "tiff", compression="jpeg")
    yield crafted.saved(image.convert("RGBA"), "tiff", compression="lzma")
    yield crafted.saved(image, "jpeg2000", precinct_size=(64, 64))
    if features.check("avif"):
        yield crafted.saved(image, "avif", exif=crafted_exif())


def crafted_exif():
    exif = Image.Exif()
    exif[0x0112] = 6
    return exif


@pytest.mark.parametrize("colour", ["gray", "rgb"])
def test_the_image_is_the_same(tmp_path, helpers, colour):
    for number, content in enumerate(files()):
        cost = cost_of(io.BytesIO(content), 60)
        assert cost.apart
        here = np.array(pixels_of(io.BytesIO(content), cost.format, colour, 60, 16))
        channels = here[None] if here.ndim == 2 else np.moveaxis(here, -1, 0)
        path = tmp_path / f"{number}.png"
        path.write_bytes(content)
        assert torch.equal(decode(path, colour=colour, max_side=60), torch.from_numpy(channels.copy()))
        assert torch.equal(decode(content, colour=colour, max_side=60), torch.from_numpy(channels.copy()))
        assert upright_shape(path) == ((120, 90) if cost.format == "HEIF" else (90, 120))
        assert read_header(path) == header_of(io.BytesIO(content), cost.format)
    assert isinstance(read_header(path), Header)
    assert len(helpers._idle) == 1  # one process did it all


def test_a_damaged_file_is_refused_with_the_reason_of_the_other_process(helpers):
    content = crafted.saved(soft(), "tiff", compression="jpeg")
    at = content.index(b"\xff\xd8")
    with pytest.raises(UnreadableImage, match="decoder error"):
        decode(content[:at] + bytes(100) + content[at + 100 :])
    assert decode(content).shape == (1, 90, 120)


@limited
def test_more_memory_than_predicted_is_not_given(helpers):
    content = crafted.saved(Image.new("RGB", (3_000, 3_000)), "tiff", compression="jpeg")
    cost = cost_of(io.BytesIO(content), 300)
    options = {"colour": "rgb", "max_side": 300, "min_side": 16}
    with pytest.raises(UnreadableImage, match=r"memory|decoder error"):
        apart.pixels_apart(io.BytesIO(content), cost._replace(memory=2**24), **options)
    assert apart.pixels_apart(io.BytesIO(content), cost, **options).size == (300, 300)


def with_hole(path, content, size):
    """A file with a box that is a hole behind it."""
    holes.write(path, holes.with_long_avif(size, content))
    return path


@limited
@pytest.mark.skipif(not features.check("avif"), reason="no AVIF")
def test_what_a_file_may_take_does_not_depend_on_the_file_before(tmp_path, helpers):
    small = crafted.saved(soft(), "avif")
    large = with_hole(tmp_path / "a.avif", small, 150_000_000)
    expected = decode(small)
    for _ in range(2):
        assert torch.equal(decode(large), expected)
        assert torch.equal(decode(small), expected)
    assert len(helpers._idle) == 1


@limited
def test_a_process_limits_itself_before_it_reads_a_file(helpers):
    request = {"task": "shape", "format": "PNG", "memory": 2**23, "seconds": 5, "options": {}}
    with pytest.raises((EOFError, OSError)):
        helpers.ask(request, io.BytesIO(bytes(2**26)), 2**26)
    assert helpers.ask({**request, "memory": 2**28}, io.BytesIO(bytes(2**26)), 2**26)[0]["reason"]


def test_a_file_that_does_not_fit_is_not_read(tmp_path, monkeypatch):
    def started(*arguments, **options):
        raise AssertionError("a process was started")

    monkeypatch.setattr(apart, "_HELPERS", apart._Helpers())
    monkeypatch.setattr(apart.subprocess, "Popen", started)
    for content in (crafted.tiff(64, 64, compression=7), crafted.jpeg2000(64, precincts=0x55)):
        path = with_hole(tmp_path / "a", content, 2**29)
        cost = cost_of(path.open("rb"), 300)
        assert cost.apart
        with path.open("rb") as stream, pytest.raises(UnreadableImage, match="512 MB takes too much memory"):
            apart.ask_apart("header", stream, cost)
        with pytest.raises(UnreadableImage, match="MB are allowed"):
            decode(path)
        assert read_header(path) is None


def test_a_file_is_sent_in_blocks(helpers, monkeypatch):
    content = next(files())
    expected = decode(content)
    monkeypatch.setattr(apart, "_BLOCK", 100)
    assert torch.equal(decode(content), expected)


def slow_file():
    """A large BMP of short runs, whose lines Pillow fills pixel by pixel for many seconds."""
    return crafted.bmp_of_runs(8_000, b"\1\1\0\0" * 8_000)


@limited
def test_more_time_is_not_given(helpers, monkeypatch):
    monkeypatch.setattr(apart, "MAX_SECONDS", 1)
    with pytest.raises(UnreadableImage, match="was stopped"):
        decode(slow_file())
    assert helpers._idle == []


def test_the_clock_ends_what_nothing_else_ends(helpers, monkeypatch):
    monkeypatch.setattr(apart, "_CLOCK", 0.5)
    with pytest.raises(UnreadableImage, match="was stopped"):
        decode(slow_file())
    monkeypatch.setattr(apart, "_CLOCK", 60)
    assert decode(next(files())).shape == (1, 90, 120)


def test_a_process_that_died_is_replaced(helpers):
    content = next(files())
    expected = decode(content)
    helpers._idle[0]._process.kill()
    helpers._idle[0]._process.wait()
    with pytest.raises(UnreadableImage, match="was stopped"):
        decode(content)
    assert torch.equal(decode(content), expected)


def test_an_interruption_ends_the_process(helpers, monkeypatch):
    decode(next(files()))
    process = helpers._idle[0]._process

    def interrupted(stream, count):
        raise KeyboardInterrupt

    monkeypatch.setattr(apart, "_read", interrupted)
    with pytest.raises(KeyboardInterrupt):
        decode(next(files()))
    assert process.poll() is not None
    assert helpers._idle == []


def test_without_standard_input_and_from_another_folder(tmp_path):
    (tmp_path / "a.tif").write_bytes(next(files()))
    code = "from ddsfl.images.opening import read_pixels; from ddsfl.images import apart"
    code += "; print(read_pixels(open('a.tif', 'rb'), 'gray', 300, 16).size)"
    code += "; print(apart._HELPERS._idle[0]._process.pid)"
    source = os.path.relpath(Path(ddsfl.__file__).parents[1], tmp_path)
    done = subprocess.run(
        ["sh", "-c", 'exec "$0" -c "$1" <&-', sys.executable, code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": source},
        capture_output=True,
        text=True,
        check=True,
    )
    shape, process = done.stdout.splitlines()
    assert shape == "(120, 90)"
    assert done.stderr == ""
    assert has_ended(int(process))


def has_ended(process):
    """Return whether a process ends soon: after its parent it needs a moment to notice and to clean up."""
    for _ in range(200):
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return True
        state = Path(f"/proc/{process}/stat")
        if state.exists() and state.read_text().rpartition(")")[2].split()[0] == "Z":
            return True
        time.sleep(0.05)
    return False


def test_the_other_process_needs_no_torch(helpers):
    decode(next(files()))
    maps = Path(f"/proc/{helpers._idle[0]._process.pid}/maps")
    if not maps.exists():
        pytest.skip("libraries of a process are seen on Linux only")
    assert "torch" not in maps.read_text()


def test_a_refused_cost_starts_nothing(monkeypatch):
    def started(*arguments, **options):
        raise AssertionError("a process was started")

    monkeypatch.setattr(apart, "_HELPERS", apart._Helpers())
    monkeypatch.setattr(apart.subprocess, "Popen", started)
    monkeypatch.setattr(
        opening, "cost_of", lambda *arguments: Cost("HEIF", 9, 9, 81, memory=2**40, apart=True)
    )
    with pytest.raises(UnreadableImage, match="MB of memory"):
        decode(b"x")

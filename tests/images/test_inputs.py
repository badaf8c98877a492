"""Lists of images in every form, and one image, which is no list."""

import io
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from ddsfl.images.decode import decode
from ddsfl.images.image_list import ImageList, UnreadableImage
from ddsfl.images.inputs import list_of_images
from tests.support.pictures import picture

GRAY = [picture(seed=seed, channels=1) for seed in range(5)]
COLOUR = [picture(seed=seed) for seed in range(5)]


def encoded(image, suffix="png"):
    stream = io.BytesIO()
    Image.fromarray(image).save(stream, suffix)
    return stream.getvalue()


def decoded(X, **options):
    return [image.numpy() for image in ImageList(X, **options)]


def same(X, expected):
    for options in ({"colour": "rgb"}, {"colour": "gray", "cache_bytes": 0}):
        images, arrays = ImageList(X, **options), ImageList(expected, **options)
        for _ in range(2):  # nothing is used up
            assert len(images) == len(arrays)
            assert all(torch.equal(one, other) for one, other in zip(images, arrays))


def forms_of_one():
    rgb, gray = COLOUR[0], GRAY[0]
    opaque = np.dstack([rgb, np.full(rgb.shape[:2], 255, np.uint8)])
    return {
        "bytes": (encoded(rgb), rgb),
        "bytearray": (bytearray(encoded(rgb)), rgb),
        "memoryview": (memoryview(encoded(rgb)), rgb),
        "file": (io.BytesIO(encoded(rgb)), rgb),
        "PIL": (Image.fromarray(rgb), rgb),
        "(H, W)": (gray, gray),
        "(H, W, 1)": (gray[:, :, None], gray),
        "(H, W, 3)": (rgb, rgb),
        "(H, W, 4)": (opaque, rgb),
        "uint16 (H, W, 4)": (opaque.astype(np.uint16) * 257, rgb),
        "floats (H, W, 4)": (opaque / 255, rgb),
        "bool": (gray > 99, np.where(gray > 99, 255, 0).astype(np.uint8)),
        "tensor (H, W)": (torch.from_numpy(gray), gray),
        "tensor (1, H, W)": (torch.from_numpy(gray)[None], gray),
        "tensor (3, H, W)": (torch.from_numpy(rgb).permute(2, 0, 1), rgb),
        "tensor (4, H, W)": (torch.from_numpy(opaque).permute(2, 0, 1), rgb),
        "tensor of floats": ((torch.from_numpy(rgb).permute(2, 0, 1) / 255).requires_grad_(), rgb),
        "bfloat16": (torch.ones(20, 30, dtype=torch.bfloat16), np.full((20, 30), 255, np.uint8)),
    }


@pytest.mark.parametrize("form", forms_of_one())
def test_one_image_is_decoded_in_every_form_but_is_no_list(form):
    given, expected = forms_of_one()[form]
    for colour in ("gray", "lab", "rgb"):
        assert torch.equal(decode(given, colour=colour), decode(expected, colour=colour))
    same([given, given], [expected, expected])
    same((given,), [expected])
    with pytest.raises(ValueError, match=r"X is one image .*; expected a list of images: \[X\]\.$"):
        list_of_images(given)
    with pytest.raises(ValueError, match=r"sources is one image .*: \[sources\]"):
        ImageList(given)


@pytest.mark.cuda
def test_tensors_on_a_gpu():
    same([torch.from_numpy(COLOUR[0]).permute(2, 0, 1).cuda()], COLOUR[:1])


def test_transparent_pixels_of_an_array_become_white():
    image = np.zeros((20, 30, 4), np.uint8)
    image[:10, :, 3] = 255
    assert np.unique(decode(image)[0, :10]).tolist() == [0]
    assert np.unique(decode(image)[0, 10:]).tolist() == [255]


@pytest.mark.parametrize("path", ["photo.jpg", Path("photo.jpg")])
def test_one_path_is_no_list(path):
    with pytest.raises(ValueError, match=r"X is one image \('photo.jpg'\); expected a list of images: \[X\]"):
        list_of_images(path)


@pytest.mark.parametrize("one", [torch.zeros(20, 30, 3), torch.zeros(20, 30, 1), np.zeros((150, 200, 4))])
def test_pixels_with_channels_are_one_image_wherever_the_channels_are(one):
    with pytest.raises(ValueError, match="X is one image"):
        list_of_images(one)


def test_stacks_of_images_are_lists():
    same(np.stack(GRAY), GRAY)
    same(np.stack(COLOUR), COLOUR)
    same(np.stack(GRAY) / 255, GRAY)
    same(np.stack(GRAY[:3]), GRAY[:3])  # of arrays the channels come last
    same(np.stack(GRAY)[..., None], GRAY)
    same(torch.from_numpy(np.stack(COLOUR)).permute(0, 3, 1, 2), COLOUR)
    same(torch.from_numpy(np.stack(GRAY)), GRAY)
    same(torch.from_numpy(np.stack(GRAY))[:, None], GRAY)


def test_paths_in_every_container(tmp_path):
    paths = [tmp_path / f"{number}.png" for number in range(5)]
    for path, image in zip(paths, COLOUR):
        Image.fromarray(image).save(path)
    names = [str(path) for path in paths]
    column = np.empty(5, dtype=object)
    column[:] = paths
    for X in (
        paths, names, tuple(paths), np.array(names), np.array(names)[:, None], column, column[:, None],
        dict(enumerate(names)).values(),
    ):  # fmt: skip
        same(X, COLOUR)
    assert list_of_images(np.array(names)) == names
    same([path.open("rb") for path in paths], COLOUR)
    for X in (iter(paths), (path for path in paths), map(str, paths)):
        assert [np.array_equal(a, b) for a, b in zip(decoded(X), decoded(COLOUR))] == [True] * 5


def test_columns_of_data_frames(tmp_path):
    pandas = pytest.importorskip("pandas")
    Image.fromarray(COLOUR[0]).save(tmp_path / "a.png")
    series = pandas.Series([str(tmp_path / "a.png")] * 2, index=[7, 3], name="path")
    same(series, [COLOUR[0]] * 2)
    same(series.to_frame(), [COLOUR[0]] * 2)
    same(pandas.Series(GRAY), GRAY)
    with pytest.raises(ValueError, match=r"X has 2 columns \(path, label\); expected one column of images"):
        list_of_images(pandas.DataFrame({"path": ["a"], "label": ["b"]}))
    with pytest.raises(
        ValueError, match=r"image 1 \(given as float\) cannot be read: expected a path, a file"
    ):
        ImageList(pandas.Series([str(tmp_path / "a.png"), None, float("nan")])[[0, 2]]).fingerprint()


class Unseekable(io.RawIOBase):
    """A stream such as a pipe."""

    def __init__(self, contents):
        self.contents = contents

    def read(self, size=-1):
        contents, self.contents = self.contents, b""
        return contents


def test_files_are_read_once_and_from_their_start(tmp_path):
    stream = io.BytesIO(encoded(COLOUR[0]))
    stream.read()
    images = ImageList([stream, Unseekable(encoded(COLOUR[1]))], colour="rgb", cache_bytes=0)
    stream.close()
    for _ in range(2):
        assert [torch.equal(a, b) for a, b in zip(images, ImageList(COLOUR[:2], colour="rgb"))] == [
            True,
            True,
        ]
    again = io.BytesIO(encoded(COLOUR[0]))
    assert torch.equal(decode(again), decode(again))


def test_files_that_give_no_bytes_are_named(tmp_path):
    (tmp_path / "a.txt").write_text("text")
    with (
        (tmp_path / "a.txt").open() as text,
        pytest.raises(UnreadableImage, match=r"a\.txt .*opened as text"),
    ):
        decode(text)
    with pytest.raises(
        UnreadableImage, match=r"image 1 .given as StringIO. cannot .* expected a file opened"
    ):
        ImageList([COLOUR[0], io.StringIO("text")])
    closed = io.BytesIO(b"")
    closed.close()
    with pytest.raises(UnreadableImage, match="closed file"):
        decode(closed)
    with pytest.raises(UnreadableImage, match="not an image of a known format"):
        decode(b"GIF")


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (None, "X has type NoneType; expected a list of images"),
        (3, "X has type int"),
        ({"a": 1}, "X has type dict"),
        ({"a.png", "b.png"}, "X has type set"),
        (np.zeros(5), r"X has shape \(5,\) and dtype float64; expected a list of images"),
        (np.zeros((2, 2, 2, 2, 3)), r"X has shape \(2, 2, 2, 2, 3\)"),
        (np.array([["a", "b"]]), r"X has shape \(1, 2\)"),
        (torch.zeros(()), r"X has shape \(\)"),
    ],
)
def test_what_is_no_list_of_images_is_named(X, message):
    with pytest.raises(ValueError, match=message):
        list_of_images(X)


def test_an_unreadable_image_without_a_name_is_numbered():
    images = ImageList([*GRAY, np.full((20, 20), 7.0)])
    for read in (images.fingerprint, lambda: images[5], images.subset([5]).fingerprint):
        with pytest.raises(
            UnreadableImage, match=r"image 5 \(given as ndarray\) cannot be read: floats must"
        ):
            read()
    assert str(images.read_all()[0]).startswith("image 5 (given as ndarray)")


def test_an_image_list_gives_its_sources_to_another():
    images = ImageList(COLOUR, colour="lab")
    assert torch.equal(ImageList(images, colour="rgb")[0], decode(COLOUR[0], colour="rgb"))


def test_image_lists_take_indices_as_arrays_do():
    images = ImageList(COLOUR, colour="lab")
    mask = np.array([True, False, True, False, False])
    for index in ([0, 2], np.array([0, 2]), mask, mask.tolist(), (np.array([0, 2]), ...), slice(0, 3, 2)):
        part = images[index]
        assert isinstance(part, ImageList)
        assert [source is COLOUR[at] for source, at in zip(part.sources, (0, 2))] == [True, True]
        assert len(part) == 2
    assert images[[]].sources == []
    assert torch.equal(images[np.int64(1)], images[1])
    assert images.shape == (5,)

"""Lists of images in all forms, and what is not a list of images."""

import numpy as np
import pytest
import torch
from PIL import Image

from ddsfl.images.image_list import ImageList
from ddsfl.patches.given import images_given
from tests.support.pictures import picture

PIXELS = torch.from_numpy(picture(channels=1))[None]


def test_all_forms_of_images_are_decoded(tmp_path):
    array = picture(channels=1)
    Image.fromarray(array).save(tmp_path / "a.png")
    forms = [array, Image.fromarray(array), tmp_path / "a.png", str(tmp_path / "a.png")]
    for given in (
        images_given(forms, 16),
        images_given(np.stack([array] * 3), 16),
        images_given(iter(forms), 16),
    ):
        assert isinstance(given, ImageList)
        assert all(torch.equal(image, PIXELS) for image in given)
    assert images_given([array[:5]], 16)[0].shape == (1, 16, 53)
    [path] = images_given(np.array([str(tmp_path / "a.png")]), 16)
    assert torch.equal(path, PIXELS)


def test_tensors_and_image_lists_are_used_unchanged():
    tensors = [PIXELS, PIXELS[:, :20]]
    assert images_given(tensors, 64) == tensors
    assert len(images_given(torch.stack([PIXELS, PIXELS]), 16)) == 2
    listed = ImageList([picture()], colour="lab", min_side=2)
    assert images_given(listed, 64) is listed


@pytest.mark.parametrize(
    ("images", "message"),
    [
        ([], "images is empty"),
        (ImageList([]), "images is empty"),
        (picture(), r"one image \(an array of shape \(37, 53, 3\)\)"),
        (picture(channels=1), r"one image \(an array of shape \(37, 53\)\)"),
        (PIXELS, r"one image \(a tensor of shape \(1, 37, 53\)\)"),
        (Image.fromarray(picture()), r"one image \(of type Image\)"),
        ("a.jpg", r"one image \('a.jpg'\); expected a list of images: \[images\]"),
        (b"\xff\xd8", r"one image \(of type bytes\)"),
        (None, "images has type NoneType; expected a list of images"),
        ({"a.jpg": 1}, "images has type dict; expected a list of images"),
    ],
)
def test_what_is_not_a_list_of_images_is_named(images, message):
    with pytest.raises(ValueError, match=message):
        images_given(images, 16)

"""Evidence of image files of all kinds, and of models from files."""

import io

import numpy as np
import pytest
import torch
from PIL import Image

from ddsfl.images.decode import decode, upright_shape
from ddsfl.images.image_list import ImageList
from ddsfl.model.classifier import SceneClassifier
from ddsfl.model.file import ModelFileError, read_model, write_model
from tests.support.explained import explained
from tests.support.models import IMAGES
from tests.support.pictures import picture

TURNED = [
    (kind, number)
    for kind in ("JPEG", "PNG", "TIFF", "WEBP")
    for number in (None, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9)
]


def saved(pixels, kind, orientation=None):
    """An image file of a kind whose header says how to turn it."""
    exif, stream = Image.Exif(), io.BytesIO()
    if orientation is not None:
        exif[0x0112] = orientation
    Image.fromarray(pixels).save(stream, format=kind, exif=exif)
    return stream.getvalue()


@pytest.mark.parametrize(("kind", "orientation"), TURNED)
def test_the_shape_of_a_turned_file_is_that_of_its_decoded_pixels(kind, orientation, tmp_path):
    content = saved(picture(37, 53), kind, orientation)
    (tmp_path / "a").write_bytes(content)
    expected = (53, 37) if orientation in (5, 6, 7, 8) else (37, 53)
    for source in (content, bytearray(content), io.BytesIO(content), tmp_path / "a", str(tmp_path / "a")):
        assert tuple(decode(source).shape[1:]) == upright_shape(source) == expected
    with Image.open(tmp_path / "a") as opened:
        assert upright_shape(opened) == expected
        decode(opened)
        assert upright_shape(opened) == expected  # once more, now that it is loaded


@pytest.mark.parametrize(
    ("source", "shape"),
    [
        (np.zeros((7, 9)), (7, 9)),
        (np.zeros((7, 9, 1), np.uint8), (7, 9)),
        (np.zeros((700, 9, 4), np.uint8), (700, 9)),
        (torch.zeros(3, 20, 31), (20, 31)),
        (torch.zeros(20, 31, dtype=torch.uint8), (20, 31)),
        (Image.new("RGB", (31, 20)), (20, 31)),
        (Image.new("I;16", (31, 20)), (20, 31)),
        (saved(picture(900, 40), "JPEG"), (900, 40)),
    ],
)
def test_shapes_of_arrays_tensors_and_pictures_are_those_given(source, shape):
    assert upright_shape(source) == shape
    assert ImageList([np.zeros((3, 3), np.uint8), source]).given_shape(1) == shape
    assert ImageList([source, np.zeros((3, 3), np.uint8)])[[1, 0]].given_shape(1) == shape


@pytest.mark.parametrize(("kind", "orientation"), [("JPEG", 6), ("TIFF", 8), ("PNG", 3), ("JPEG", 5)])
def test_maps_lie_over_the_upright_image(kind, orientation, tmp_path):
    """A turned file is explained as the upright array is: the same map, up to what its format loses."""
    model = explained("llc max")
    upright = np.repeat(np.repeat(IMAGES[3][:, :41], 2, axis=0), 2, axis=1)
    turns = {6: Image.Transpose.ROTATE_90, 8: Image.Transpose.ROTATE_270, 3: Image.Transpose.ROTATE_180}
    turn = turns.get(orientation, Image.Transpose.TRANSPOSE)
    stored = np.asarray(Image.fromarray(upright).transpose(turn))
    (tmp_path / "turned").write_bytes(saved(stored, kind, orientation))
    (tmp_path / "upright").write_bytes(saved(upright, kind))
    turned, plain = model.explain(
        [tmp_path / "turned", tmp_path / "upright"], classes=model.classes_.tolist()
    )
    assert turned.shape == plain.shape == upright.shape
    for name in turned.classes:
        assert turned.map(name).shape == upright.shape
        assert turned.scores[name] == pytest.approx(plain.scores[name], abs=0.2 if kind == "JPEG" else 1e-4)
        if kind != "JPEG":
            np.testing.assert_allclose(turned.map(name), plain.map(name), atol=1e-5)
        for boxed in turned.top(5, name):
            assert boxed.box[2] <= upright.shape[0]
            assert boxed.box[3] <= upright.shape[1]


@pytest.mark.parametrize(
    "image",
    [
        picture(9, 40),  # stretched to hold a field
        picture(2, 2),
        picture(620, 411),  # larger than max_side
        picture(50, 33).astype(np.float64) / 255,
        (picture(50, 33, channels=1).astype(np.uint16) * 257),
        Image.fromarray(picture(33, 50, channels=1)).convert("I"),
        torch.from_numpy(picture(33, 50)).movedim(2, 0),
    ],
)
def test_maps_have_the_shape_of_the_image_as_given(image):
    model = explained("every grid")
    [evidence] = model.explain([image])
    assert evidence.shape == upright_shape(image)
    scores = model.decision_function([image])[0]
    for name in evidence.classes:
        total = evidence.start(name) + evidence.map(name).sum()
        assert total == pytest.approx(scores[model.classes_.tolist().index(name)], abs=1e-5)


def test_heat_lies_where_the_descriptor_that_caused_it_lies():
    """An image that is blank but for one corner: the word that only this corner has speaks there."""
    model = explained("vq max")
    blank = np.full((120, 90), 128, np.uint8)
    blank[80:, 50:] = np.tile(IMAGES[0], (1, 1))[:40, :40]
    [evidence] = model.explain([blank])
    flat = np.full((120, 90), 128, np.uint8)
    [empty] = model.explain([flat], classes=evidence.classes)
    name = evidence.classes[0]
    change = np.abs(evidence.map(name, relative=False) - empty.map(name, relative=False))
    assert change[60:, 30:].sum() > 0.5 * change.sum()


def test_saving_and_loading_keep_the_average_exactly(tmp_path):
    for name in ("layers", "unplaced"):
        model = explained(name)
        model.save(tmp_path / "m")
        loaded = SceneClassifier.load(tmp_path / "m", device="cpu")
        for kind in ("cells", "words"):
            here, there = getattr(model.average_, kind), getattr(loaded.average_, kind)
            assert here.keys() == there.keys()
            for block, table in here.items():
                assert table.dtype == np.float64
                np.testing.assert_array_equal(there[block], table)
        [before], [after] = model.explain(IMAGES[:1]), loaded.explain(IMAGES[:1])
        assert before.classes == after.classes
        for label in before.classes:
            np.testing.assert_array_equal(before.map(label), after.map(label))
            assert before.start(label) == after.start(label)
        loaded.save(tmp_path / "again")
        assert (tmp_path / "again").read_bytes() == (tmp_path / "m").read_bytes()


def test_models_saved_before_there_were_averages_have_raw_maps(tmp_path):
    model = explained("fisher")
    model.save(tmp_path / "m")
    tensors, header = read_model(tmp_path / "m")
    older = {name: array for name, array in tensors.items() if not name.startswith("average.")}
    assert len(older) == len(tensors) - 2
    write_model(tmp_path / "old", older, header)
    loaded = SceneClassifier.load(tmp_path / "old", device="cpu")
    assert loaded.average_ is None
    [here], [evidence] = model.explain(IMAGES[:1]), loaded.explain(IMAGES[:1])
    name = evidence.classes[0]
    assert not evidence.has_average
    np.testing.assert_array_equal(evidence.map(name, relative=False), here.map(name, relative=False))
    total = evidence.start(name, relative=False) + evidence.map(name, relative=False).sum()
    assert total == pytest.approx(evidence.scores[name], abs=1e-5)
    assert evidence.top(2)
    assert evidence.words(2)
    with pytest.raises(
        ValueError, match=r"lacks: an older ddsfl saved it\. Expected relative=False, or a model"
    ):
        evidence.map(name)
    loaded.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "old").read_bytes()


def test_a_model_file_with_a_part_of_its_averages_is_incomplete(tmp_path):
    explained("layers").save(tmp_path / "m")
    tensors, header = read_model(tmp_path / "m")
    del tensors["average.cells.layer2"]
    write_model(tmp_path / "m", tensors, header)
    with pytest.raises(ModelFileError, match=r"is incomplete: 'average\.cells\.layer2' is missing"):
        SceneClassifier.load(tmp_path / "m")


def test_the_model_of_the_first_release_can_be_explained():
    from pathlib import Path

    path = Path(__file__).parents[1] / "model" / "saved-by-0.1.0.safetensors"
    model = SceneClassifier.load(path, device="cpu")
    scores = model.scores_by_class(model.decision_function(IMAGES[:2]))
    for evidence, row in zip(model.explain(IMAGES[:2]), scores, strict=True):
        name = evidence.classes[0]
        total = evidence.start(name, relative=False) + evidence.map(name, relative=False).sum()
        assert total + evidence.unplaced(name, relative=False) == pytest.approx(row.max(), abs=1e-5)
        assert not evidence.has_average

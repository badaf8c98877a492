import numpy as np
from PIL import Image

from ddsfl.experiments.filters import FIGURE, draw_side_by_side, learn_filters
from ddsfl.experiments.grid import pixels_of
from ddsfl.experiments.methods import method
from ddsfl.model.classifier import SceneClassifier


def test_filters_are_those_of_the_cell_of_the_first_split(scenes):
    grid = scenes(*FIGURE.values(), seed=5)
    image_set, (split,) = grid.read()
    pictures = []
    for name in FIGURE.values():
        settings = method(name)
        images = pixels_of(settings, image_set.paths)
        model = SceneClassifier(settings, device="cpu", random_state=5)
        model.fit(images.subset(split.train), [image_set.labels[index] for index in split.train])
        pictures.append(learn_filters(grid, name))
        np.testing.assert_array_equal(pictures[-1], model.stack_.pixel_filters_[0])
    assert not np.allclose(*pictures)


def test_mosaics_are_side_by_side(tmp_path):
    rng = np.random.default_rng(0)
    one, three = rng.normal(size=(6, 1, 8, 8)), rng.normal(size=(12, 3, 8, 8))
    for name, pictures in (("one", {"a": one}), ("three", {"b": three}), ("both", {"a": one, "b": three})):
        draw_side_by_side(tmp_path / f"{name}.png", pictures)
    one, three, both = (
        np.asarray(Image.open(tmp_path / f"{name}.png").convert("RGB")) for name in ("one", "three", "both")
    )
    assert both.shape[1] == one.shape[1] + three.shape[1]
    np.testing.assert_array_equal(both[: len(one), : one.shape[1]], one)
    np.testing.assert_array_equal(both[: len(three), one.shape[1] :], three)

import numpy as np
import pytest
from matplotlib.axes import Axes
from PIL import Image

from ddsfl.compute.stages import fingerprint
from ddsfl.datasets.splits import Split
from ddsfl.experiments.complement import complement, draw_examples, won_images
from ddsfl.images.folders import ImageSet


def cell(name, **classes):
    return {"method": name, "per_class_accuracy": classes}


def test_classes_go_from_our_largest_win_to_theirs():
    ours = {
        "1": cell("a", sea=0.5, city=0.9, wood=0.4, hill=None),
        "2": cell("a", sea=0.7, city=0.7, wood=0.4),
    }
    theirs = {
        "1": cell("b", sea=0.9, city=0.4, wood=0.4, hill=0.5),
        "2": cell("b", sea=0.7, city=0.6, wood=0.4),
        "3": cell("b", sea=0.0, city=0.0, wood=0.0),
    }
    compared = complement(ours, theirs)
    assert [name for name, *_ in compared.classes] == ["city", "wood", "sea"]
    assert compared.classes[0][1:] == pytest.approx((80, 50))
    assert compared.classes[2][1:] == pytest.approx((60, 80))
    assert compared.words() == "a is better on 1 of 3 classes, b on 1, equal on 1 (2 splits)."
    text = compared.as_markdown("scene15").splitlines()
    assert text[0] == "### scene15: a and b"
    assert text[2] == compared.words()
    assert text[4:] == [
        "| class | a | b | difference |",
        "| --- | ---: | ---: | ---: |",
        "| city | 80.00 | 50.00 | +30.00 |",
        "| wood | 40.00 | 40.00 | +0.00 |",
        "| sea | 60.00 | 80.00 | -20.00 |",
    ]
    assert list(compared.as_text("s").columns[3].cells) == ["+30.00", "+0.00", "-20.00"]


def test_without_a_common_split_nothing_is_compared():
    assert complement({"1": cell("a", sea=1.0)}, {"2": cell("b", sea=1.0)}) is None
    assert (
        complement({"1": {"method": "a", "mean_average_precision": 0.5}}, {"1": cell("b", sea=1.0)}) is None
    )


@pytest.fixture
def guesses(tmp_path):
    """Eight test images of two classes, and the predictions of two methods."""
    paths, labels = [], []
    for number in range(10):
        path = tmp_path / f"{number}.png"
        Image.fromarray(np.full((20, 30, 3), 20 * number, np.uint8)).save(path)
        paths.append(path)
        labels.append("ab"[number % 2])
    split = Split(train=[0, 1], test=list(range(2, 10)), seed=0, name="random 1")
    mark = {
        "split": "random 1",
        "split_fingerprint": fingerprint(split.train, split.test),
        "classes": ["a", "b"],
    }
    #                 image 2 3 4 5 6 7 8 9; true a b a b a b a b
    ours = {**cell("ours", a=1.0, b=0.25), **mark, "predicted": "0 1 0 0 0 0 0 0"}
    theirs = {**cell("net", a=0.5, b=0.75), **mark, "predicted": "0 1 1 1 1 1 0 0"}
    return ours, theirs, ImageSet(paths, labels), split


def test_images_that_one_got_right_and_the_other_wrong(guesses):
    ours, theirs, images, split = guesses
    assert won_images(ours, theirs, images, split, "a") == [4, 6]
    assert won_images(theirs, ours, images, split, "b") == [5, 7]
    assert won_images(ours, theirs, images, split, "b") == []
    other = Split(train=[1, 0], test=split.test, seed=0, name="random 1")
    with pytest.raises(ValueError, match="cell of ours on random 1 was made from other images"):
        won_images(ours, theirs, images, other, "a")


def test_examples_show_these_images(guesses, tmp_path, monkeypatch):
    ours, theirs, images, split = guesses
    shown, titles = [], []
    real = Axes.set_title
    monkeypatch.setattr(Axes, "imshow", lambda self, pixels: shown.append(int(pixels[0, 0, 0])))
    monkeypatch.setattr(
        Axes, "set_title", lambda self, text, **options: (titles.append(text), real(self, text, **options))
    )
    compared = complement({"random 1": ours}, {"random 1": theirs})
    draw_examples(tmp_path / "examples.png", compared, (ours, theirs), images, split)
    assert titles == ["a: only ours is right", "b: only net is right"]
    assert shown == [80, 120, 100, 140]
    assert (tmp_path / "examples.png").is_file()

"""Two evaluations side by side: counts against plain loops, the test against SciPy, and what does not fit."""

import copy

import pytest
from scipy.stats import binomtest
from scipy.stats import t as student

from ddsfl.experiments.cells import score_predictions
from ddsfl.experiments.reporting.compared import common_splits, comparison_part

TRUE = ["a"] * 6 + ["b"] * 6
FIRST = ["a", "a", "a", "a", "b", "b", "b", "b", "b", "b", "a", "a"]
SECOND = ["a", "a", "a", "a", "a", "a", "b", "b", "b", "b", "b", "a"]


def cell_of(predicted, split="fold 1", **values):
    rows = [
        {"path": f"{number}.jpg", "true": label, "predicted": said,
         "probabilities": [0.9 - number / 50, 0.1 + number / 50] if said == "a" else [0.2, 0.8]}
        for number, (label, said) in enumerate(zip(TRUE, predicted))
    ]  # fmt: skip
    scores = score_predictions(TRUE, predicted, ["a", "b"])
    return {"split": split, "split_fingerprint": split, **scores, "images": rows, **values}


def test_counts_words_and_order():
    pairs = common_splits([cell_of(FIRST)], [cell_of(SECOND)], ("one", "two"))
    found = comparison_part(pairs, ("one", "two"))
    assert (found.both_right, found.only_first, found.only_second, found.both_wrong) == (8, 0, 3, 1)
    assert found.p == pytest.approx(binomtest(0, 3).pvalue)
    assert found.words[0].startswith("two alone is right about 3 images, the other model alone about 0. ")
    assert "could be chance" in found.words[0]
    assert "Mean class accuracy: 66.7 % and 91.7 %, 25.0 points more for two." in found.words
    assert [one.name for one in found.disagreements] == ["4.jpg", "5.jpg", "10.jpg"]
    first = found.disagreements[0]
    assert (first.true, first.answers, first.sure) == (("a",), (("b",), ("a",)), (0.8, 0.9 - 4 / 50))
    assert [(one.name, one.recall, other.recall) for one, other in found.classes] == [
        ("a", pytest.approx(4 / 6), 1.0),
        ("b", pytest.approx(4 / 6), pytest.approx(5 / 6)),
    ]
    swapped = common_splits([cell_of(SECOND)], [cell_of(FIRST)], ("two", "one"))
    swapped = comparison_part(swapped, ("two", "one"))
    assert (swapped.only_first, swapped.only_second) == (3, 0)
    assert "25.0 points less for one" in swapped.words[1]


def test_equal_models():
    cell = cell_of(FIRST)
    found = comparison_part(common_splits([cell], [copy.deepcopy(cell)], ("one", "two")), ("one", "two"))
    assert (found.only_first, found.only_second, found.p, found.disagreements) == (0, 0, 1.0, ())
    assert found.words[0] == "Both models are right about the same images."


def test_splits_are_paired_and_tested_together():
    splits = [f"random {number}" for number in (1, 2, 3)]
    sizes = {"n_train": 30, "n_test": 12}
    one = [cell_of(FIRST, split, **sizes) for split in splits]
    two = [cell_of(SECOND if number else FIRST, split, **sizes) for number, split in enumerate(splits)]
    found = comparison_part(common_splits(one, two[::-1], ("x", "y")), ("x", "y"))
    assert found.only_second == 6
    # The variance counts 1/3 + 12/30 instead of 1/3.
    t = 16.6667 / (14.4338 * (1 / 3 + 12 / 30) ** 0.5)
    assert found.words[-1] == (
        "Over 3 splits the difference is +16.67 ± 14.43 points (paired by split; "
        f"p = {2 * student.sf(t, 2):.2g}, corrected for training images that splits share)."
    )
    assert "unlikely to be chance (p = 0.031" in found.words[0]
    fewer = common_splits(one, two[:1], ("x", "y"))
    assert [pair.first["split"] for pair in fewer] == ["random 1"]


def test_images_that_one_model_gets_right_come_first():
    cells = [cell_of(FIRST), cell_of(SECOND)]
    for cell, answer in zip(cells, "ab"):
        row = {"path": "13.jpg", "true": "c", "predicted": answer, "probabilities": [1.0, 0.0]}
        cell["images"].append(row)
    found = comparison_part(common_splits(*([cell] for cell in cells), ("x", "y")), ("x", "y"))
    assert [one.name for one in found.disagreements] == ["4.jpg", "5.jpg", "10.jpg", "13.jpg"]
    assert found.both_wrong == 2


def test_what_cannot_be_compared_is_named():
    cell = cell_of(FIRST)
    with pytest.raises(ValueError, match="x and y have no split in common"):
        common_splits([cell], [cell_of(FIRST, "fold 2")], ("x", "y"))
    with pytest.raises(ValueError, match="x and y have no split in common"):
        common_splits([cell], [{**cell, "split_fingerprint": "other"}], ("x", "y"))
    with pytest.raises(ValueError, match="y has no row per image for fold 1"):
        common_splits([cell], [{name: cell[name] for name in cell if name != "images"}], ("x", "y"))
    other = copy.deepcopy(cell)
    other["images"][0]["path"] = "else.jpg"
    with pytest.raises(ValueError, match="tested other images in fold 1"):
        common_splits([cell], [other], ("x", "y"))

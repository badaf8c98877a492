"""Results of each class over all splits, and confusions as text."""

import numpy as np
import pytest

from ddsfl.experiments.per_class import MOST_SHOWN, class_results, class_table, confusion_table


def cell(classes, *pairs):
    confusion = np.zeros((len(classes), len(classes)), dtype=int)
    for true, predicted in pairs:
        confusion[classes.index(true), classes.index(predicted)] += 1
    rows = [{"true": true, "predicted": predicted} for true, predicted in pairs]
    return {"classes": classes, "images": rows, "confusion": confusion.tolist()}


def shown(table):
    return [[str(one) for one in row] for row in zip(*(column.cells for column in table.columns))]


#: Over both: sea 3 of 4 right, city 1 of 2, and wood tested once and never predicted.
CELLS = [
    cell(["city", "sea"], ("sea", "sea"), ("sea", "city"), ("city", "city"), ("city", "sea")),
    cell(["city", "sea", "wood"], ("sea", "sea"), ("sea", "sea"), ("wood", "sea")),
]


def test_results_are_pooled_over_all_splits():
    city, sea, wood = class_results(CELLS)
    assert (city.name, city.images, city.recall, city.precision, city.f1) == ("city", 2, 0.5, 0.5, 0.5)
    assert (sea.name, sea.images, sea.recall, sea.precision) == ("sea", 4, 0.75, 0.6)
    assert sea.f1 == pytest.approx(2 * 0.75 * 0.6 / 1.35)
    assert (wood.images, wood.recall, wood.f1) == (1, 0, 0)
    assert np.isnan(wood.precision)


def test_the_table_of_classes_has_every_class_and_the_mean():
    assert shown(class_table(CELLS)) == [
        ["city", "2", "50.00", "50.00", "50.00"],
        ["sea", "4", "75.00", "60.00", "66.67"],
        ["wood", "1", "0.00", "\u2013", "0.00"],
        ["mean", "7", "41.67", "55.00", "38.89"],
    ]


def test_images_with_several_labels_count_in_each_of_their_classes():
    rows = [{"true": ["boat", "sea"], "predicted": ["sea"]}, {"true": ["sea"], "predicted": []}]
    boat, sea = class_results([{"classes": ["boat", "sea"], "images": rows}])
    assert (boat.images, boat.recall, sea.images, sea.recall, sea.precision) == (1, 0, 2, 0.5, 1)


def test_a_few_classes_have_a_matrix_with_numbered_columns():
    assert shown(confusion_table(CELLS)) == [
        ["1 city", "1", "1", "."],
        ["2 sea", "1", "3", "."],
        ["3 wood", ".", "1", "."],
    ]


def test_many_classes_have_their_largest_confusions():
    classes = [f"class [{number:02}]" for number in range(MOST_SHOWN + 1)]
    pairs = [(name, name) for name in classes for _ in range(5)]
    pairs += [(classes[3], classes[1])] * 3 + [(classes[7], classes[8])]
    assert shown(confusion_table([cell(classes, *pairs)])) == [
        ["class [03]", "class [01]", "3", "37.50"],
        ["class [07]", "class [08]", "1", "16.67"],
    ]

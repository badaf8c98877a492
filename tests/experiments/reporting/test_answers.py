"""What cells say: against plain loops and scikit-learn, with classes that were never tested."""

import math

import numpy as np
import pytest
from sklearn.metrics import precision_recall_fscore_support

from ddsfl.experiments.cells import score_predictions
from ddsfl.experiments.reporting.answers import answers_part, calibration, number_tested

CLASSES = ["boat", "city", "lake", "sea"]


def single_cell(split="fold 1", n_images=40, seed=0, calibrated=True):
    """A cell whose last class is never tested."""
    rng = np.random.default_rng(seed)
    true = [CLASSES[number] for number in rng.integers(3, size=n_images)]
    values = rng.dirichlet(np.ones(4), n_images).round(5)
    predicted = [CLASSES[number] for number in values.argmax(axis=1)]
    kind = "probabilities" if calibrated else "scores"
    rows = [
        {"path": f"{label}/{number}.jpg", "true": label, "predicted": said, kind: row.tolist()}
        for number, (label, said, row) in enumerate(zip(true, predicted, values))
    ]
    return {"split": split, **score_predictions(true, predicted, CLASSES), "images": rows}


def several_cell(calibrated=True):
    kind = "probabilities" if calibrated else "scores"
    rows = [
        {"path": "1", "true": ["boat", "sea"], "predicted": ["sea"], kind: [0.2, 0.1, 0.3, 0.9]},
        {"path": "2", "true": ["city"], "predicted": ["city"], kind: [0.1, 0.8, 0.0, 0.3]},
        {"path": "4", "true": ["sea", "lake"], "predicted": ["lake", "sea"], kind: [0.0, 0.0, 0.95, 1.0]},
        {"path": "3", "true": [], "predicted": ["lake", "boat"], kind: [0.6, 0.1, 0.95, 0.0]},
    ]
    return {"split": "fold 1", "mean_average_precision": 0.7, "classes": CLASSES, "images": rows}


def test_classes_and_confusion_are_those_of_scikit_learn():
    cells = [single_cell("fold 1", seed=1), single_cell("fold 2", seed=2)]
    tested = answers_part(cells, ["how"])
    rows = [row for cell in cells for row in cell["images"]]
    true, said = ([row[side] for row in rows] for side in ("true", "predicted"))
    expected = precision_recall_fscore_support(true, said, labels=CLASSES, zero_division=np.nan)
    found = np.array([[one.precision, one.recall, one.f1, one.images] for one in tested.classes])
    expected = np.array(expected).T
    assert [one.name for one in tested.classes] == CLASSES
    assert math.isnan(found[3, 1])  # never tested: no recall
    assert math.isnan(found[3, 2])
    np.testing.assert_allclose(found[:3], expected[:3])
    counts = np.zeros((4, 4), int)
    for label, answer in zip(true, said):
        counts[CLASSES.index(label), CLASSES.index(answer)] += 1
    np.testing.assert_array_equal(tested.confusion, counts)
    assert tested.images == 80 == sum(map(number_tested, cells))
    assert tested.splits == ("fold 1", "fold 2")
    assert tested.how == ("how",)
    by_name = {measure.name: measure for measure in tested.measures}
    assert list(by_name) == ["mean class accuracy", "accuracy"]
    assert by_name["accuracy"].values == tuple(cell["accuracy"] for cell in cells)


def test_mistakes_are_all_wrong_answers_the_surest_first():
    cells = [single_cell("fold 1", seed=1), single_cell("fold 2", seed=2)]
    mistakes = answers_part(cells).mistakes
    wrong = [
        (max(row["probabilities"]), cell["split"], row["path"])
        for cell in cells
        for row in cell["images"]
        if row["true"] != row["predicted"]
    ]
    assert [(one.sure, one.split, one.name) for one in mistakes] == sorted(wrong, key=lambda one: -one[0])
    [cell] = [cell for cell in cells if cell["split"] == mistakes[0].split]
    [row] = [row for row in cell["images"] if row["path"] == mistakes[0].name]
    assert mistakes[0].true_probability == row["probabilities"][CLASSES.index(row["true"])]
    assert mistakes[0].surprise == mistakes[0].sure
    assert (mistakes[0].true, mistakes[0].predicted) == ((row["true"],), (row["predicted"],))


def test_without_calibration_mistakes_are_ordered_by_margin():
    mistakes = answers_part([single_cell(calibrated=False)]).mistakes
    assert mistakes
    assert all(one.sure is None and one.true_probability is None for one in mistakes)
    assert [one.surprise for one in mistakes] == sorted((one.surprise for one in mistakes), reverse=True)
    rows = {row["path"]: row for row in single_cell(calibrated=False)["images"]}
    scores = rows[mistakes[0].name]["scores"]
    margin = max(scores) - scores[CLASSES.index(mistakes[0].true[0])]
    assert mistakes[0].surprise == pytest.approx(margin)


def test_several_labels():
    tested = answers_part([several_cell()])
    assert tested.confusion is None
    assert [(one.name, one.true, one.predicted, one.sure) for one in tested.mistakes] == [
        ("3", (), ("lake", "boat"), 0.95),
        ("1", ("boat", "sea"), ("sea",), 0.8),
    ]
    assert tested.images == 4
    by_name = {one.name: one for one in tested.classes}
    assert by_name["boat"].recall == 0.0
    assert by_name["city"].precision == 1.0
    assert [measure.name for measure in tested.measures] == ["mean average precision"]
    unsure = answers_part([several_cell(calibrated=False)])
    assert [(one.name, one.sure) for one in unsure.mistakes] == [("3", None), ("1", None)]


def test_cells_without_rows_have_classes_but_no_mistakes():
    cell = single_cell()
    del cell["images"]
    tested = answers_part([cell])
    assert tested.mistakes == ()
    assert tested.calibration is None
    assert tested.images == 40


def test_calibration_is_what_a_plain_loop_finds():
    cells = [single_cell("fold 1", 200, 1), single_cell("fold 2", 200, 2)]
    found = calibration(cells)
    bins = {}
    for cell in cells:
        for row in cell["images"]:
            said = max(row["probabilities"])
            bins.setdefault(min(int(said * 10), 9), []).append((said, row["true"] == row["predicted"]))
    assert [one.low for one in found.bins] == [number / 10 for number in sorted(bins)]
    error = 0.0
    for one in found.bins:
        said, right = zip(*bins[round(10 * one.low)])
        assert one.images == len(said)
        assert one.probability == pytest.approx(sum(said) / len(said))
        assert one.right == pytest.approx(sum(right) / len(right))
        assert one.high == pytest.approx(one.low + 0.1)
        error += abs(sum(said) - sum(right)) / 400
    assert found.error == pytest.approx(error)


def test_calibration_of_several_labels_counts_every_label():
    found = calibration([several_cell()])
    assert sum(one.images for one in found.bins) == 16
    top = found.bins[-1]
    assert (top.low, top.high, top.images, top.right) == (0.9, 1.0, 4, 0.75)  # all but lake in 3
    assert calibration([several_cell(calibrated=False)]) is None

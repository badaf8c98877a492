"""Cells that users hand over: found, ordered, and refused with one sentence if anything is wrong."""

import json

import pytest

from ddsfl.experiments.reporting.stored import stored_cells, what_is_wrong

ROW = {"path": "1.jpg", "true": "a", "predicted": "b", "probabilities": [0.25, 0.75]}
CELL = {
    "dataset": "photos",
    "method": "quick",
    "split": "fold 1",
    "settings": {},
    "seconds": {"classifier": 1.5},
    "accuracy": 0.5,
    "mean_class_accuracy": 0.5,
    "classes": ["a", "b"],
    "confusion": [[1, 1], [0, 0]],
    "images": [ROW],
}
SEVERAL = {**CELL, "images": [{**ROW, "true": ["a"], "predicted": []}], "mean_average_precision": 0.5}
del SEVERAL["confusion"]


def write(folder, name, values):
    (folder / name).write_text(values if isinstance(values, str) else json.dumps(values))


def test_cells_of_a_folder_in_the_order_of_their_splits(tmp_path):
    for number in (10, 2, 1):
        write(tmp_path, f"quick.fold{number}.json", {**CELL, "split": f"fold {number}"})
    write(tmp_path, "broken.json", "{")
    write(tmp_path, "other.json", {"a": 1})
    found = stored_cells(tmp_path)
    assert [cell["split"] for _, cell in found] == ["fold 1", "fold 2", "fold 10"]
    assert found[0][0] == tmp_path / "quick.fold1.json"
    assert stored_cells(tmp_path / "quick.fold2.json")[0][1]["split"] == "fold 2"


def test_several_methods_need_a_choice(tmp_path):
    write(tmp_path, "a.json", CELL)
    write(tmp_path, "b.json", {**CELL, "method": "paper"})
    with pytest.raises(ValueError, match=r"cells of 2 methods \(quick, paper\); choose one by --method"):
        stored_cells(tmp_path)
    assert [cell["method"] for _, cell in stored_cells(tmp_path, "paper")] == ["paper"]
    with pytest.raises(ValueError, match="no cells of 'best'; it has quick, paper"):
        stored_cells(tmp_path, "best")


@pytest.mark.parametrize(
    ("text", "reason"),
    [("{", "is not JSON"), ("[" * 100_000, "is nested too deeply|is not JSON"), ("[1]", "is not a cell"),
     (json.dumps({**CELL, "accuracy": 2}), "accuracy is not between 0 and 1")],
)  # fmt: skip
def test_a_named_file_must_be_a_cell(tmp_path, text, reason):
    write(tmp_path, "x.json", text)
    with pytest.raises(ValueError, match=reason):
        stored_cells(tmp_path / "x.json")


def test_missing_files_and_empty_folders(tmp_path):
    with pytest.raises(ValueError, match="no such file"):
        stored_cells(tmp_path / "none.json")
    with pytest.raises(ValueError, match="has no cells"):
        stored_cells(tmp_path)


def test_what_is_right():
    assert what_is_wrong(CELL) is None
    assert what_is_wrong(SEVERAL) is None
    assert what_is_wrong({name: CELL[name] for name in CELL if name not in ("images", "seconds")}) is None


def row(**values):
    return {"images": [{**ROW, **values}]}


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        ({"split": 1}, "split is not text"),
        ({"method": None}, "method is not text"),
        ({"settings": []}, "settings are not values by name"),
        ({"classes": "ab"}, "classes are not a list of names"),
        ({"classes": ["a", 1]}, "classes are not a list of names"),
        ({"classes": ["a", "a"]}, "classes has a name twice"),
        ({"accuracy": "high"}, "accuracy is not between 0 and 1"),
        ({"mean_class_accuracy": float("nan")}, "mean_class_accuracy is not between 0 and 1"),
        ({"mean_class_accuracy": None}, "it has no accuracy"),
        ({"seconds": {"svm": -1}}, "seconds are not numbers by stage"),
        ({"seconds": [1]}, "seconds are not numbers by stage"),
        ({"confusion": [[1, 2]]}, "confusion is not a matrix of counts of 2 classes"),
        ({"confusion": [[1, 2], [3, -1]]}, "confusion is not a matrix of counts of 2 classes"),
        ({"confusion": [[1, 2], [3, 1.5]]}, "confusion is not a matrix of counts of 2 classes"),
        ({"confusion": [[1, 2], "ab"]}, "confusion is not a matrix of counts of 2 classes"),
        ({"images": {}}, "images are not a list"),
        ({"images": [3]}, "image 0 has no path"),
        (row(path=3), "image 0 has no path"),
        (row(true=["a"]), "image 0 has no valid true label"),
        (row(predicted=None), "image 0 has no valid predicted label"),
        (row(predicted="c"), "image 0 was predicted as a class that does not exist"),
        (row(probabilities=[0.5]), "probabilities of image 0 are not one number per class"),
        (row(probabilities=[0.5, 1.5]), "probabilities of image 0 are not one number per class"),
        (row(scores=[0.5, float("inf")]), "scores of image 0 are not one number per class"),
        ({"images": [{name: ROW[name] for name in ("path", "true", "predicted")}]}, "neither"),
    ],
)
def test_what_is_wrong(change, wrong):
    assert wrong in what_is_wrong({**CELL, **change})


def test_several_labels_are_lists():
    assert "no valid true label" in what_is_wrong({**SEVERAL, "images": [{**ROW, "predicted": []}]})
    wrong = [{**ROW, "true": [], "predicted": ["c"]}]
    assert "does not exist" in what_is_wrong({**SEVERAL, "images": wrong})

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

from ddsfl.experiments import cells
from ddsfl.experiments.cells import (
    cells_table,
    current_commit,
    read_cell,
    score_predictions,
    score_rankings,
    write_cell,
)

SOURCE = Path(cells.__file__).parents[3]


@pytest.fixture(autouse=True)
def no_commit_is_given(monkeypatch):
    monkeypatch.delenv("DDSFL_COMMIT", raising=False)


def test_scores_are_those_worked_by_hand():
    # sea: 3 of 4 right; city: 1 of 2; wood: 0 of 1; hill: not among the true labels, but predicted once.
    true = ["sea", "sea", "city", "sea", "wood", "city", "sea"]
    predicted = ["sea", "hill", "city", "sea", "sea", "wood", "sea"]
    assert score_predictions(true, predicted, ["sea", "city", "wood", "hill"]) == {
        "accuracy": pytest.approx(4 / 7),
        "mean_class_accuracy": pytest.approx((0.75 + 0.5 + 0) / 3),
        "per_class_accuracy": {"sea": 0.75, "city": 0.5, "wood": 0.0, "hill": None},
        "confusion": [[3, 0, 0, 1], [0, 1, 1, 0], [1, 0, 0, 0], [0, 0, 0, 0]],
        "classes": ["sea", "city", "wood", "hill"],
    }


def test_scores_of_numbered_classes_can_be_stored(tmp_path):
    scores = score_predictions(np.array([0, 1, 1]), np.array([0, 1, 0]), np.array([0, 1]))
    assert scores["per_class_accuracy"] == {"0": 1.0, "1": 0.5}
    assert scores["classes"] == ["0", "1"]
    assert json.loads(json.dumps(scores)) == scores


def test_rankings_are_scored_by_their_mean_average_precision():
    # First label: relevant at ranks 2 and 3; precision 1/2 rises to 2/3, so 2/3. Second: at rank 2, so 1/2.
    relevant = np.array([[False, False], [True, True], [True, False]])
    scores = np.array([[0.9, 0.8], [0.5, 0.4], [0.1, 0.1]])
    measured = score_rankings(relevant, scores)
    assert measured == {"mean_average_precision": pytest.approx((2 / 3 + 1 / 2) / 2)}
    assert type(measured["mean_average_precision"]) is float


def test_a_cell_is_read_as_it_was_written(tmp_path):
    path = tmp_path / "new" / "folders" / "cell.json"
    cell = {"method": "quick", "split": 3, "accuracy": 0.1 + 0.2, "commit": None, "classes": ["Küche"]}
    write_cell(path, cell)
    assert read_cell(path, {"method": "quick", "split": 3}) == cell
    assert read_cell(path, {}) == cell
    assert path.read_bytes().endswith(b"}\n")
    assert list(path.parent.iterdir()) == [path]
    write_cell(path, {"method": "other"})
    assert read_cell(path, {}) == {"method": "other"}


def test_a_cell_appears_complete_or_not_at_all(tmp_path, monkeypatch):
    written = []
    monkeypatch.setattr(cells, "write_whole", lambda path, data: written.append((path, json.loads(data))))
    write_cell(tmp_path / "cell.json", {"split": 1})
    assert written == [(tmp_path / "cell.json", {"split": 1})]
    assert list(tmp_path.iterdir()) == []


def test_cells_that_do_not_fit_are_not_read(tmp_path):
    path = tmp_path / "cell.json"
    assert read_cell(path, {}) is None  # missing
    assert read_cell(tmp_path, {}) is None  # a folder
    write_cell(path, {"method": "quick", "split": 3})
    assert read_cell(path, {"method": "quick", "split": 4}) is None
    assert read_cell(path, {"method": "full", "split": 3}) is None
    assert read_cell(path, {"method": "quick", "seed": 0}) is None
    for damaged in (b"", b'{"method": "quick", "spl', b"\xff\xfe\x00", b"[1, 2]", b"null"):
        path.write_bytes(damaged)
        assert read_cell(path, {}) is None


def test_no_git_means_no_commit(monkeypatch):
    def missing(*args, **kwargs):
        raise OSError("no git here")

    monkeypatch.setattr(subprocess, "run", missing)
    assert current_commit() is None


@pytest.mark.parametrize("failing", ["rev-parse", "status"])
def test_outside_of_a_repository_there_is_no_commit(monkeypatch, failing):
    called = []

    def refuse(command, check=False, **kwargs):
        called.append(command[1])
        if check and command[1] == failing:
            raise subprocess.CalledProcessError(128, command)
        return subprocess.CompletedProcess(command, 0, stdout=f"{SOURCE}\n")

    monkeypatch.setattr(subprocess, "run", refuse)
    assert current_commit() is None
    assert called[-1] == failing


def test_the_commit_given_for_a_copied_tree_takes_precedence(monkeypatch):
    assert current_commit() != "fedcba9"
    monkeypatch.setenv("DDSFL_COMMIT", "fedcba9")
    assert current_commit() == "fedcba9"


@pytest.mark.parametrize(("changes", "expected"), [("", "0123456789ab"), (" M a.py\n", "0123456789ab+")])
def test_a_changed_tree_is_marked(monkeypatch, changes, expected):
    def run(command, cwd, **kwargs):
        assert (cwd / "cells.py").is_file()  # the commit of this source, whatever the working directory
        # Untracked files, such as results, do not change the source.
        assert command[1] != "status" or "--untracked-files=no" in command
        answers = {"--show-toplevel": f"{SOURCE}\n", "HEAD": "0123456789ab\n"}
        return subprocess.CompletedProcess(command, 0, stdout=answers.get(command[-1], changes))

    monkeypatch.setattr(subprocess, "run", run)
    assert current_commit() == expected


def test_a_copy_within_the_repository_of_another_project_has_no_commit(monkeypatch, tmp_path):
    """The repository around an installed copy may even have its own src/ddsfl."""
    installed = tmp_path / "venv" / "ddsfl" / "experiments" / "cells.py"
    installed.parent.mkdir(parents=True)
    installed.write_text("")
    (tmp_path / "src" / "ddsfl").mkdir(parents=True)
    git = ["git", "-C", str(tmp_path), "-c", "user.name=n", "-c", "user.email=e"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "theirs"], check=True)
    monkeypatch.setattr(cells, "__file__", str(installed))
    assert current_commit() is None


def test_a_table_shows_names_unchanged():
    made = [{"split": "list[1].txt / [/b]", "mean_average_precision": value} for value in (0.5, 0.7)]
    table = cells_table(made)
    assert [str(cell) for cell in table.columns[0].cells] == [*[made[0]["split"]] * 2, "mean", "spread"]
    assert list(table.columns[1].cells) == ["50.00", "70.00", "60.00", "14.14"]
    scores = score_predictions(["a", "b", "b"], ["a", "b", "a"], ["a", "b"])
    table = cells_table([{"split": "s", **scores}])
    assert [next(iter(column.cells)) for column in table.columns[1:]] == ["75.00", "66.67"]


def test_rows_of_numbers_take_one_line_and_nothing_is_lost(tmp_path):
    cell = {
        "confusion": [[1, -20], [3, 4]],
        "weights": [0.5, 2e-07],
        "classes": ["[1,\n 2]", "[ 1, 2 ]", "a"],
        "settings": {"blocks": [], "levels": [[1, 1], [2, 2]]},
        "none": [None, 1],
    }
    write_cell(tmp_path / "cell.json", cell)
    text = (tmp_path / "cell.json").read_text()
    assert json.loads(text) == cell
    assert " [1,-20],\n" in text


def test_every_image_takes_one_line(tmp_path):
    rows = [{"path": f"a\n{number}", "true": ["x"], "probabilities": [0.5, 0.5]} for number in range(3)]
    cell = {"confusion": [[1, 2], [3, 4]], "images": rows, "split": "a"}
    write_cell(tmp_path / "cell.json", cell)
    text = (tmp_path / "cell.json").read_text()
    assert json.loads(text) == cell
    assert sum('"path"' in line and '"probabilities":[0.5,0.5]' in line for line in text.splitlines()) == 3
    write_cell(tmp_path / "cell.json", {"split": 1, "images": []})
    assert read_cell(tmp_path / "cell.json", {}) == {"split": 1, "images": []}

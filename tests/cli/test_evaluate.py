"""`ddsfl evaluate` by folds: what it prints and stores."""

import json

import pytest

from tests.support.tiny import TINY_OPTIONS, write_scenes


def cells_of(folder):
    return [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]


def rows_of(folder):
    return [row for cell in cells_of(folder) for row in cell["images"]]


def test_without_options_every_image_is_tested_once_in_folds(ddsfl, scenes, tmp_path):
    code, out, err = ddsfl("evaluate", scenes, "--out", tmp_path, *TINY_OPTIONS)
    assert code == 0
    assert "4 folds instead of 5: class" in err
    assert "fold 4 of 4" in out
    rows = rows_of(tmp_path)
    names = sorted(path.relative_to(scenes).as_posix() for path in scenes.rglob("*.png"))
    assert sorted(row["path"] for row in rows) == names
    for row in rows:
        assert row["true"] == row["path"].split("/")[0]
        assert sum(row["probabilities"]) == pytest.approx(1, abs=1e-4)
    cell = cells_of(tmp_path)[0]
    for row in cell["images"]:
        chances = dict(zip(cell["classes"], row["probabilities"], strict=True))
        assert chances[row["predicted"]] == max(chances.values())
    for number, name in enumerate(cell["classes"], start=1):
        right = sum(row["true"] == row["predicted"] == name for row in rows)
        shown = [line.strip("\u2502").split("\u2502") for line in out.splitlines() if f" {name} " in line]
        of_class, of_matrix = ([part.strip() for part in line] for line in shown)
        assert of_class[:3] == [name, "4", f"{25 * right:.2f}"]
        assert of_matrix[0] == f"{number} {name}"
        assert of_matrix[number] == (str(right) if right else ".")


def test_groups_stay_together(ddsfl, tmp_path):
    for number, path in enumerate(write_scenes(tmp_path / "set")):
        path.rename(path.with_name(f"patient{number % 3}-{number}.png"))
    arguments = ["evaluate", tmp_path / "set", "--groups", r"patient\d+", "--out", tmp_path / "out"]
    code, _, err = ddsfl(*arguments, *TINY_OPTIONS)
    assert (code, "3 folds instead of 5" in err) == (0, True)
    for cell in cells_of(tmp_path / "out"):
        assert len({row["path"].split("/")[1].partition("-")[0] for row in cell["images"]}) == 1
    code, _, err = ddsfl(*arguments[:2], "--groups", r"patient[12]")
    assert code == 1
    assert err.splitlines()[-1].startswith("ddsfl: --groups patient[12]: ")
    assert "does not match" in err


def test_images_with_several_labels_are_evaluated_by_folds(ddsfl, scenes, tmp_path):
    rows = ["path,label,day"]
    for number, path in enumerate(sorted(scenes.rglob("*.png"))):
        rows.append(f"{path},{path.parent.name}" + (";odd" if number % 2 else "") + f",{number % 4}")
    (tmp_path / "list.csv").write_text("\n".join(rows))
    arguments = ["evaluate", tmp_path / "list.csv", "--folds", 2, "--out", tmp_path / "out"]
    code, out, _ = ddsfl(*arguments, "--groups", "day", *TINY_OPTIONS)
    assert code == 0
    assert "mean average precision" in out
    [odd] = [line.split("\u2502") for line in out.splitlines() if " odd " in line]
    assert odd[2].strip() == "6"
    assert len(rows_of(tmp_path / "out")) == 12
    assert all(isinstance(row["predicted"], list) for row in rows_of(tmp_path / "out"))
    code, _, err = ddsfl("evaluate", tmp_path / "list.csv", "--train", 1)
    assert (code, "--train cannot be used for images with several labels" in err) == (1, True)


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (["--folds", 3, "--train", 2], 2, "--folds and --train exclude each other"),
        (["--splits", 2], 2, "--splits needs --train"),
        (["--train", 0], 2, "Invalid value for '--train'"),
        (["--folds", 1], 2, "Invalid value for '--folds'"),
        (["--train", 4], 1, "--train 4 needs at least 5 images per class"),
        (["--balanced", "--set", "classifier.class_weight=null"], 2, "--balanced and --set classifier"),
    ],
)
def test_mistakes_name_the_options(ddsfl, scenes, options, code, words):
    found, out, err = ddsfl("evaluate", scenes, *options)
    assert (found, out) == (code, "")
    assert words in " ".join(err.replace("\u2502", " ").split())
    assert "n_train" not in err
    assert "Traceback" not in err

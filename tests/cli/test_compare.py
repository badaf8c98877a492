"""`ddsfl compare` as people run it."""

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from ddsfl.model.classifier import SceneClassifier
from tests.support.clusters import require_ray
from tests.support.networks import tiny_network
from tests.support.tiny import TINY_OPTIONS

RANDOM = ["--train", 2, "--splits", 3, "--device", "cpu"]


def cells_of(folder):
    cells = [json.loads(path.read_text()) for path in sorted(folder.rglob("*.json"))]
    return {(cell["method"], cell["split"]): cell for cell in cells}


def words_of(err):
    return " ".join(err.replace("│", " ").split())


def compared(ddsfl, *arguments):
    code, out, err = ddsfl("compare", *arguments, "--json", *TINY_OPTIONS)
    assert code == 0, err
    return {one["method"]: one for one in json.loads(out)["methods"]}


def test_without_options_learned_filters_and_sift_are_compared_on_folds(ddsfl, scenes, tmp_path):
    code, out, err = ddsfl("compare", scenes, "--out", tmp_path, *TINY_OPTIONS)
    assert code == 0
    assert "4 folds instead of 5: class" in err
    assert "2 methods x 4 splits = 8 trainings" in err
    cells = cells_of(tmp_path)
    assert set(cells) == {(name, f"fold {fold} of 4") for name in ("quick", "sift") for fold in (1, 2, 3, 4)}
    for fold in range(1, 5):
        one, other = (cells[name, f"fold {fold} of 4"] for name in ("quick", "sift"))
        assert [row["path"] for row in one["images"]] == [row["path"] for row in other["images"]]
        assert one["split_fingerprint"] == other["split_fingerprint"]
    scores = [[100 * cells[name, f"fold {fold} of 4"]["mean_class_accuracy"] for fold in range(1, 5)]
              for name in ("quick", "sift")]  # fmt: skip
    rows = [[part.strip() for part in line.split("│")[1:-1]] for line in out.splitlines() if "│" in line]
    assert [row[0] for row in rows] == ["quick", "sift"]
    for row, one in zip(rows, scores, strict=True):
        assert row[1] == f"{np.mean(one):.2f} ± {np.std(one, ddof=1):.2f} (4)"
    gain = np.subtract(scores[1], scores[0])
    assert rows[1][4] == f"{gain.mean():+.2f} ± {gain.std(ddof=1):.2f}"
    assert rows[0][4:] == ["", "", "the reference"]
    assert "paired" in out
    assert "traceback" not in err.lower()


def test_the_same_command_resumes_and_other_settings_are_computed_again(ddsfl, scenes, tmp_path, monkeypatch):
    arguments = ["compare", scenes, "--out", tmp_path, *RANDOM, *TINY_OPTIONS]
    first = ddsfl(*arguments)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.json")}
    assert len(before) == 6

    trained = []
    fit = SceneClassifier.fit

    def noted(self, *given, **options):
        trained.append(self.preset)
        return fit(self, *given, **options)

    monkeypatch.setattr(SceneClassifier, "fit", noted)
    again = ddsfl(*arguments)
    assert (again[0], again[1]) == (0, first[1])
    assert again[2].count("reused from an earlier run") == 6
    assert trained == []
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.json")} == before

    assert ddsfl(*arguments, "--set", "layers.bank.eta=0.5")[0] == 0
    assert len(trained) == 3  # SIFT has no layers, and is kept
    assert {one.layers[0].bank["eta"] for one in trained} == {0.5}
    trained.clear()
    assert ddsfl(*arguments, "--set", "layers.bank.eta=0.5", "--seed", 3)[0] == 0
    assert len(trained) == 6
    assert {cell["seed"] for cell in cells_of(tmp_path).values()} == {3}


def test_methods_share_what_they_have_in_common(ddsfl, scenes, tmp_path):
    methods = ["--methods", "rica-1layer,sift,rica-1layer+sift", "--out", tmp_path / "out"]
    code, _, err = ddsfl("compare", scenes, *methods, *RANDOM, *TINY_OPTIONS)
    assert code == 0
    for stage in ("layer 1: filter bank", "sift: words"):
        assert err.count(f"rica-1layer+sift: {stage}: reused from an earlier run") == 3
    assert not list((tmp_path / "out").glob("*.stages"))


def test_evaluate_and_report_take_the_cells_of_a_method(ddsfl, scenes, tmp_path):
    assert ddsfl("compare", scenes, "--out", tmp_path / "out", *RANDOM, *TINY_OPTIONS)[0] == 0
    code, _, err = ddsfl("evaluate", scenes, "--out", tmp_path / "out" / "quick", *RANDOM, *TINY_OPTIONS)
    assert (code, err.count("reused from an earlier run")) == (0, 3)
    both = [tmp_path / "out" / name for name in ("quick", "sift")]
    assert ddsfl("report", *both, "--out", tmp_path / "both.html")[0] == 0


def test_against_names_the_reference_and_turns_the_differences(ddsfl, scenes, tmp_path):
    arguments = [scenes, "--out", tmp_path, *RANDOM]
    to_first = compared(ddsfl, *arguments)
    to_sift = compared(ddsfl, *arguments, "--against", "sift")
    assert to_first["quick"]["difference"] is to_sift["sift"]["difference"] is None
    one, other = to_first["sift"]["difference"], to_sift["quick"]["difference"]
    assert one["mean"] == -other["mean"]
    assert (one["spread"], one["p"], one["splits"]) == (other["spread"], other["p"], 3)


def test_several_engines_give_the_scores_of_one_process(ddsfl, scenes, tmp_path):
    here = compared(ddsfl, scenes, *RANDOM)
    options = ["--engine", "processes", "--workers", 2, "--out", tmp_path]
    there = compared(ddsfl, scenes, *RANDOM, *options)
    assert [one["scores"] for one in there.values()] == [one["scores"] for one in here.values()]
    assert len(cells_of(tmp_path)) == 6


@pytest.mark.slow
def test_ray_gives_the_scores_of_one_process(ddsfl, scenes, tmp_path):
    require_ray()
    here = compared(ddsfl, scenes, *RANDOM)
    options = ["--engine", "ray", "--workers", 2, "--out", tmp_path]
    there = compared(ddsfl, scenes, *RANDOM, *options)
    assert [one["scores"] for one in there.values()] == [one["scores"] for one in here.values()]
    assert len(cells_of(tmp_path)) == 6


def test_networks_and_other_pixels_can_take_part(ddsfl, scenes, tmp_path):
    network = tiny_network(tmp_path / "net.onnx")
    methods = "rica-1layer:lab,net,rica-1layer,gist"
    options = ["--methods", methods, "--network", f"net={network}", "--out", tmp_path / "out", *RANDOM]
    found = compared(ddsfl, scenes, *options, "--balanced")
    assert list(found) == methods.split(",")
    cells = cells_of(tmp_path / "out")
    assert {cell["settings"]["colour"] for (name, _), cell in cells.items() if name == "rica-1layer:lab"} == {
        "lab"
    }
    assert all(cell["settings"]["classifier"]["class_weight"] == "balanced" for cell in cells.values())
    assert {cell["split_fingerprint"] for cell in cells.values() if cell["split"] == "random 2"} == {
        cells["net", "random 2"]["split_fingerprint"]
    }


def test_images_with_several_labels_and_an_official_split(ddsfl, scenes, tmp_path):
    paths = sorted(scenes.rglob("*.png"))
    rows = [f"{path},{path.parent.name}" + ";odd" * (number % 2) for number, path in enumerate(paths)]
    (tmp_path / "list.csv").write_text("\n".join(["path,label", *rows]))
    for name, kept in (("train", paths[::2] + paths[1::4]), ("test", paths[3::4])):
        (tmp_path / f"{name}.txt").write_text("\n".join(map(str, kept)))
    lists = ["--train-list", tmp_path / "train.txt", "--test-list", tmp_path / "test.txt"]
    arguments = ["compare", tmp_path / "list.csv", *lists, *TINY_OPTIONS]
    code, out, _ = ddsfl(*arguments)
    assert code == 0
    assert "mean average precision" in out
    assert "Differences were not tested: a test needs 3 or more splits." in " ".join(out.split())
    found = json.loads(ddsfl(*arguments, "--json")[1], parse_constant=pytest.fail)
    assert found["measure"] == "mean average precision"
    assert found["methods"][1]["difference"]["p"] is None
    assert found["methods"][1]["spread"] is None


def test_more_random_splits_and_methods_keep_what_is_there(ddsfl, scenes, tmp_path):
    few = ["--train", 2, "--device", "cpu", "--out", tmp_path, "--methods"]
    compared(ddsfl, scenes, *few, "gist,quick", "--splits", 1)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.json")}
    compared(ddsfl, scenes, *few, "quick,centrist,gist", "--splits", 2)
    assert len(cells_of(tmp_path)) == 6
    assert {path: path.read_bytes() for path in before} == before


def test_the_examples_of_the_page_are_accepted(ddsfl, monkeypatch, tmp_path):
    asked = []

    def stop(self, images, settings, *given):
        asked.append(images)
        raise ValueError("that is enough.")

    monkeypatch.setattr("ddsfl.cli.splitting.Splitting.read", stop)
    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).parents[2] / "docs" / "evaluation.md").read_text()
    lines = re.findall(r"^ddsfl (compare .*?)(?:  +#.*)?$", page, flags=re.MULTILINE)
    assert len(lines) == 3
    for line in lines:
        assert ddsfl(*shlex.split(line), "--quiet")[2] == "ddsfl: that is enough.\n"
    assert asked == [Path("photos")] * 3


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (["--methods", "quick,siift"], 2, "method 'siift' is unknown; did you mean 'sift'? Expected one of"),
        (["--methods", "quick"], 2, "expected two or more, separated by commas"),
        (["--methods", "sift,quick,sift"], 2, "--methods names 'sift' twice"),
        (["--against", "qiuck"], 2, "--against qiuck is not one of --methods; did you mean 'quick'?"),
        (["--set", "layers.bnk.eta=0"], 2, "none of the methods has it: setting 'layers.bnk.eta' does not"),
        (["--set", "blocks.coding.n_words=0"], 2, "--set for method quick: setting blocks.coding.n_words"),
        (["--methods", "sift,lbp", "--set", "layers.step=4"], 2, "none of the methods has it"),
        (["--balanced", "--set", "classifier.class_weight=null"], 2, "--balanced and --set classifier"),
        (["--network", "a"], 2, "--network a: expected NAME=FILE"),
        (["--folds", 3, "--train", 2], 2, "--folds and --train exclude each other"),
        (["--workers", 2], 2, "--workers needs --engine processes or --engine ray"),
        (["--train", 4], 1, "--train 4 needs at least 5 images per class"),
    ],
)
def test_mistakes_name_the_options(ddsfl, scenes, options, code, words):
    found, out, err = ddsfl("compare", scenes, *options)
    assert (found, out) == (code, "")
    assert words in words_of(err)
    assert "Traceback" not in err

"""`ddsfl search` as people run it."""

import itertools
import json
import shlex

import pytest

from ddsfl.cli.inputs import changed_settings
from tests.support.program import run_program
from tests.support.tiny import TINY_OPTIONS, write_scenes


@pytest.fixture(scope="module")
def searched(tmp_path_factory):
    folder = tmp_path_factory.mktemp("search")
    write_scenes(folder / "my photos", n_per_class=3, classes=2)
    return folder


def test_a_search_ends_with_a_command_that_trains_with_the_best_settings(ddsfl, searched, tmp_path):
    arguments = ["search", searched / "my photos", "--out", searched / "out", "--folds", 9, "--balanced"]
    arguments += ["--try", "C=1,cv", "--try", "blocks.levels=[[1,1]],[[1,1],[3,1]]", "--seed", 2]
    code, out, err = ddsfl(*arguments, *TINY_OPTIONS)
    assert code == 0
    assert "3 folds instead of 9: class" in err
    assert "up to 4 candidates x 3 folds = 12 trainings" in err
    assert [word for word in ("start", "blocks.levels", "[[1, 1], [3, 1]]", "best") if word not in out] == []
    best = json.loads((searched / "out" / "best.json").read_text())
    scores = [json.loads(path.read_text())["scores"] for path in (searched / "out").glob("candidate.*.json")]
    assert best["score"] == max(sum(one) / len(one) for one in scores)
    assert best["changes"]["classifier.class_weight"] == "balanced"
    command = shlex.split(out.splitlines()[-1])
    assert command[:4] == ["ddsfl", "train", str(searched / "my photos"), "--out"]
    assert command[-2:] == ["--seed", "2"]
    changes = [value for option, value in itertools.pairwise(command) if option == "--set"]
    assert changed_settings(best["preset"], changes).to_json() == best["settings"]
    code, again, err = ddsfl(*arguments, *TINY_OPTIONS)
    assert (code, again) == (0, out)
    assert "layer 1" not in err  # all candidates are read from their files
    command[4] = str(tmp_path / "model")
    assert run_program(*command[1:]) == 0


def test_strict_refuses_damaged_images(ddsfl, tmp_path):
    paths = write_scenes(tmp_path / "set", classes=2)
    paths[0].write_text("not an image")
    code, _, err = ddsfl("search", tmp_path / "set", "--out", tmp_path / "out", "--strict", *TINY_OPTIONS)
    assert code == 1
    assert "--strict: 1 problem(s) with the images" in err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--try", "eta"], "--try eta: expected NAME=A,B,..."),
        (["--try", "eta="], "--try eta=: expected NAME=A,B,..."),
        (["--try", "eta=a"], "--try eta=a: setting layers.bank.eta: found 'a'; expected a number"),
        (["--try", "layers.size=1,2"], "--try layers.size=1: "),
        (["--try", "words=many"], "--try words=many: expected a number of words, half or double"),
        (["--try", "preset=quick,huge"], "--try preset=huge: "),
        (["--try", "colour=gray"], "--try colour: none of the values changes the starting settings"),
        (["--over", "everything"], "--over is 'everything'; expected everyday or weights"),
        (["--folds", "1"], "Invalid value for '--folds'"),
        (["--balanced", "--set", "classifier.class_weight=null"], "exclude each other"),
    ],
)
def test_mistakes_are_named_before_any_image_is_read(ddsfl, searched, tmp_path, options, words):
    code, out, err = ddsfl("search", searched / "my photos", "--out", tmp_path / "new", *options)
    assert (code, out) == (2, "")
    assert words in " ".join(err.replace("\u2502", " ").split())
    assert "Traceback" not in err
    assert not (tmp_path / "new").exists()

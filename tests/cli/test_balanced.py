"""--balanced on drawn scenes: 25 of one class and 3 of the other."""

import json

import pytest

from ddsfl.model.classifier import SceneClassifier
from tests.support.tiny import TINY_OPTIONS, write_scenes

#: One short vector per image: in many dimensions so few images are separable, and weights change little.
BLOCK = {"name": "sift", "source": "sift", "coding": {"method": "llc", "n_words": 30}, "levels": [[1, 1]]}
SHORT_OPTIONS = ["--set", "layers=[]", "--set", f"blocks={json.dumps([BLOCK])}"]


@pytest.fixture(scope="module")
def uneven(tmp_path_factory):
    folder = tmp_path_factory.mktemp("uneven")
    _, large, small = by_class(write_scenes(folder / "all", n_per_class=25))
    for path in (*large, *small[:3]):
        (folder / "set" / path.parent.name).mkdir(parents=True, exist_ok=True)
        path.rename(folder / "set" / path.parent.name / path.name)
    return folder / "set"


def by_class(paths):
    return [paths[start : start + 25] for start in range(0, len(paths), 25)]


def test_the_small_class_is_recalled_at_least_as_often(ddsfl, uneven, tmp_path):
    small = sorted(path.name for path in uneven.iterdir())[1]
    right = {}
    for name, options in (("plain", []), ("balanced", ["--balanced"])):
        code, _, _ = ddsfl("evaluate", uneven, "--out", tmp_path / name, *options, *SHORT_OPTIONS)
        assert code == 0
        cells = [json.loads(path.read_text()) for path in (tmp_path / name).glob("*.json")]
        rows = [row for cell in cells for row in cell["images"] if row["true"] == small]
        assert len(rows) == 3
        right[name] = sum(row["predicted"] == small for row in rows)
        weights = {cell["settings"]["classifier"].get("class_weight") for cell in cells}
        assert weights == {"balanced" if options else None}
    assert right["balanced"] >= max(1, right["plain"])


def test_a_model_records_that_it_is_balanced(ddsfl, uneven, tmp_path):
    assert ddsfl("train", uneven, "--out", tmp_path / "m", "--balanced", *TINY_OPTIONS)[0] == 0
    model = SceneClassifier.load(tmp_path / "m")
    assert model.settings_.changes["classifier.class_weight"] == "balanced"
    assert model.settings_.classifier["class_weight"] == "balanced"


@pytest.mark.parametrize("command", ["train", "evaluate", "search"])
def test_another_class_weight_contradicts_it(ddsfl, uneven, tmp_path, command):
    options = ["--balanced", "--set", 'classifier.class_weight={"a": 2}', "--out", tmp_path / "out"]
    code, _, err = ddsfl(command, uneven, *options)
    assert code == 2
    words = '--balanced and --set classifier.class_weight={"a": 2} exclude each other'
    assert words in " ".join(err.replace("\u2502", " ").split())
    assert not (tmp_path / "out").exists()

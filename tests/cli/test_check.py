"""`ddsfl check` finds every planted fault and nothing else."""

import json
import shutil

import numpy as np
import pytest
from PIL import Image, ImageEnhance
from studies.strange_images import strange_image

from ddsfl.images.scenes import make_scenes
from ddsfl.model.classifier import SceneClassifier
from tests.support.program import run_program
from tests.support.tiny import TINY_OPTIONS

CLASSES = ("facade", "field", "forest")


@pytest.fixture(scope="module")
def scenes():
    """Drawn scenes in abundance, by class."""
    images, labels = make_scenes(24, random_state=7, size=96)
    return {
        name: [Image.fromarray(p) for p, label in zip(images, labels) if label == name] for name in CLASSES
    }


def write_clean(folder, scenes, n_per_class=12):
    for name in CLASSES:
        (folder / name).mkdir(parents=True)
        for number in range(n_per_class):
            scenes[name][number].save(folder / name / f"{number:02}.png")
    return folder


@pytest.fixture
def clean(tmp_path, scenes):
    return write_clean(tmp_path / "set", scenes)


def found(ddsfl, *arguments):
    """Return the findings by kind: files of each item relative to the set, or its labels, or its detail."""
    code, out, _ = ddsfl("check", *arguments, "--json")
    assert code == 0
    kinds = {}
    for finding in json.loads(out)["findings"]:
        assert finding["severity"] in ("error", "warning", "note")
        assert finding["advice"].endswith(".")
        items = []
        for item in finding["items"]:
            names = ["/".join(file.split("/")[-2:]) for file in item.get("files", [])]
            items.append(tuple(names) or tuple(item.get("labels", ())) or item["detail"])
        kinds[finding["kind"]] = items
    return kinds


def test_nothing_is_found_in_a_clean_set(ddsfl, clean):
    code, out, err = ddsfl("check", clean, "--strict")
    assert (code, out) == (0, "")
    assert err.splitlines()[-1] == "36 images of 3 classes: nothing found"
    assert found(ddsfl, clean) == {}


@pytest.fixture(scope="module")
def planted(tmp_path_factory, scenes):
    """A set with one fault of every kind that can be seen without a split and without a model."""
    place = tmp_path_factory.mktemp("planted")
    root = write_clean(place / "set", scenes)
    spare = {name: iter(images[12:]) for name, images in scenes.items()}
    (root / "facade" / "broken.png").write_text("not an image")
    next(spare["field"]).save(root / "loose.png")
    (root / "facade" / "notes.txt").write_text("not an image")
    (root / "facade" / "raw").write_text("not an image")
    next(spare["facade"]).save(place / "outside.png")
    (root / "facade" / "link.png").symlink_to(place / "outside.png")
    (root / "forest\u200b").mkdir()
    for number in range(2):
        next(spare["forest"]).save(root / "forest\u200b" / f"{number}.png")
    (root / "lone").mkdir()
    next(spare["field"]).save(root / "lone" / "a.png")
    shutil.copy(root / "facade" / "03.png", root / "field" / "copy3.png")
    scenes["facade"][4].save(root / "facade" / "copy4.bmp")
    scenes["facade"][5].resize((48, 48)).save(root / "field" / "near5.png")
    brighter = ImageEnhance.Brightness(scenes["forest"][6]).enhance(1.15)
    brighter.save(root / "forest" / "near6.jpg", quality=50)
    rng = np.random.default_rng(0)
    for number in range(3):
        flat = (60 * number + 50 + rng.normal(0, 0.5, (96, 96))).astype(np.uint8)
        Image.fromarray(flat).save(root / "forest" / f"flat{number}.png")
    Image.fromarray(rng.integers(0, 256, (9, 12), np.uint8)).save(root / "forest" / "tiny.png")
    Image.fromarray(rng.integers(0, 256, (60, 300), np.uint8)).save(root / "forest" / "banner.png")
    for kind in ("RGB", "RGBA", "P", "CMYK"):
        suffix = "tif" if kind == "CMYK" else "png"
        next(spare["field"]).convert("RGB").convert(kind).save(root / "field" / f"{kind}.{suffix}")
    deep = np.asarray(next(spare["field"]), np.uint16) * 257
    Image.fromarray(deep).save(root / "field" / "deep.png")
    frames = [next(spare["field"]), next(spare["field"])]
    frames[0].save(root / "field" / "moving.gif", save_all=True, append_images=frames[1:])
    return root


PLANTED = {
    "unreadable": [("facade/broken.png",)],
    "left-out": ["1 image in ROOT left out: outside any class folder."],
    "labels": [("forest", "forest\u200b")],
    "single": [("lone",)],
    "copies-labels": [("facade/03.png", "field/copy3.png")],
    "copies": [("facade/04.png", "facade/copy4.bmp")],
    "near-copies-labels": [("facade/05.png", "field/near5.png")],
    "near-copies": [("forest/06.png", "forest/near6.jpg")],
    "leaving": [("facade/link.png",)],
    "flat": [(f"forest/flat{number}.png",) for number in range(3)],
    "too-small": [("forest/tiny.png",)],
    "small": [("forest\u200b",)],
    "imbalance": [("field", "forest\u200b")],
    "size": [("forest/banner.png",)],
    "kind": [
        (f"field/{name}",) for name in ("CMYK.tif", "P.png", "RGB.png", "RGBA.png", "deep.png", "moving.gif")
    ],
    "ignored": ["1 without suffix", "1 .txt"],
}


def test_every_planted_fault_is_found_and_none_other(ddsfl, planted):
    [loose] = PLANTED["left-out"]
    assert found(ddsfl, planted) == {**PLANTED, "left-out": [loose.replace("ROOT", str(planted))]}


def test_the_table_names_each_kind_and_what_to_do(ddsfl, planted):
    code, out, err = ddsfl("check", planted)
    assert code == 0
    listed = json.loads(ddsfl("check", planted, "--json")[1])["findings"]
    for finding in listed:
        assert finding["title"] in out
        assert finding["advice"] in out
    assert "facade/03.png, field/copy3.png" in out
    assert "facade/broken.png: it is not an image of a known format" in out
    assert "'forest': 18 images, 'forest\\u200b': 2 images" in out
    assert "forest/banner.png: 300 x 60" in out
    assert "and 3 more" in out
    assert "\x1b[" not in out  # colour only on a terminal
    assert f"{len(PLANTED)} kinds of findings" in err
    [kinds] = [finding["items"] for finding in listed if finding["kind"] == "kind"]
    details = [item["detail"] for item in kinds]
    assert details[:5] == ["CMYK", "palette", "colour", "alpha", "16 bit"]
    assert details[5].endswith("several frames")
    severities = [finding["severity"] for finding in listed]
    assert severities == sorted(severities, key=["error", "warning", "note"].index)
    assert {finding["kind"] for finding in listed if finding["severity"] == "error"} == {
        "unreadable", "left-out", "labels", "single", "copies-labels",
    }  # fmt: skip


def test_strict_exits_with_1_for_warnings_but_not_for_notes(ddsfl, planted, clean):
    assert ddsfl("check", planted, "--strict")[0] == 1
    (clean / "notes.txt").write_text("a note")
    assert ddsfl("check", clean, "--strict")[0] == 0
    shutil.copy(clean / "field" / "00.png", clean / "field" / "again.png")
    assert ddsfl("check", clean, "--strict")[0] == 1


@pytest.fixture
def leaking(clean):
    """Copies of training images with other names: one exact, one near."""
    shutil.copy(clean / "field" / "00.png", clean / "field" / "again.png")
    Image.open(clean / "forest" / "00.png").resize((70, 70)).save(clean / "forest" / "again.png")
    return clean


def test_the_same_image_in_both_lists(ddsfl, leaking, tmp_path):
    names = sorted(f"{path.parent.name}/{path.name}" for path in leaking.rglob("*.png"))
    train = [name for name in names if name[-6:] < "09.png"]
    (tmp_path / "train.txt").write_text("\n".join(train))
    (tmp_path / "test.txt").write_text("\n".join(name for name in names if name not in train))
    lists = ["--train-list", tmp_path / "train.txt", "--test-list", tmp_path / "test.txt"]
    kinds = found(ddsfl, leaking, *lists)
    assert kinds == {
        "copies-split": [("field/00.png", "field/again.png")],
        "near-copies-split": [("forest/00.png", "forest/again.png")],
        "small": [(name,) for name in CLASSES],  # nine of each in the list
    }
    code, _, err = ddsfl("evaluate", leaking, "--protocol", "lists", *lists, "--strict", *TINY_OPTIONS)
    assert code == 1
    assert "error: same image in training and test (1): field/00.png, field/again.png." in err
    assert "warning: almost the same image in training and test (1): forest/00.png, forest/again.png." in err
    assert err.splitlines()[-1] == "ddsfl: --strict: 1 error(s) in the image set; `ddsfl check` lists them."
    assert "layer 1" not in err


def test_the_same_image_in_two_sets(ddsfl, leaking, tmp_path, scenes):
    for name in CLASSES:
        (tmp_path / "test" / name).mkdir(parents=True)
        scenes[name][20].save(tmp_path / "test" / name / "20.png")
    for name in ("field", "forest"):
        shutil.move(leaking / name / "again.png", tmp_path / "test" / name / "again.png")
    shutil.copy(leaking / "facade" / "00.png", leaking / "facade" / "twice.png")
    (tmp_path / "test" / "notes.txt").write_text("not an image")
    scenes["field"][22].save(tmp_path / "test" / "loose.png")
    scenes["field"][23].save(tmp_path / "outside.png")
    (tmp_path / "test" / "field" / "link.png").symlink_to(tmp_path / "outside.png")
    (tmp_path / "test" / "Forest").mkdir()
    scenes["forest"][21].save(tmp_path / "test" / "Forest" / "21.png")
    assert found(ddsfl, leaking, "--test", tmp_path / "test") == {
        "left-out": [f"1 image in {tmp_path / 'test'} left out: outside any class folder."],
        "labels": [("Forest", "forest")],
        "copies-split": [("field/00.png", "field/again.png")],
        "copies": [("facade/00.png", "facade/twice.png")],
        "leaving": [("field/link.png",)],
        "ignored": ["1 .txt"],
        "near-copies-split": [("forest/00.png", "forest/again.png")],
    }


def test_several_labels_per_image(ddsfl, clean):
    rows = [f"{path},{path.parent.name};all" for path in sorted(clean.rglob("*.png"))]
    shutil.copy(clean / "field" / "00.png", clean / "field" / "a.png")
    shutil.copy(clean / "field" / "01.png", clean / "field" / "b.png")
    rows += [f"{clean}/field/a.png,all;field", f"{clean}/field/b.png,field"]
    (clean / "list.csv").write_text("\n".join(["path,label", *rows]))
    assert found(ddsfl, clean / "list.csv") == {
        "copies-labels": [("field/01.png", "field/b.png")],
        "copies": [("field/00.png", "field/a.png")],
    }


@pytest.fixture(scope="module")
def labelled(tmp_path_factory):
    """Stripes in three directions and a model of them; then one image gets a wrong label."""
    place, rng = tmp_path_factory.mktemp("labelled"), np.random.default_rng(0)
    y, x = np.mgrid[:64, :64]
    for name, across, down in (("lying", 0, 1), ("standing", 1, 0), ("leaning", 0.7, 0.7)):
        (place / "set" / name).mkdir(parents=True)
        for number in range(10):
            stripes = np.sin((0.6 + 0.03 * number) * (across * x + down * y) + 2 * number)
            pixels = 128 + 60 * stripes + rng.normal(0, 12, x.shape)
            Image.fromarray(pixels.astype(np.uint8)).save(place / "set" / name / f"{number}.png")
    assert run_program("train", place / "set", "--out", place / "m", "--quiet", *TINY_OPTIONS) == 0
    (place / "set" / "lying" / "4.png").rename(place / "set" / "standing" / "wrong.png")
    return place


def test_a_model_finds_wrong_labels_and_images_that_do_not_belong(ddsfl, labelled, monkeypatch):
    def novelty(model, images):
        return np.array([1.5 if str(path).endswith("lying/7.png") else 0.5 for path in images.sources])

    monkeypatch.setattr(SceneClassifier, "novelty", novelty)
    kinds = found(ddsfl, labelled / "set", "--model", labelled / "m")
    assert kinds["doubtful"] == [("standing/wrong.png",)]
    assert kinds["novel"] == [("lying/7.png",)]
    code, out, _ = ddsfl("check", labelled / "set", "--model", labelled / "m", "--strict")
    assert code == 0
    assert "standing/wrong.png: rather 'lying'" in out


def test_a_model_without_novelty_still_doubts_labels(ddsfl, labelled, monkeypatch, tmp_path):
    """Also if a label has a single image, which cannot be in two folds."""
    shutil.copytree(labelled / "set", tmp_path / "set")
    (tmp_path / "set" / "lone").mkdir()
    shutil.move(tmp_path / "set" / "leaning" / "0.png", tmp_path / "set" / "lone" / "0.png")

    old = SceneClassifier.load(labelled / "m", device="cpu")
    old.novelty_ = None
    monkeypatch.setattr("ddsfl.cli.check.load_model", lambda *_: old)
    code, out, err = ddsfl("check", tmp_path / "set", "--model", labelled / "m")
    assert code == 0
    assert "standing/wrong.png: rather 'lying'" in out
    assert "novelty is unknown" in err


def test_noise_among_the_images_does_not_belong(ddsfl, labelled, tmp_path):
    shutil.copytree(labelled / "set", tmp_path / "set")
    Image.fromarray(strange_image("uniform noise", 0)).save(tmp_path / "set" / "lying" / "noise.png")
    assert ("lying/noise.png",) in found(ddsfl, tmp_path / "set", "--model", labelled / "m")["novel"]


def test_train_prints_one_line_per_kind_and_strict_refuses_errors_only(
    ddsfl, planted, clean, tmp_path, monkeypatch, capsys
):
    shutil.copy(clean / "field" / "00.png", clean / "field" / "again.png")
    (clean / "notes.txt").write_text("a note")
    train = ["train", clean, "--out", tmp_path / "m", "--strict", *TINY_OPTIONS]
    code, _, err = ddsfl(*train, "--quiet")
    assert code == 0
    assert err == (
        "  - warning: same image more than once (1): field/00.png, field/again.png. "
        "Keep one of each; random splits put copies on both sides.\n"
    )
    (clean / "field" / "again.png").rename(clean / "forest" / "again.png")
    code, _, err = ddsfl(*train)
    assert code == 1
    assert "  - error: same image with different labels (1): field/00.png, forest/again.png. Keep" in err
    assert "1 file ignored: 1 .txt." in err.splitlines()
    assert err.splitlines()[-1] == "ddsfl: --strict: 1 error(s) in the image set; `ddsfl check` lists them."
    monkeypatch.setattr("ddsfl.model.classifier.SceneClassifier.fit", None)  # ends after reading
    with pytest.raises(TypeError):
        ddsfl("train", planted, "--out", tmp_path / "n", *TINY_OPTIONS)
    err = capsys.readouterr().err
    lines = [line for line in err.splitlines() if line.startswith("  - ")]
    assert len(lines) == 1 + 3 + 8  # the problems and their number, as before; then the kinds
    assert lines[-1] == "  - 5 more kinds; `ddsfl check` lists all."


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--train-list", "a"], "--train-list and --test-list need each other"),
        (
            ["--train-list", "a", "--test-list", "b", "--test", "c"],
            "--test and --train-list exclude each other",
        ),
        (["--preset", "huge"], "--preset huge is unknown"),
    ],
)
def test_wrong_calls(ddsfl, clean, options, words):
    code, _, err = ddsfl("check", clean, *options)
    assert code == 2
    assert words in " ".join(err.replace("│", " ").split())

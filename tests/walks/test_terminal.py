"""The first hour of a person who has folders of photos and a terminal, step by step."""

import csv
import io
import json
import shutil

import numpy as np
import pytest
from PIL import Image

from ddsfl import SceneClassifier, make_scenes
from tests.support.terminal import Desk
from tests.support.tiny import TINY_OPTIONS

pytestmark = pytest.mark.slow

COUNTS = {"beach": 12, "forest": 9, "Küche": 9, "living room": 8, "street": 8}
QUICKLY = " ".join(TINY_OPTIONS)
TRAIN = f"ddsfl train photos --out 'my model.safetensors' {QUICKLY}"


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    """A folder with photos in class folders, whose names have blanks and umlauts."""
    folder = tmp_path_factory.mktemp("desk")
    scenes, _ = make_scenes(max(COUNTS.values()), random_state=3, size=96)
    for place, (name, count) in enumerate(COUNTS.items()):
        (folder / "photos" / name).mkdir(parents=True)
        for number in range(count):
            scene = scenes[place * max(COUNTS.values()) + number]
            Image.fromarray(scene).save(folder / "photos" / name / f"img {number:02}.jpg", quality=92)
    return Desk(folder)


@pytest.fixture(scope="module")
def trained(desk):
    """The same folder after the training of the third step."""
    seen = desk.type(TRAIN)
    assert seen.code == 0, seen.err
    return desk


def test_1_what_is_this(desk):
    version, program, misspelt = desk.type_all("ddsfl --version", "ddsfl --help", "ddsfl trian photos")
    assert version.out.startswith("ddsfl ")
    for command in ("check", "train", "predict", "evaluate", "encode", "inspect", "search"):
        assert f"│ {command} " in program.out
    assert misspelt.code == 2
    assert "Did you mean 'train'?" in misspelt.err
    help_of_train = desk.watch("ddsfl train --help", columns=70).out
    lines = [line.strip() for line in help_of_train.splitlines()]
    # Text is wrapped for this terminal, and flags do not look as if a value had to follow.
    assert "model at --out is kept unless --overwrite is given. With --engine," in lines
    assert "<bool>" not in help_of_train


def test_2_are_my_photos_all_right(desk):
    photos = desk.folder / "photos"
    faults = desk.folder / "photos with faults"
    shutil.copytree(photos, faults)
    shutil.copy(photos / "beach" / "img 00.jpg", faults / "forest" / "also forest.jpg")
    shutil.copy(photos / "beach" / "img 01.jpg", faults / "beach" / "img 01 (1).jpg")
    shutil.copy(photos / "beach" / "img 02.jpg", faults / "outside.jpg")
    (faults / "street" / "cut off.jpg").write_bytes((photos / "street" / "img 00.jpg").read_bytes()[:700])
    (faults / "street" / "notes.txt").write_text("nothing")
    Image.new("L", (96, 96)).save(faults / "street" / "lens cap.png")
    (faults / "Street").mkdir()
    Image.open(photos / "street" / "img 03.jpg").rotate(90).save(faults / "Street" / "turned.jpg")

    found, strict, one_class = desk.type_all(
        "ddsfl check 'photos with faults'",
        "ddsfl check 'photos with faults' --strict --json | python3 -m json.tool > /dev/null",
        "ddsfl check photos/beach",
    )
    assert found.code == 0
    for words in (
        "cannot be read", "street/cut off.jpg",
        "outside any class folder",
        "labels that look alike", "'Street': 1 image, 'street': 10 images",
        "same image with different labels", "- beach/img 00.jpg, forest/also forest.jpg",
        "same image more than once", "- beach/img 01 (1).jpg, beach/img 01.jpg",
        "images of one tone", "- street/lens cap.png",
        "files ignored because of their suffix", "1 .txt",
    ):  # fmt: skip
        assert words in found.out
    assert strict.code == 1
    assert "expected one folder of images per class" in one_class.err


def test_3_train_with_the_usual_mistakes(desk):
    mistakes = {
        "ddsfl train photos --out m --preset quik": "did you mean 'quick'?",
        "ddsfl train photos --out 'photos/beach/img 00.jpg/m'": "is a file, not a folder",
    }
    for seen, words in zip(desk.type_all(*mistakes), mistakes.values()):
        assert seen.code == 2
        assert words in " ".join(seen.err.replace("│", "").split())
        assert "Traceback" not in seen.err
    assert sorted(path.name for path in desk.folder.glob("m*")) == []


def test_4_ctrl_c_and_go_on(desk):
    longer = "--set layers.bank.max_iter=2000 --set layers.patches_per_image=300"  # to be caught in
    command = f"ddsfl train photos --out later.safetensors {QUICKLY} {longer}"
    model, stages = desk.folder / "later.safetensors", desk.folder / "later.safetensors.stages"
    seen = desk.watch(command, stop_when=lambda: any(stages.glob("layer1.space.*")))
    assert seen.code == 130
    assert seen.out.startswith("| starting ...")  # before torch is imported, which takes seconds
    assert seen.out.endswith("ddsfl: interrupted; rerun the same command to resume.\n")
    assert not model.exists()
    again = desk.type(f"{command} 2> log.txt")
    log = (desk.folder / "log.txt").read_text()
    assert (again.code, again.out) == (0, "")
    assert "layer 1: principal axes: reused from an earlier run\n" in log
    assert "\r" not in log
    assert "46 images of 5 classes\n" in log
    assert log.splitlines()[-1].startswith("later.safetensors: 5 classes")
    assert model.exists()
    assert not stages.exists()


def test_5_train_once_more(trained):
    model = trained.folder / "my model.safetensors"
    before = model.read_bytes()
    same, other = map(trained.type, (TRAIN, f"{TRAIN} --seed 1"))  # not at once: one holds the output
    assert same.code == 0
    assert "my model.safetensors: already trained with these images and settings" in same.err
    assert other.code == 1
    assert "Use --overwrite to replace it, or choose another --out." in other.err
    assert model.read_bytes() == before
    shutil.copy(model, trained.folder / "copy.safetensors")
    train_copy = TRAIN.replace("my model", "copy")
    assert trained.type(f"{train_copy} --balanced --overwrite --quiet") == (0, "", "")
    replaced = SceneClassifier.load(trained.folder / "copy.safetensors", device="cpu")
    assert replaced.settings_.classifier["class_weight"] == "balanced"


def test_6_predict(trained):
    ask = "ddsfl predict 'my model.safetensors'"
    narrow = trained.watch(f"{ask} 'photos/living room'", columns=65)
    assert narrow.code == 0
    # A narrow terminal gets fewer columns, not words broken into pieces.
    assert "│ photos/living room/img 00.jpg │" in narrow.out
    assert "next" not in narrow.out

    watched = trained.watch(f"{ask} photos --json > labels.json")
    assert "classify" in watched.out  # progress for a person while the data go to a file
    rows = json.loads((trained.folder / "labels.json").read_text())
    assert len(rows) == 46
    assert np.mean([row["label"] in row["path"] for row in rows]) > 0.6

    first_lines, closed, swapped, ascii_only = trained.type_all(
        f"{ask} photos --csv | head -2; exit ${{PIPESTATUS[1]}}",
        f"{ask} 'photos/beach/img 00.jpg' --csv | true; exit ${{PIPESTATUS[1]}}",
        "ddsfl predict photos 'my model.safetensors'",
        f"LC_ALL=C PYTHONUTF8=0 PYTHONCOERCECLOCALE=0 {ask} photos/Küche",
    )
    header, row = csv.reader(io.StringIO(first_lines.out))
    assert dict(zip(header, row))["path"] == "photos/Küche/img 00.jpg"
    assert closed == (0, "", "")  # nothing about a broken pipe
    assert swapped.code == 2
    assert "MODEL photos is a folder" in swapped.err
    assert ascii_only.code == 0
    assert r"K\xfcche" in ascii_only.out
    assert "next" in ascii_only.out


def test_7_how_good_is_it(trained):
    seen, too_few = trained.type_all(
        f"ddsfl evaluate photos --folds 2 --groups 'img [0-9]+' --balanced --out results {QUICKLY}",
        f"ddsfl evaluate photos --train 30 {QUICKLY}",
    )
    assert seen.code == 0, seen.err
    for words in ("fold 2 of 2", "mean class accuracy", "recall", "true class", "living room"):
        assert words in seen.out
    assert (trained.folder / "results" / "confusion.png").exists()
    assert "--train 30 needs at least 31 images per class; class" in too_few.err


def test_8_search_and_train_with_what_it_found(trained):
    seen = trained.type(f"ddsfl search photos --out tried --folds 2 --try C=1,10 {QUICKLY}")
    assert seen.code == 0, seen.err
    assert "candidates x 2 folds" in seen.err
    assert "best" in seen.out
    command = seen.out.splitlines()[-1]
    assert command.startswith("ddsfl train photos --out model.safetensors")
    done = trained.type(command)
    assert done.code == 0, done.err
    assert (trained.folder / "model.safetensors").exists()


def test_9_look_inside_and_take_the_vectors_along(trained):
    inside, vectors = trained.type_all(
        "ddsfl inspect 'my model.safetensors'",
        "ddsfl encode 'my model.safetensors' photos --out vectors.npz"
        " && ddsfl encode 'my model.safetensors' photos --out vectors.npz",
    )
    assert inside.code == 0
    for words in ("46 images", "layers.bank.n_filters = 10", "Küche", "layer 1: filter bank"):
        assert words in inside.out
    pictures = [line for line in inside.out.splitlines() if line.endswith(".png")]
    assert pictures
    for picture in pictures:
        Image.open(trained.folder / picture).verify()
    assert (vectors.code, vectors.err.splitlines()[-1]) == (
        1,
        "ddsfl: vectors.npz exists. Use --overwrite to replace it, or choose another --out.",
    )
    with np.load(trained.folder / "vectors.npz") as stored:
        assert len(stored["paths"]) == len(stored["vectors"]) == 46

"""Names that a terminal would obey, a spreadsheet would run or rich would read as markup."""

import csv
import io
import json
import os
import shutil
import sys

import pytest

from tests.support.program import run_program
from tests.support.terminal import Desk
from tests.support.tiny import TINY_OPTIONS, write_scenes

#: An escape code, a line break, a mark of direction, markup, a C1 code, a byte that is no text.
NASTY = "=a\x1b[31m\nb\u202ec[red]d\x9b2J" + os.fsdecode(b"\xe9")
ESCAPED = r"=a\x1b[31m\nb\u202ec[red]d\x9b2J\xe9"
OBEYED = "\x1b\u202e\x9b\r\x07"


@pytest.fixture(scope="module")
def scenes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scenes") / NASTY
    paths = write_scenes(folder)
    for number, place in enumerate(sorted({path.parent for path in paths})):
        place.rename(folder / f"{NASTY}{number}")
    first = next(folder.rglob("*.png"))
    shutil.copy(first, first.with_name(f"{NASTY}.png"))
    first.with_name(f"{NASTY}bad.png").write_text("not an image")
    return folder


@pytest.fixture(scope="module")
def model(scenes):
    path = scenes.with_name(f"{NASTY}.model")
    assert run_program("train", scenes, "--out", path, *TINY_OPTIONS) == 0
    return path


def is_neutral(text):
    return not any(sign in text for sign in OBEYED)


def rows_of(*arguments):
    """Return the rows that a command prints as CSV; names may have bytes that are no text."""
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, "utf-8", newline="", write_through=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdout", stream)
        assert run_program(*arguments) == 0
    return list(csv.DictReader(io.StringIO(raw.getvalue().decode(errors="surrogateescape"), newline="")))


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["train", "SET", "--out", "OUT", *TINY_OPTIONS], 0),
        (["check", "SET"], 0),
        (["check", "SET", "--model", "MODEL"], 0),
        (["predict", "MODEL", "SET"], 0),
        (["predict", "MODEL", "SET", "--json"], 0),
        (["evaluate", "SET", "--folds", 2, "--out", "OUT", *TINY_OPTIONS], 0),
        (["compare", "SET", "--folds", 2, "--out", "OUT", *TINY_OPTIONS], 0),
        (["compare", "SET", "--methods", f"quick,{NASTY}"], 2),
        (["inspect", "MODEL", "--out", "OUT"], 0),
        (["explain", "MODEL", "SET", "--out", "OUT.html"], 0),
        (["encode", "MODEL", "SET", "--out", "OUT.csv"], 0),
        (["search", "SET", "--out", "OUT", "--folds", 2, "--try", "classifier.C=1,2", *TINY_OPTIONS], 0),
        (["datasets", "check", "scene15", "SET"], 1),
        (["predict", "MODEL", f"{NASTY}/nothing"], 1),
        (["predict", f"{NASTY}/nothing", "SET"], 1),
        (["predict", "MODEL", "SET", "--device", NASTY], 1),
        (["explain", "MODEL", "SET", "--classes", NASTY, "--json"], 2),
        (["train", "SET", "--out", "OUT", "--preset", NASTY], 2),
        (["train", "SET", "--out", "OUT", "--set", NASTY[1:]], 2),
        (["train", "SET", "--out", "OUT", "--set", f"{NASTY[1:]}=1"], 2),
        (["train", "SET", "--out", "OUT", f"--{NASTY[1:]}"], 2),
        (["datasets", NASTY], 2),
        (["datasets", "check", NASTY, "SET"], 1),
        (["reproduce", NASTY], 2),
        ([NASTY], 2),
    ],
    ids=lambda value: (
        " ".join(map(str, value[:2])).replace(NASTY, "NASTY") if isinstance(value, list) else ""
    ),
)
def test_every_command_shows_names_escaped(ddsfl, scenes, model, tmp_path, arguments, code):
    places = {"SET": scenes, "MODEL": model}
    given = [places.get(one) or str(one).replace("OUT", str(tmp_path / NASTY)) for one in arguments]
    found, out, err = ddsfl(*given)
    assert (found, is_neutral(out + err)) == (code, True), out + err
    # Rich folds long messages of wrong calls into a box.
    shown = (out + err).replace("\n", "").replace("│", "").replace(" ", "")
    if "--json" not in arguments:
        assert r"\x1b[31m" in shown


def test_one_line_per_image(ddsfl, scenes, model):
    _, out, _ = ddsfl("predict", model, scenes)
    rows = [line for line in out.splitlines() if line.startswith("│")]
    assert len(rows) == 13
    assert all(ESCAPED in row for row in rows)


def test_csv_is_quoted_unless_raw_and_json_is_exact(ddsfl, scenes, model, tmp_path, monkeypatch):
    monkeypatch.chdir(scenes.parent)
    place = next(scenes.glob("*0")).relative_to(scenes.parent)  # begins with "="
    quoted = rows_of("predict", model, place, "--csv")
    raw = rows_of("predict", model, place, "--csv", "--raw")
    exact = json.loads(ddsfl("predict", model, place, "--json")[1])
    assert [f"'{row['path']}" for row in exact] == [row["path"] for row in quoted]
    assert [row["path"] for row in exact] == [row["path"] for row in raw]
    assert [f"'{row['label']}" for row in exact] == [row["label"] for row in quoted]
    assert float(quoted[0]["novelty"]) == float(raw[0]["novelty"])  # numbers stay numbers
    assert list(quoted[0])[-1] == f"'{list(raw[0])[-1]}"  # names of columns too
    code, _, err = ddsfl("predict", model, place, "--raw")
    assert code == 2
    assert "--raw needs --csv" in err


def test_a_table_of_vectors_comes_back(ddsfl, scenes, model, tmp_path, monkeypatch):
    from ddsfl.descriptors.table import read_table

    monkeypatch.chdir(scenes.parent)
    place = next(scenes.glob("*0")).relative_to(scenes.parent)
    tables = {}
    for name, options in (("quoted.csv", []), ("raw.csv", ["--raw"]), ("exact.npz", [])):
        assert ddsfl("encode", model, place, "--out", tmp_path / name, *options)[0] == 0
        tables[name] = read_table(tmp_path / name)[0]
    assert tables["quoted.csv"] == tables["raw.csv"] == tables["exact.npz"]
    assert (tmp_path / "quoted.csv").read_bytes().splitlines()[1].startswith((b"'=", b"\"'="))
    code, _, err = ddsfl("encode", model, place, "--out", tmp_path / "v.npz", "--raw")
    assert code == 2
    assert "--raw needs a name that ends in .csv" in err


def test_predictions_serve_as_a_list_of_images(ddsfl, tmp_path, monkeypatch):
    """A label and a path that a spreadsheet would run come back from a quoted list."""
    monkeypatch.chdir(tmp_path)
    paths = write_scenes(tmp_path)
    (tmp_path / "=1").mkdir()
    rows = ["path,label"]
    for path in paths:
        path.rename(tmp_path / "=1" / path.name)
        rows.append(f"'=1/{path.name},'-{path.parent.name}")
    (tmp_path / "list.csv").write_text("\n".join(rows))
    code, out, _ = ddsfl("check", "list.csv")
    assert code == 0
    assert "'-facade': 4 images" in out


@pytest.mark.slow
def test_a_terminal_gets_no_escape_code_of_a_name(scenes, model, tmp_path):
    (tmp_path / "desk").mkdir()
    desk = Desk(tmp_path / "desk")
    for name, place in (("set", scenes), ("model", model)):
        (desk.folder / name).symlink_to(place)
    seen = desk.watch("ddsfl predict model set/*0", columns=400)  # which removes our own colours
    assert seen.code == 0, seen.out
    assert is_neutral(seen.out.replace("\r", ""))
    assert ESCAPED in seen.out

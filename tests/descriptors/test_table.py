import hashlib
import io
import os
import tracemalloc

import numpy as np
import pytest

from ddsfl.descriptors.table import TableFeatures, match_paths, read_table

PATHS = ["coast/1.jpg", "forest/1.jpg", "forest/2.jpg"]
VECTORS = np.array([[1, 2], [3, 4], [5.5, -6e-3]], np.float32)


def npz(path, paths=PATHS, vectors=VECTORS):
    np.savez(path, paths=np.array(paths), vectors=vectors)
    return path


@pytest.fixture(params=["npz", "csv", "headed"])
def table(request, tmp_path):
    if request.param == "npz":
        return npz(tmp_path / "deep.npz")
    lines = [",".join([path, *map(str, row)]) for path, row in zip(PATHS, VECTORS.tolist())]
    head = ["path,0,a"] if request.param == "headed" else []
    (tmp_path / "deep.csv").write_text("\n".join([*head, *lines, ""]))
    return tmp_path / "deep.csv"


def test_rows_are_found_in_the_order_asked_for(table):
    steps = []
    sources = ["/data/forest/2.jpg", table.parent / "coast/1.jpg", "/data/forest/1.jpg", "/data/forest/2.jpg"]
    vectors = TableFeatures(table).vectors(sources, progress=lambda *step: steps.append(step))
    assert vectors.dtype == np.float32
    assert np.array_equal(vectors, VECTORS[[2, 0, 1, 2]])
    assert steps == [(4, 4)]
    assert TableFeatures(table).fingerprint() == hashlib.sha256(table.read_bytes()).hexdigest()


def test_names_beyond_ascii_and_the_mark_of_spreadsheets(tmp_path):
    (tmp_path / "a.csv").write_text("Küche/1.jpg,1\n厨房/1.jpg,2\n", encoding="utf-8-sig")
    assert TableFeatures(tmp_path / "a.csv").vectors(["/x/厨房/1.jpg", "/x/Küche/1.jpg"]).tolist() == [
        [2],
        [1],
    ]


def test_missing_images_are_named(tmp_path):
    table = TableFeatures(npz(tmp_path / "a.npz"))
    missing = [f"/data/sea/{number}.png" for number in range(7)]
    with pytest.raises(ValueError, match=r"7 of 8 images: /data/sea/0\.png.*/data/sea/4\.png, \.\.\.\.$"):
        table.vectors([*missing, "/x/forest/2.jpg"])
    with pytest.raises(ValueError, match="source 1 has type ndarray; a table needs the path"):
        table.vectors(["/x/forest/2.jpg", np.zeros((20, 20))])
    with pytest.raises(ValueError, match="sources is empty"):
        table.vectors([])


def test_the_same_file_comes_before_any_ending(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "b", target_is_directory=True)
    listed = [str(tmp_path / "a/x/1.jpg"), str(tmp_path / "b/x/1.jpg"), "c/x/1.jpg"]
    asked = [str(tmp_path / "link/x/1.jpg"), str(tmp_path / "a/../a/x/1.jpg"), str(tmp_path / "c/x/1.jpg")]
    assert match_paths(asked, listed, tmp_path).tolist() == [1, 0, 2]


def test_links_in_rows_and_in_images_lead_to_the_same_file(tmp_path):
    for folder in ("store", "days/mon", "days/tue", "table"):
        (tmp_path / folder).mkdir(parents=True)
    for day in ("mon", "tue"):
        (tmp_path / "days" / day / "1.jpg").touch()
        (tmp_path / f"{day}day").symlink_to(tmp_path / "days" / day)
    (tmp_path / "store" / "ab12").touch()
    (tmp_path / "days/mon/2.jpg").symlink_to(tmp_path / "store/ab12")
    (tmp_path / "back").symlink_to(tmp_path / "days/mon")

    def rows(asked, listed):
        return match_paths([str(tmp_path / path) for path in asked], listed, tmp_path / "table").tolist()

    images = ["days/mon/1.jpg", "days/tue/1.jpg"]
    for made in ("../{}", f"{tmp_path}/{{}}", "../table/../{}", "../back/../../{}"):
        listed = [made.format(path) for path in ("tueday/1.jpg", "monday/1.jpg")]
        assert rows(images, listed) == [1, 0]
        assert rows(["monday/1.jpg", "tueday/1.jpg"], [made.format(path) for path in images]) == [0, 1]
        assert rows(["monday/1.jpg"], [made.format(path) for path in ("days/mon/2.jpg", "monday/1.jpg")]) == [
            1
        ]
    # A folder of data where every image is a link to a store.
    assert rows(["monday/2.jpg"], ["x/monday/2.jpg", "../days/mon/2.jpg"]) == [1]
    assert rows(["monday/2.jpg"], ["x/monday/2.jpg", "../store/ab12"]) == [1]
    # As text, ".." behind a link would lead elsewhere: to an image with the same name.
    (tmp_path / "1.jpg").touch()
    (tmp_path / "days/1.jpg").touch()
    assert rows(["1.jpg"], ["../back/../1.jpg", "../days/../1.jpg"]) == [1]
    assert rows(["back/../1.jpg"], ["../1.jpg", "../days/1.jpg"]) == [1]
    # The same file twice, through two links.
    assert rows(["days/mon/1.jpg"], ["../monday/1.jpg", "../back/1.jpg"]) == [-1]
    assert rows(["monday/1.jpg"], ["../monday/1.jpg", "../days/mon/1.jpg"]) == [-1]


def test_a_table_cannot_make_the_program_look_at_paths(tmp_path, monkeypatch):
    (tmp_path / "n.png").touch()
    looked = []
    for name in ("lstat", "stat", "readlink"):
        real = getattr(os, name)
        monkeypatch.setattr(
            os, name, lambda path, *a, _real=real, **k: looked.append(path) or _real(path, *a, **k)
        )
    deep = "a/" * 1_990
    listed = [f"{deep}{number}.png" for number in range(500)] + [f"/{deep}n.png", "/root/x/y.png", "n.png"]
    assert match_paths([str(tmp_path / "n.png")], listed, tmp_path).tolist() == [502]
    assert match_paths([str(tmp_path / "o.png")], listed, tmp_path).tolist() == [-1]
    assert match_paths([str(tmp_path / "n.png")], listed[:-1], tmp_path).tolist() == [500]
    assert len(looked) < 100
    assert not [path for path in looked if "a/a/a" in os.fspath(path) or "root/x" in os.fspath(path)]


def test_relative_paths_asked_for_start_at_the_working_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    listed = [str(tmp_path / "a/1.jpg"), "/elsewhere/b/1.jpg"]
    assert match_paths(["a/1.jpg", os.path.join("b", "1.jpg")], listed, tmp_path).tolist() == [0, 1]


def test_the_longest_ending_decides_if_it_is_unique(tmp_path):
    listed = ["/old/s/coast/1.jpg", "/old/t/coast/1.jpg", "/old/t/forest/1.jpg", "/old/t/forest/9.jpg"]

    def rows(*asked):
        return match_paths(asked, listed, tmp_path).tolist()

    assert rows("/new/s/coast/1.jpg", "/new/t/coast/1.jpg") == [0, 1]
    assert rows("/new/forest/1.jpg", "/new/9.jpg") == [2, 3]
    assert rows("/new/coast/1.jpg") == [-1]  # two rows match equally well
    assert rows("/new/1.jpg", "/new/x.jpg") == [-1, -1]


def test_no_row_is_taken_for_two_images(tmp_path):
    listed = ["forest/1.jpg"]
    assert match_paths(["/x/coast/1.jpg", "/x/forest/1.jpg"], listed, tmp_path).tolist() == [-1, -1]
    own = str(tmp_path / "forest/1.jpg")
    assert match_paths(["/x/coast/1.jpg", own, own], listed, tmp_path).tolist() == [-1, 0, 0]
    twice = ["/x/forest/1.jpg", "/x/y/../forest/1.jpg"]
    assert match_paths(twice, listed, tmp_path).tolist() == [0, 0]
    assert match_paths([own], ["forest/1.jpg", own], tmp_path).tolist() == [-1]  # listed twice


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", "x", r"ends in '\.txt'; expected a table"),
        ("a.npz", "x", "cannot be read as a table"),
        ("a.csv", "a.jpg,1,2\nb.jpg,1\n", "line 2 has 2 cells; expected 3"),
        ("a.csv", "a.jpg,1,2\n\nb.jpg,1,x y\n", r"line 3 has a cell that is not a number\.$"),
        ("a.csv", "path,a\n", r"0 paths and vectors of shape"),
        ("a.csv", "a.jpg,1,nan\n", "holds NaN or infinity"),
    ],
)
def test_files_that_are_no_tables_are_named(tmp_path, name, content, message):
    (tmp_path / name).write_text(content)
    with pytest.raises(ValueError, match=message):
        read_table(tmp_path / name)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"paths": np.array("a.jpg")}, r"paths are <U5 \(\), vectors float"),
        ({"paths": np.arange(3)}, "expected texts and numbers"),
        ({"vectors": VECTORS + 1j}, "vectors complex"),
        ({"vectors": np.full((3, 2), 1e300)}, "holds NaN or infinity"),
        ({"paths": np.array(["a.jpg", "b\0.jpg", "c.jpg"])}, "a path with a NUL character"),
    ],
)
def test_arrays_of_other_kinds_are_named(tmp_path, changed, message):
    np.savez(tmp_path / "a.npz", **{"paths": np.array(PATHS), "vectors": VECTORS, **changed})
    with pytest.raises(ValueError, match=message):
        read_table(tmp_path / "a.npz")


def test_damaged_archives_end_in_one_sentence(tmp_path):
    stream = io.BytesIO()
    np.savez_compressed(stream, paths=np.array(PATHS), vectors=VECTORS)
    whole = stream.getvalue()
    for place in range(0, len(whole), 3):
        (tmp_path / "a.npz").write_bytes(whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :])
        try:
            read_table(tmp_path / "a.npz")
        except ValueError as error:
            assert str(error).startswith(f"path={tmp_path}")  # noqa: PT017
            assert str(error).endswith(".")  # noqa: PT017
    np.save(tmp_path / "b.npy", VECTORS)
    (tmp_path / "b.npy").rename(tmp_path / "b.npz")
    with pytest.raises(ValueError, match=r"b\.npz cannot be read as a table: it is damaged, or not"):
        read_table(tmp_path / "b.npz")


def test_a_path_of_thousands_of_folders_costs_little(tmp_path):
    (tmp_path / "a.csv").write_text("x/" * 5_000 + "1.jpg,2\n")
    tracemalloc.start()
    try:
        assert TableFeatures(tmp_path / "a.csv").vectors(["/data/x/1.jpg"]).tolist() == [[2.0]]
        assert tracemalloc.get_traced_memory()[1] < 10_000_000  # all endings of the path would be 100 MB
    finally:
        tracemalloc.stop()


def test_arrays_that_are_no_tables_are_named(tmp_path):
    with pytest.raises(ValueError, match="does not exist"):
        read_table(tmp_path / "missing.npz")
    with pytest.raises(ValueError, match=r"holds 2 paths and vectors of shape \(3, 2\)"):
        read_table(npz(tmp_path / "a.npz", PATHS[:2]))
    with pytest.raises(ValueError, match=r"vectors of shape \(3,\)"):
        read_table(npz(tmp_path / "b.npz", vectors=VECTORS[:, 0]))
    np.savez(tmp_path / "c.npz", names=np.array(PATHS))
    with pytest.raises(ValueError, match=r"c\.npz cannot be read as a table: .*paths"):
        read_table(tmp_path / "c.npz")
    np.savez(tmp_path / "d.npz", paths=np.array(PATHS, dtype=object), vectors=VECTORS)
    with pytest.raises(ValueError, match=r"d\.npz cannot be read as a table"):  # pickle is never used
        read_table(tmp_path / "d.npz")

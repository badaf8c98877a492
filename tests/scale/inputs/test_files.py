"""Lists of image files: CSV and text, good and bad ones."""

import os
import pickle

import pytest

from ddsfl.scale.inputs.files import CsvList, FileRows, TextList
from ddsfl.scale.inputs.rows import Opened
from tests.support.pipes import named_pipe


def listed(one, size=100):
    return [path for rows in one.cut(size) for path in rows.paths]


def test_csv_paths_are_relative_to_the_file_and_unquoted(tmp_path):
    file = tmp_path / "l.csv"
    file.write_text("label,PATH\nsea,a.jpg\nsea,\ntown,/data/b.jpg\nx,'=odd.jpg\n")
    assert listed(CsvList(str(file))) == [str(tmp_path / "a.jpg"), "/data/b.jpg", str(tmp_path / "=odd.jpg")]
    assert listed(CsvList(os.path.relpath(file))) == [
        os.path.join(os.path.relpath(tmp_path), "a.jpg"), "/data/b.jpg",
        os.path.join(os.path.relpath(tmp_path), "=odd.jpg"),
    ]  # fmt: skip


def test_text_lists_take_any_name(tmp_path):
    file = tmp_path / "l.txt"
    file.write_bytes("\ufeffé.jpg\r\n\n with blanks .jpg\n".encode() + b"caf\xe9.jpg")
    expected = ["é.jpg", " with blanks .jpg", "caf\udce9.jpg"]
    assert listed(TextList(str(file))) == [str(tmp_path / name) for name in expected]


@pytest.mark.parametrize(
    ("name", "contents", "reason"),
    [
        ("l.csv", b"file,label\na.jpg,sea\n", "has the columns 'file,label'; expected a column 'path'"),
        ("l.csv", b"", "expected a column 'path'"),
        ("l.csv", b"path\n\xff\xfe", "is not a CSV file in UTF-8"),
        ("l.csv", b"path\n" + b"x" * 200_000, "is not a CSV file"),
        ("l.txt", b"a.jpg\nb\0c", "line 2 has a zero byte"),
    ],
)
def test_bad_lists_are_one_sentence(tmp_path, name, contents, reason):
    (tmp_path / name).write_bytes(contents)
    kind = CsvList if name.endswith("csv") else TextList
    with pytest.raises(ValueError, match=reason):
        listed(kind(str(tmp_path / name)))


@pytest.mark.parametrize("kind", [CsvList, TextList])
def test_missing_lists_and_pipes_are_one_sentence(tmp_path, kind):
    with pytest.raises(ValueError, match="cannot be opened: no such file"):
        listed(kind(str(tmp_path / "no")))
    with named_pipe(tmp_path / "pipe"), pytest.raises(ValueError, match="named pipe"):
        listed(kind(str(tmp_path / "pipe")))


def test_rows_travel_and_tell_changes(tmp_path):
    (tmp_path / "a").write_bytes(b"1")
    rows = FileRows((str(tmp_path / "a"), "missing", "zero\0byte", "caf\udce9"))
    same = pickle.loads(pickle.dumps(rows))
    assert same == rows
    assert same.fingerprint() == rows.fingerprint()
    before = rows.fingerprint()
    os.utime(tmp_path / "a", ns=(1, 1))
    assert rows.fingerprint() != before
    assert rows.read(Opened())[1] == ("missing", "missing")
    assert len(rows) == 4

"""Names of groups from paths and from a column of a CSV."""

from pathlib import Path

import pytest

from ddsfl.datasets.groups import read_groups
from ddsfl.images.folders import ImageSetError

PATHS = [Path("set/ill/patient1-a.png"), Path("set/ill/patient1-b.png"), Path("set/well/x/patient22.png")]


def test_a_pattern_names_groups_by_its_match_or_its_first_parentheses():
    assert read_groups("set", r"patient\d+", PATHS) == ["patient1", "patient1", "patient22"]
    assert read_groups("set", r"patient(\d+)", PATHS) == ["1", "1", "22"]
    assert read_groups("set", "^[^/]+", PATHS) == ["ill", "ill", "well"]  # the path is relative to the set


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        (r"patient\d\d", r"^ill/patient1-a.png does not match 'patient"),
        ("(x/)?patient", r"^ill/patient1-a.png does not match"),
        ("patient", "all images are of one group, 'patient'; at least 2"),
        ("(", r"^'\(' is not a regular expression: "),
    ],
)
def test_patterns_that_give_no_groups_are_refused(pattern, message):
    with pytest.raises(ImageSetError, match=message):
        read_groups("set", pattern, PATHS)


@pytest.fixture
def table(tmp_path):
    (tmp_path / "list.csv").write_text(
        "path,label, Patient \na.png,x,anna\nsub/b.png,y, bob\nc.png,x,\n", encoding="utf-8-sig"
    )
    return tmp_path / "list.csv"


def test_a_column_names_groups_by_path_whatever_the_order(table):
    paths = [table.parent / "sub" / "b.png", table.parent / "a.png"]
    assert read_groups(table, "patient", paths) == ["bob", "anna"]
    assert read_groups(table, " Patient", paths) == ["bob", "anna"]


def test_names_that_no_file_can_have_are_in_no_group(table):
    table.write_text("path,label,patient\na\0.png,x,carl\na.png,x,anna\nb.png,y,bob\n")
    assert read_groups(table, "patient", [table.parent / "a.png", table.parent / "b.png"]) == ["anna", "bob"]


def test_a_missing_column_or_value_is_named(table):
    with pytest.raises(ImageSetError, match="has no column 'site'; found path, label, patient"):
        read_groups(table, "site", [table.parent / "a.png"])
    with pytest.raises(ImageSetError, match=r"c.png has no value in column 'patient'"):
        read_groups(table, "patient", [table.parent / "a.png", table.parent / "c.png"])

"""What a path stands for, and shards that have stable numbers."""

import pytest

from ddsfl.scale.inputs.files import CsvList, ImageFiles, TextList
from ddsfl.scale.inputs.finding import Inputs, listing_of
from ddsfl.scale.inputs.rows import Opened
from ddsfl.scale.inputs.tables import TableInput
from ddsfl.scale.inputs.tars import TarInput
from tests.support.containers import container_of
from tests.support.pictures import put


def names(shards):
    return [name for shard in shards for name, _ in shard.rows.read(Opened())]


def test_kinds_are_told_by_suffix_and_images_in_a_row_are_one_input(tmp_path):
    put(tmp_path, "photos/b/1.png", "photos/a/2.png")
    given = [
        "1.jpg",
        "no-suffix",
        tmp_path / "photos",
        "l.CSV",
        "l.txt",
        "3.jpg",
        "t.parquet",
        "x.tar",
        "4.jpg",
    ]
    found = Inputs.find(given).inputs
    kinds = [ImageFiles, ImageFiles, CsvList, TextList, ImageFiles, TableInput, TarInput, ImageFiles]
    assert [type(one) for one in found] == kinds
    assert found[0].paths == ["1.jpg", "no-suffix"]
    assert found[1].paths == [str(tmp_path / "photos" / name) for name in ("a/2.png", "b/1.png")]
    assert found[4].paths == ["3.jpg"]


def test_a_folder_without_images_stands_for_its_tables_and_archives(paths, tmp_path):
    inside = tmp_path / "data"
    for kind in ("tar", "parquet-bytes"):
        container_of(kind, paths, inside / "train")
    (inside / "_manifest.json").write_text("{}")
    (inside / ".hidden.parquet").write_text("no table")
    (inside / "readme.txt").write_text("no list")
    found = Inputs.find([inside])
    assert [one.file for one in found.inputs] == [
        str(inside / "train" / name) for name in ("t.parquet", "t.tar")
    ]
    put(inside, "1.png")
    assert names(Inputs.find([inside]).shards(9)) == [str(inside / "1.png")]


def test_results_in_a_folder_of_tables_are_no_input(paths, tmp_path):
    table, _ = container_of("parquet-bytes", paths, tmp_path / "data")
    results = tmp_path / "data" / "o.parquet"
    results.mkdir()
    (results / "_manifest.json").write_text("{}")
    (results / "part-00000.parquet").write_bytes(table.read_bytes())
    assert [one.file for one in Inputs.find([tmp_path / "data"]).inputs] == [str(table)]
    assert len(Inputs.find([results]).inputs) == 1  # they were named


def test_what_folders_leave_out_is_told(tmp_path):
    put(tmp_path, "a/1.png")
    (tmp_path / "a" / "list.xml").write_text("")
    (tmp_path / "a" / "2.png").symlink_to("nowhere")
    found = Inputs.find([tmp_path])
    assert found.ignored_files == "1 file ignored: 1 .xml."
    [problem] = found.problems
    assert "2.png left out" in problem


def test_nothing_and_archives_that_are_compressed_are_refused(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="contains no images"):
        Inputs.find([tmp_path / "empty"])
    (tmp_path / "none.txt").write_text("\n")
    with pytest.raises(ValueError, match="there are no images"):
        Inputs.find([tmp_path / "none.txt"]).shards(9)
    with pytest.raises(ValueError, match=r"x\.tar\.gz is compressed"):
        Inputs.find(["x.tar.gz"])


def test_shards_are_numbered_over_all_inputs_and_keep_their_fingerprints(photos, tmp_path):
    tar, _ = container_of("tar", photos, tmp_path / "given")
    given = [tmp_path / "photos", tar]
    shards = Inputs.find(given).shards(4)
    assert [shard.number for shard in shards] == [0, 1, 2, 3]
    assert [len(shard.rows) for shard in shards] == [4, 2, 4, 2]
    same = Inputs.find(given).shards(4)
    assert [one.rows.fingerprint() for one in shards] == [one.rows.fingerprint() for one in same]
    assert len({one.rows.fingerprint() for one in shards}) == 4


def test_a_changed_image_changes_its_shard_and_not_the_list(photos, tmp_path):
    before = Inputs.find([tmp_path / "photos"]).shards(2)
    prints = [shard.rows.fingerprint() for shard in before]
    first = sorted(photos)[0]
    first.write_bytes(first.read_bytes() + b"\0")
    after = Inputs.find([tmp_path / "photos"]).shards(2)
    changed = [shard.rows.fingerprint() for shard in after]
    assert [one != other for one, other in zip(prints, changed)] == [True, False, False]
    assert listing_of(before) == listing_of(after)
    first.unlink()
    assert listing_of(Inputs.find([tmp_path / "photos"]).shards(2)) != listing_of(before)

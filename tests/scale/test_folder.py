"""Folders of parts: what may be continued, what is refused, what is removed and what never is."""

import json
import os
import threading
import time

import pytest

from ddsfl.compute.locks import InUse, held, lock_of_file
from ddsfl.scale.folder import begin, finish, reopen
from ddsfl.scale.manifest import NAME, Manifest
from ddsfl.scale.parts import part_path
from tests.support.shards import job_of, run_job

STAMP = {"command": "predict", "ddsfl": "0.1.0", "model": "aa", "networks": {}, "options": {"shard_size": 2}}


def manifest(stamp=STAMP, listing="l", n_shards=3, n_images=6):
    return Manifest(dict(stamp), "m", ["photos"], listing, n_shards, n_images, ["sea"], {"path": "string"})


def start(folder, wanted, overwrite=False, part_only=False):
    return begin(folder, wanted, overwrite=overwrite, part_only=part_only)


def test_the_same_run_continues_and_keeps_its_manifest(tmp_path):
    first = start(tmp_path / "o", manifest())
    assert Manifest.read(tmp_path / "o") == first
    other = manifest()
    other.inputs, other.started = ["elsewhere"], "later"
    assert start(tmp_path / "o", other, part_only=True) == first
    assert os.listdir(tmp_path / "o") == [NAME]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"model": "bb"}, r"the model \(aa there, bb here\)"),
        ({"ddsfl": "9"}, r"ddsfl \(0\.1\.0 there, 9 here\)"),
        ({"command": "encode"}, r"the command \(predict there, encode here\)"),
        ({"networks": {"n": "1"}}, "the networks"),
        ({"options": {"shard_size": 3}}, r"shard_size \(2 there, 3 here\)"),
        ({"options": {"shard_size": 2, "half": True}}, r"half \(None there, True here\)"),
    ],
)
def test_another_run_is_refused_and_nothing_is_touched(tmp_path, change, words):
    start(tmp_path, manifest())
    before = (tmp_path / NAME).read_bytes()
    with pytest.raises(ValueError, match=f"holds results that differ in {words}") as error:
        start(tmp_path, manifest({**STAMP, **change}))
    assert "--overwrite" in str(error.value)
    assert (tmp_path / NAME).read_bytes() == before


def test_what_killed_processes_left_is_removed_even_if_nothing_is_written(tmp_path):
    start(tmp_path, manifest())
    left = tmp_path / ".part-00000.parquet.99999999-abcdef.part"
    left.write_text("half")
    start(tmp_path, manifest())
    assert not left.exists()


def test_a_manifest_that_another_process_writes_is_waited_for(tmp_path):
    start(tmp_path, manifest())
    begun = []
    thread = threading.Thread(target=lambda: begun.append(start(tmp_path, manifest())))
    with held(lock_of_file(tmp_path / NAME), tmp_path / NAME, "another"):
        thread.start()
        time.sleep(0.3)
        assert begun == []
    thread.join()
    assert [one.listing for one in begun] == ["l"]


def test_other_images_update_the_manifest_of_a_full_run_only(tmp_path):
    start(tmp_path, manifest())
    other = manifest(listing="other", n_shards=4, n_images=7)
    with pytest.raises(
        ValueError, match=r"begun with other images \(6 there, 7 here\).*without --shards once"
    ):
        start(tmp_path, other, part_only=True)
    assert Manifest.read(tmp_path).n_shards == 3
    assert start(tmp_path, other) == other == Manifest.read(tmp_path)


def test_folders_and_files_that_are_not_ours_are_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="is not a folder"):
        start(tmp_path / "file", manifest(), overwrite=True)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").write_text("")
    with pytest.raises(ValueError, match=r"has 'letter\.txt' but no _manifest\.json"):
        start(tmp_path / "full", manifest(), overwrite=True)
    for text in ("", "{}", "[]", '{"format": "ddsfl shards 1"}', "\udcff"):
        (tmp_path / "full" / NAME).write_text(text, errors="surrogateescape")
        with pytest.raises(ValueError, match="is not a manifest that ddsfl wrote, or it is damaged"):
            start(tmp_path / "full", manifest(), overwrite=True)
    values = {"format": "ddsfl shards 1", **json.loads(json.dumps(manifest().__dict__))}
    for name, value in (("n_shards", "3"), ("stamp", []), ("complete", 1), ("classes", None), ("listing", 3)):
        (tmp_path / "full" / NAME).write_text(json.dumps({**values, name: value}))
        with pytest.raises(ValueError, match="is not a manifest"):
            Manifest.read(tmp_path / "full")
    assert sorted(os.listdir(tmp_path / "full")) == [NAME, "letter.txt"]
    with pytest.raises(ValueError, match=r"_manifest\.json cannot be read: no such file"):
        Manifest.read(tmp_path)


def test_overwriting_removes_parts_and_nothing_else(tmp_path):
    start(tmp_path, manifest())
    ours = [part_path(tmp_path, 0), part_path(tmp_path, 123456)]
    theirs = [
        tmp_path / name for name in ("part-1.parquet", "part-00001.csv", "letter.txt", "part-000001.parquet")
    ]
    for path in [*ours, *theirs]:
        path.write_text("")
    with held(lock_of_file(ours[0]), ours[0], "`ddsfl predict`"), pytest.raises(InUse):
        start(tmp_path, manifest({**STAMP, "model": "bb"}), overwrite=True)
    start(tmp_path, manifest({**STAMP, "model": "bb"}), overwrite=True)
    assert Manifest.read(tmp_path).stamp["model"] == "bb"
    assert sorted(tmp_path.iterdir()) == sorted([*theirs, tmp_path / NAME])


def finished_run(predictions, photos, out):
    run_job(predictions, [photos], out, 2)
    stamp = dict(job_of(predictions, out, 2).stamp)
    return start_in(out, manifest(stamp))


def start_in(out, wanted):
    wanted.write(out)
    return wanted


def test_complete_folders_have_counts_and_no_leftovers(predictions, photos, tmp_path):
    out = tmp_path / "o"
    begun = finished_run(predictions, tmp_path / "photos", out)
    part_path(out, 3).write_bytes(part_path(out, 0).read_bytes())  # of more images than there are now
    lock_of_file(part_path(out, 1)).write_text("{}")  # of a process that was killed
    assert finish(out, begun, part_only=True).complete["rows"] == 6
    assert part_path(out, 3).exists()
    done = finish(out, begun, part_only=False)
    assert {name: done.complete[name] for name in ("rows", "errors")} == {"rows": 6, "errors": 0}
    assert sorted(os.listdir(out)) == [NAME, *(part_path(out, number).name for number in range(3))]
    assert finish(out, done, part_only=False).complete["when"] == done.complete["when"]
    again = reopen(out, done)
    assert again.complete is None
    assert Manifest.read(out) == again


def test_a_folder_is_not_complete_without_each_part_of_this_run(predictions, photos, tmp_path):
    out = tmp_path / "o"
    begun = finished_run(predictions, tmp_path / "photos", out)
    contents = part_path(out, 1).read_bytes()
    for damage in (b"", contents[:-30]):
        part_path(out, 1).write_bytes(damage)
        assert finish(out, begun, part_only=False).complete is None
    part_path(out, 1).unlink()
    assert finish(out, begun, part_only=False).complete is None
    part_path(out, 1).write_bytes(contents)
    other = manifest({**begun.stamp, "model": "bb"})
    assert finish(out, other, part_only=False).complete is None
    begun.n_images = 7
    assert finish(out, begun, part_only=False).complete is None

"""One shard at a time: rows for every image, errors with their reason, and the next shard decoded ahead."""

import errno
import threading
import time

import pytest

from ddsfl.compute.locks import held, lock_of_file
from ddsfl.images.image_list import ImageList
from ddsfl.scale import worker as module
from ddsfl.scale.inputs.finding import Inputs
from ddsfl.scale.parts import part_path, read_part
from ddsfl.scale.worker import ShardWorker, Task
from tests.support.pictures import bad_files
from tests.support.shards import job_of


def shards_of(given, size=2):
    return Inputs.find([given]).shards(size)


def silent(line):
    raise AssertionError(line)


def test_an_image_that_cannot_be_read_is_a_row_with_its_reason(predictions, photos, tmp_path):
    reasons = bad_files(tmp_path)
    names = [name for name in reasons if name != "folder.jpg"]
    (tmp_path / "l.txt").write_text("\n".join([*map(str, photos), *names]))
    worker = ShardWorker(job_of(predictions, tmp_path / "out"))
    [shard] = shards_of(tmp_path / "l.txt", 100)
    done = worker(Task(shard), silent)
    assert (done.facts.rows, done.facts.errors, done.kept) == (len(photos) + len(names), len(names), False)
    rows = read_part(part_path(tmp_path / "out", 0))[0].to_pylist()
    assert [row["error"] is None for row in rows] == [True] * len(photos) + [False] * len(names)
    for row, name in zip(rows[len(photos) :], names):
        assert row["path"] == str(tmp_path / name)
        assert reasons[name].strip(".") in row["error"]
        assert {value for key, value in row.items() if key not in ("path", "error")} == {None}


def test_a_shard_without_any_readable_image_is_a_part_too(predictions, tmp_path):
    (tmp_path / "l.txt").write_text("no.jpg\ncaf\udce9.jpg", errors="surrogateescape")
    worker = ShardWorker(job_of(predictions, tmp_path / "out"))
    [shard] = shards_of(tmp_path / "l.txt")
    assert worker(Task(shard), silent).facts.errors == 2
    table = read_part(part_path(tmp_path / "out", 0))[0]
    assert table["path"].to_pylist() == [str(tmp_path / "no.jpg"), str(tmp_path / "caf\\udce9.jpg")]
    assert table.schema.field("scores").type.list_size == 3


def test_the_next_shard_is_decoded_while_one_is_computed_and_no_other(
    predictions, photos, tmp_path, monkeypatch
):
    shards = shards_of(tmp_path / "photos")
    worker = ShardWorker(job_of(predictions, tmp_path / "out"))
    decoded, during = [], []
    read, results = ImageList.read_all, worker.loaded.results

    def watched_read(images, *args, **options):
        decoded.append((len(images), threading.current_thread() is threading.main_thread()))
        return read(images, *args, **options)

    def watched_results(images):
        end = time.monotonic() + 10
        while len(decoded) < min(len(during) + 2, len(shards)) and time.monotonic() < end:
            time.sleep(0.001)
        during.append(len(decoded))
        return results(images)

    monkeypatch.setattr(ImageList, "read_all", watched_read)
    monkeypatch.setattr(worker.loaded, "results", watched_results)
    for shard, following in zip(shards, [*shards[1:], None]):
        worker(Task(shard, following=following), silent)
    assert during == [2, 3, 3]  # the second shard during the first, never two ahead
    assert decoded == [(2, False)] * 3  # each once


def test_a_guess_about_the_next_shard_may_be_wrong(predictions, photos, tmp_path):
    first, second, third = shards_of(tmp_path / "photos")
    worker = ShardWorker(job_of(predictions, tmp_path / "out"))
    worker(Task(first, following=second), silent)
    worker(Task(third), silent)
    worker(Task(second), silent)
    for shard in (first, second, third):
        names = [str(path) for path in shard.rows.paths]
        assert read_part(part_path(tmp_path / "out", shard.number))[0]["path"].to_pylist() == names


def test_a_complete_part_is_kept_even_if_it_came_meanwhile(predictions, photos, tmp_path):
    first, second, _ = shards_of(tmp_path / "photos")
    job = job_of(predictions, tmp_path / "out")
    worker, other = ShardWorker(job), ShardWorker(job)
    worker(Task(first, following=second), silent)
    worker._ahead[1].result()
    other(Task(second), silent)
    before = part_path(tmp_path / "out", 1).stat().st_mtime_ns
    done = worker(Task(second), silent)
    assert (done.kept, done.facts.rows) == (True, 2)
    assert other(Task(first), silent).kept
    assert part_path(tmp_path / "out", 1).stat().st_mtime_ns == before


def test_a_shard_in_use_is_left_or_waited_for(predictions, photos, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_PATIENCE", 0.01)
    shard, *_ = shards_of(tmp_path / "photos")
    worker = ShardWorker(job_of(predictions, tmp_path / "out"))
    path = part_path(tmp_path / "out", 0)
    said = []
    with held(lock_of_file(path), path, "`ddsfl encode`"):
        assert "in use by `ddsfl encode`" in worker(Task(shard), said.append).in_use
        assert not path.exists()
        found = []
        thread = threading.Thread(target=lambda: found.append(worker(Task(shard, wait=True), said.append)))
        thread.start()
        time.sleep(0.1)
        assert not found
        assert len(said) == 1
    thread.join()
    assert found[0].facts.rows == 2
    assert not lock_of_file(path).exists()


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "x"), "No space left on device: x"),
        (ValueError("the table\nis odd"), "the table"),
        (MemoryError(), "not enough memory"),
    ],
)
def test_errors_of_a_shard_are_reported_and_the_next_one_works(
    predictions, photos, tmp_path, monkeypatch, error, sentence
):
    first, second, _ = shards_of(tmp_path / "photos")
    worker = ShardWorker(job_of(predictions, tmp_path / "out"))
    with monkeypatch.context() as patch:
        patch.setattr(module, "write_part", lambda *_: (_ for _ in ()).throw(error))
        done = worker(Task(first, following=second), silent)
    assert done.facts is None
    assert done.failure.startswith(sentence)
    assert worker(Task(second), silent).facts.rows == 2
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["part-00001.parquet"]


def test_an_unknown_error_is_not_hidden(predictions, photos, tmp_path, monkeypatch):
    shard, *_ = shards_of(tmp_path / "photos")
    worker = ShardWorker(job_of(predictions, tmp_path / "out"))
    monkeypatch.setattr(module, "write_part", lambda *_: {}["bug"])
    with pytest.raises(KeyError):
        worker(Task(shard), silent)

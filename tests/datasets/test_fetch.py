import errno
import hashlib
import json

import numpy as np
import pytest

from ddsfl.datasets import fetch as downloads
from ddsfl.datasets.catalogue import RemoteFile
from ddsfl.datasets.fetch import DownloadError, fetch
from tests.support.server import serving

BODY = np.random.default_rng(0).bytes(700_001)
DIGEST = "md5:" + hashlib.md5(BODY).hexdigest()


@pytest.fixture
def server():
    with serving(BODY) as scripted:
        yield scripted


def get(server, folder, digest=DIGEST, **options):
    file = RemoteFile("file.tar", (server.address,), digest)
    return fetch(file, folder, wait=0.0, **options)


def assert_whole(folder):
    assert (folder / "file.tar").read_bytes() == BODY
    recorded = (folder / "file.tar.sha256").read_text()
    assert recorded == f"{hashlib.sha256(BODY).hexdigest()}  file.tar\n"
    assert sorted(path.name for path in folder.iterdir()) == ["file.tar", "file.tar.sha256"]


@pytest.mark.parametrize("digest", [DIGEST, "sha1:" + hashlib.sha1(BODY).hexdigest(), None])
def test_a_file_comes_whole_with_its_digest_beside_it(server, tmp_path, digest):
    steps = []
    assert get(server, tmp_path, digest, progress=lambda *step: steps.append(step)) == tmp_path / "file.tar"
    assert_whole(tmp_path)
    assert steps[-1] == (len(BODY), len(BODY))
    assert len(steps) > 1
    get(server, tmp_path, digest)
    assert len(server.requests) == 1  # an existing file is not fetched again


@pytest.mark.parametrize("etag", ['"one"', None, 'W/"weak"'])
def test_what_broke_off_is_continued_where_it_stopped(server, tmp_path, etag):
    server.etag, server.script = etag, ["break", "break"]
    get(server, tmp_path)
    assert_whole(tmp_path)
    half = len(BODY) // 2
    ranges = [request.get("range") for request in server.requests]
    assert ranges == [None, f"bytes={half}-", f"bytes={half + (len(BODY) - half) // 2}-"]
    validator = etag if etag == '"one"' else None
    assert [request.get("if-range") for request in server.requests] == [None, validator, validator]


def test_a_later_run_continues_what_an_earlier_one_left(server, tmp_path):
    server.script = ["break"] + [500] * 4
    with pytest.raises(DownloadError, match=r"HTTP 500 .* kept in .*; rerun to resume"):
        get(server, tmp_path)
    assert not (tmp_path / "file.tar").exists()
    get(server, tmp_path)
    assert_whole(tmp_path)
    assert server.requests[-1]["range"] == f"bytes={len(BODY) // 2}-"


def test_a_run_that_ended_just_before_the_last_step_asks_for_nothing(server, tmp_path, monkeypatch):
    monkeypatch.setattr(downloads, "_record", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        get(server, tmp_path)
    monkeypatch.undo()
    get(server, tmp_path)
    assert_whole(tmp_path)
    assert len(server.requests) == 1


def test_a_file_that_changed_meanwhile_is_fetched_anew(server, tmp_path):
    server.script = ["break"] + [503] * 4
    server.body, server.etag = BODY[::-1], '"old"'
    with pytest.raises(DownloadError):
        get(server, tmp_path)
    server.body, server.etag = BODY, '"one"'
    get(server, tmp_path)
    assert_whole(tmp_path)


def test_a_file_of_another_length_is_not_continued_even_without_validator(server, tmp_path):
    server.etag, server.script, server.body = None, ["break"] + [503] * 4, BODY[::-1] + b"more"
    with pytest.raises(DownloadError):
        get(server, tmp_path)
    server.body = BODY
    get(server, tmp_path)
    assert_whole(tmp_path)
    assert ["range" in request for request in server.requests] == [False, *[True] * 5, False]


def continuing(headers, body=BODY):
    """Return an answer that continues with ``body``, whatever version is asked for."""

    def answer(request):
        start = int(request.headers["Range"].removeprefix("bytes=").rstrip("-"))
        request.send_response(206)
        request.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
        request.send_header("Content-Length", str(len(body) - start))
        for name, value in headers.items():
            request.send_header(name, value)
        request.end_headers()
        request.wfile.write(body[start:])

    return answer


@pytest.mark.parametrize(
    "headers",
    [{"ETag": '"two"'}, {}, {"Last-Modified": "Mon, 01 Jan 2024 00:00:00 GMT"}, {"ETag": 'W/"one"'}],
)
def test_a_file_that_is_not_said_to_be_the_same_is_not_continued(server, tmp_path, headers):
    server.script = ["break", continuing(headers, BODY[::-1])]
    get(server, tmp_path, None)
    assert_whole(tmp_path)
    assert ["range" in request for request in server.requests] == [False, True, False]


def test_another_version_is_not_continued_even_if_a_digest_would_tell(server, tmp_path):
    server.script = ["break", continuing({"ETag": '"two"'})]
    get(server, tmp_path)
    assert ["range" in request for request in server.requests] == [False, True, False]


def test_if_there_is_a_digest_an_answer_without_a_version_is_continued(server, tmp_path):
    server.script = ["break", continuing({})]
    get(server, tmp_path)
    assert_whole(tmp_path)
    assert len(server.requests) == 2


def test_a_file_without_version_and_digest_is_not_continued(server, tmp_path):
    server.etag, server.script = None, ["break"] + [503] * 4
    with pytest.raises(DownloadError) as caught:
        get(server, tmp_path, None)
    assert "rerun to resume" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []
    get(server, tmp_path, None)
    assert_whole(tmp_path)
    assert not any("range" in request for request in server.requests)


def test_a_file_that_shrank_is_fetched_anew(server, tmp_path):
    server.etag, server.script, server.body = None, ["break"] + [503] * 4, BODY * 3
    with pytest.raises(DownloadError):
        get(server, tmp_path)
    server.body = BODY  # shorter than the partial file: HTTP 416
    get(server, tmp_path)
    assert_whole(tmp_path)


@pytest.mark.parametrize("how", ["no range", "off", 500, 429, 503])
def test_servers_that_stumble_once_are_asked_again(server, tmp_path, how):
    server.script = ["break", how]
    get(server, tmp_path, None)
    assert_whole(tmp_path)


def test_attempts_are_bounded_and_wait_longer_each_time(server, tmp_path, monkeypatch):
    slept = []
    monkeypatch.setattr(downloads.time, "sleep", slept.append)
    server.script = [502] * 100
    with pytest.raises(DownloadError, match=r"file.tar could not be fetched. http://.*: HTTP 502"):
        fetch(RemoteFile("file.tar", (server.address,)), tmp_path)
    assert len(server.requests) == downloads.ATTEMPTS == 5
    assert slept == [1.0, 2.0, 4.0, 8.0]
    assert list(tmp_path.iterdir()) == []


def test_what_is_gone_is_not_asked_for_again_and_the_next_address_is_tried(server, tmp_path):
    server.script = [404]
    with pytest.raises(DownloadError, match=r"HTTP 404 \(Not Found\)\.$"):
        get(server, tmp_path)
    assert len(server.requests) == 1
    server.script = [410]
    file = RemoteFile("file.tar", (server.address + "?old", server.address), DIGEST)
    fetch(file, tmp_path, wait=0.0)
    assert_whole(tmp_path)


def test_a_part_from_one_address_is_not_continued_from_another(server, tmp_path):
    server.script = ["break", 404]
    file = RemoteFile("file.tar", (server.address + "?old", server.address), DIGEST)
    fetch(file, tmp_path, wait=0.0)
    assert_whole(tmp_path)
    assert "range" not in server.requests[2]


def test_wrong_bytes_are_not_kept(server, tmp_path):
    server.script = ["wrong"]
    with pytest.raises(DownloadError, match=f"its md5 is [0-9a-f]+; expected {DIGEST[4:]}"):
        get(server, tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert len(server.requests) == 1


def test_wrong_bytes_after_a_break_lead_to_a_fresh_start(server, tmp_path):
    server.script = ["break", "wrong"]
    get(server, tmp_path)
    assert_whole(tmp_path)
    assert "range" not in server.requests[2]


def test_a_length_that_is_too_long_never_makes_a_whole_file(server, tmp_path):
    server.script = ["longer"] * 5
    with pytest.raises(DownloadError, match=r"could not be fetched"):
        get(server, tmp_path, None)
    assert not (tmp_path / "file.tar").exists()


def test_a_length_that_is_too_short_is_found_by_the_digest(server, tmp_path):
    server.script = ["shorter"]
    with pytest.raises(DownloadError, match="its md5 is"):
        get(server, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_nobody_there(tmp_path, server):
    file = RemoteFile("file.tar", ("http://127.0.0.1:9/file.tar",))
    with pytest.raises(DownloadError, match=r"127.0.0.1:9/file.tar: .*refused"):
        fetch(file, tmp_path, wait=0.0)
    with pytest.raises(DownloadError, match=r"file.tar could not be fetched\.$"):
        fetch(RemoteFile("file.tar"), tmp_path)


def test_a_full_disk_is_no_reason_to_try_again(server, tmp_path, monkeypatch):
    usage = downloads.shutil.disk_usage(tmp_path)._replace(free=1000)
    monkeypatch.setattr(downloads.shutil, "disk_usage", lambda _: usage)
    with pytest.raises(OSError, match="700001 bytes are needed and 1000 are free") as caught:
        get(server, tmp_path)
    assert caught.value.errno == errno.ENOSPC
    assert len(server.requests) == 1
    assert not (tmp_path / "file.tar").exists()


def test_a_disk_that_fills_up_is_no_reason_to_try_again(server, tmp_path, monkeypatch):
    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(downloads.os, "fsync", full)
    monkeypatch.setattr(downloads, "write_whole", lambda path, payload: path.write_bytes(payload))
    with pytest.raises(OSError, match="No space left"):
        get(server, tmp_path)
    assert len(server.requests) == 1


def test_a_file_put_there_by_hand_is_verified_and_recorded(tmp_path):
    file = RemoteFile("file.tar", (), DIGEST)
    (tmp_path / "file.tar").write_bytes(BODY)
    fetch(file, tmp_path)
    assert_whole(tmp_path)
    (tmp_path / "file.tar").write_bytes(BODY[1:])
    with pytest.raises(DownloadError, match=r"file.tar is not the right file; move it away.* its md5 is"):
        fetch(file, tmp_path)
    with pytest.raises(DownloadError, match=r"file.tar has changed: its SHA-256 is"):
        fetch(RemoteFile("file.tar"), tmp_path)


@pytest.mark.parametrize("recorded", [b"", b"\xff\xfe", b"no digest", b"ab " * 3])
def test_a_record_that_is_none_is_named(tmp_path, recorded):
    (tmp_path / "file.tar").write_bytes(BODY)
    (tmp_path / "file.tar.sha256").write_bytes(recorded)
    with pytest.raises(DownloadError, match=r"file.tar.sha256 is not a record of a SHA-256"):
        fetch(RemoteFile("file.tar", (), DIGEST), tmp_path)


@pytest.mark.parametrize(
    "notes",
    [
        b"[" * 100_000,
        b"\xff",
        b"[]",
        b'{"address": %s, "total": "9", "validator": null}',
        b'{"address": %s, "total": null, "validator": ["x"]}',
        b'{"address": %s, "total": null, "validator": "a\\r\\nb"}',
    ],
)
def test_notes_of_a_partial_file_are_not_trusted(server, tmp_path, notes):
    (tmp_path / ".file.tar.part").write_bytes(BODY[:100])
    (tmp_path / ".file.tar.part.json").write_bytes(notes.replace(b"%s", json.dumps(server.address).encode()))
    get(server, tmp_path)
    assert_whole(tmp_path)
    assert "range" not in server.requests[0]

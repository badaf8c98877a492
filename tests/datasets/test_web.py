"""Servers that misbehave on purpose."""

import hashlib
import threading
import time
import urllib.error
import urllib.request
from email.message import Message

import pytest

from ddsfl.datasets import web
from ddsfl.datasets.catalogue import RemoteFile
from ddsfl.datasets.fetch import DownloadError, fetch
from tests.support.server import serving

BODY = bytes(range(256)) * 400
DIGEST = "md5:" + hashlib.md5(BODY).hexdigest()


@pytest.fixture
def server():
    with serving(BODY) as scripted:
        yield scripted


def get(address, folder, digest=DIGEST, max_bytes=10**6):
    return fetch(RemoteFile("file.tar", (address,), digest, max_bytes=max_bytes), folder, wait=0.0)


def raw(*parts, pause=0.0):
    """Return an answer of these bytes."""

    def answer(request):
        for part in parts:
            request.wfile.write(part)
            request.wfile.flush()
            time.sleep(pause)

    return answer


def redirect(address, code=302):
    return raw(f"HTTP/1.1 {code} Found\r\nLocation: {address}\r\nContent-Length: 0\r\n\r\n".encode())


def assert_nothing_kept(folder):
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    "address", ["file:///etc/hostname", "ftp://127.0.0.1/x", "data:,x", "FILE:/etc/hostname"]
)
def test_only_web_addresses_are_opened(tmp_path, address):
    with pytest.raises(DownloadError, match=r"from http and https addresses only|not a valid address"):
        get(address, tmp_path, None)
    assert_nothing_kept(tmp_path)


@pytest.mark.parametrize(
    "address", ["http://", "http://[::1/x", "http://a:b/x", "http://a b/x", "http://ä/x", "x"]
)
def test_invalid_addresses_are_named_as_such(tmp_path, address):
    with pytest.raises(DownloadError, match="not a valid address"):
        get(address, tmp_path)


def test_passwords_and_tokens_are_not_printed(server, tmp_path):
    secret = server.address.replace("http://", "http://me:secret@") + "?token=secret"
    with pytest.raises(DownloadError, match="user's name or password are not supported") as caught:
        get(secret, tmp_path)
    assert "secret" not in str(caught.value)
    server.script = [404]
    with pytest.raises(DownloadError) as caught:
        get(server.address + "?token=secret", tmp_path)
    assert "secret" not in str(caught.value)


def test_redirections_are_followed(server, tmp_path):
    server.script = [redirect("/other.tar"), redirect(server.address, 308)]
    get(server.address, tmp_path)
    assert (tmp_path / "file.tar").read_bytes() == BODY


@pytest.mark.parametrize("target", ["file:///etc/hostname", "ftp://127.0.0.1/x", "data:,x", "http://[bad/"])
def test_redirections_to_other_kinds_of_addresses_are_refused(server, tmp_path, target):
    server.script = [redirect(target)]
    with pytest.raises(DownloadError, match=r"addresses only|valid address"):
        get(server.address, tmp_path, None)
    assert len(server.requests) == 1
    assert_nothing_kept(tmp_path)


def test_redirections_from_https_to_http_are_refused(server, tmp_path, monkeypatch):
    def answer(_, request, timeout):
        assert request.full_url == "https://example.org/file.tar"  # nothing else is asked for
        headers = Message()
        headers["Location"] = server.address
        raise urllib.error.HTTPError(request.full_url, 302, "Found", headers, None)

    monkeypatch.setattr(urllib.request.OpenerDirector, "open", answer)
    with pytest.raises(DownloadError, match="redirects from https to an address that is not"):
        get("https://example.org/file.tar", tmp_path)
    assert server.requests == []


def test_redirections_in_a_circle_end(server, tmp_path):
    server.script = [redirect(server.address)] * 100
    with pytest.raises(DownloadError, match="redirects more than 5 times"):
        get(server.address, tmp_path)
    assert len(server.requests) == 6


def test_the_text_of_a_redirection_is_not_read(server, tmp_path):
    ended = threading.Event()

    def endless(request):
        request.wfile.write(f"HTTP/1.1 302 Found\r\nLocation: {server.address}\r\n\r\n".encode())
        try:
            while not ended.is_set():
                request.wfile.write(bytes(2**16))
        finally:
            ended.set()

    server.script = [endless]
    get(server.address, tmp_path)
    assert ended.wait(5)


def test_files_beyond_the_expected_size_are_refused_before_they_come(server, tmp_path):
    with pytest.raises(DownloadError, match=r"the file has 102400 bytes; expected at most 1000\.$"):
        get(server.address, tmp_path, None, max_bytes=1000)
    assert len(server.requests) == 1
    assert_nothing_kept(tmp_path)


@pytest.mark.parametrize("chunked", [False, True])
def test_bodies_beyond_the_expected_size_are_cut_and_deleted(server, tmp_path, chunked):
    def endless(request):
        request.wfile.write(b"HTTP/1.1 200 OK\r\n" + b"Transfer-Encoding: chunked\r\n" * chunked + b"\r\n")
        for _ in range(10_000):
            request.wfile.write((b"10000\r\n" if chunked else b"") + bytes(2**16) + b"\r\n" * chunked)

    server.script = [endless]
    with pytest.raises(DownloadError, match=r"the file has more than 1000000 bytes\.$"):
        get(server.address, tmp_path)
    assert_nothing_kept(tmp_path)


@pytest.mark.parametrize("length", ["9" * 5000, "-5", "x", "1_0", "9" * 18])
def test_lengths_that_are_none_do_no_harm(server, tmp_path, length):
    server.script = [raw(f"HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n".encode(), BODY[:10])]
    with pytest.raises(DownloadError):
        get(server.address, tmp_path)
    assert not (tmp_path / "file.tar").exists()


def test_without_length_and_digest_nothing_shows_that_a_file_is_complete(server, tmp_path):
    whole = raw(b"HTTP/1.0 200 OK\r\n\r\n" + BODY)
    server.script = [whole]
    with pytest.raises(DownloadError, match="does not tell the length of the file, and there is no digest"):
        get(server.address, tmp_path, None)
    assert_nothing_kept(tmp_path)
    server.script = [whole]
    get(server.address, tmp_path)
    assert (tmp_path / "file.tar").read_bytes() == BODY


def test_chunks_have_an_end(server, tmp_path):
    chunks = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"%x\r\n%s\r\n" % (len(BODY), BODY)
    server.script = [raw(chunks)] * 5  # cut off before the last
    with pytest.raises(DownloadError, match="not valid HTTP"):
        get(server.address, tmp_path, None)
    assert not (tmp_path / "file.tar").exists()
    server.script = [raw(chunks + b"0\r\n\r\n")]
    get(server.address, tmp_path, None)
    assert (tmp_path / "file.tar").read_bytes() == BODY


@pytest.mark.parametrize(
    "answer",
    [
        b"\x1b[31mgarbage\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n\x1b]0;x\x07\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\nabc",
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 200 + b"\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 70_000 + b"\r\n\r\n",
        b"HTTP/1.1 \x1b[31m\r\n\r\n",
        b"HTTP/1.1 500 \x1b[31mred\r\n\r\n",
        b"HTTP/1.1 302 Found\r\nLocation: http://\x1b[31m/\xff\r\n\r\n",
        b"HTTP/1.1 204 No Content\r\n\r\n",
        b"HTTP/1.1 799 odd\r\n\r\n",
        b"",
    ],
)
def test_garbage_ends_in_a_sentence(server, tmp_path, answer):
    server.script = [raw(answer)] * 5
    with pytest.raises(DownloadError, match="could not be fetched") as caught:
        get(server.address, tmp_path)
    assert str(caught.value).isprintable()
    assert not (tmp_path / "file.tar").exists()


def test_compressed_answers_are_refused(server, tmp_path):
    server.script = [raw(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 1\r\n\r\nx")]
    with pytest.raises(DownloadError, match="sends the file compressed"):
        get(server.address, tmp_path, None)
    assert_nothing_kept(tmp_path)


@pytest.mark.parametrize(
    "span", ["bytes 0-9/*", "bytes x-9/10", "bytes 51200-60000/999", "", "bytes 7-99/102400"]
)
def test_a_part_that_does_not_fit_leads_to_a_fresh_start(server, tmp_path, span):
    other = f"HTTP/1.1 206 Partial\r\nContent-Range: {span}\r\nContent-Length: 4\r\n\r\nevil".encode()
    server.script = ["break", raw(other)]
    get(server.address, tmp_path, None)
    assert (tmp_path / "file.tar").read_bytes() == BODY
    assert "range" not in server.requests[2]


def test_validators_that_cannot_be_sent_back_are_not_used(server, tmp_path):
    head = f"HTTP/1.1 200 OK\r\nETag: a\r\n b\r\nContent-Length: {len(BODY)}\r\n\r\n".encode()
    server.script = [raw(head + BODY[:1000])]
    get(server.address, tmp_path)
    assert (tmp_path / "file.tar").read_bytes() == BODY
    assert "if-range" not in server.requests[1]


@pytest.mark.parametrize(
    "start",
    [
        pytest.param(b"", id="before the answer"),
        pytest.param(b"HTTP/1.1 200 OK\r\nX: ", id="in a header"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 102400\r\n\r\n", id="in the body"),
        pytest.param(b"HTTP/1.1 200 OK\r\n\r\n", id="in a body without length"),
        pytest.param(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", id="in the length of a chunk"),
    ],
)
def test_servers_that_send_a_byte_now_and_then_are_given_up(server, tmp_path, monkeypatch, start):
    monkeypatch.setattr(web, "WINDOW_SECONDS", 0.2)
    monkeypatch.setattr("ddsfl.datasets.fetch.ATTEMPTS", 2)
    server.script = [raw(start, *[b"1"] * 100, pause=0.02)] * 2
    begun = time.perf_counter()
    with pytest.raises(DownloadError, match=r"less than 1024 bytes per second for 0.2 seconds"):
        get(server.address, tmp_path)
    assert time.perf_counter() - begun < 1.5
    assert not (tmp_path / "file.tar").exists()


def test_servers_that_never_answer_are_given_up(server, tmp_path, monkeypatch):
    monkeypatch.setattr(web, "TIMEOUT_SECONDS", 0.1)
    server.script = [raw(b"", pause=0.3)] * 5
    with pytest.raises(DownloadError, match="timed out"):
        get(server.address, tmp_path)


def test_a_slow_server_that_is_fast_enough_is_waited_for(server, tmp_path, monkeypatch):
    monkeypatch.setattr(web, "WINDOW_SECONDS", 0.2)
    head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(BODY)}\r\n\r\n".encode()
    pieces = [BODY[at : at + 10_240] for at in range(0, len(BODY), 10_240)]
    server.script = [raw(head, *pieces, pause=0.06)]
    get(server.address, tmp_path)
    assert (tmp_path / "file.tar").read_bytes() == BODY
    assert len(server.requests) == 1


def test_two_downloads_into_one_file_are_noticed(server, tmp_path):
    def meddle(request):
        request.wfile.write(f"HTTP/1.1 200 OK\r\nContent-Length: {len(BODY)}\r\n\r\n".encode() + BODY[:5000])
        for _ in range(100):
            if (tmp_path / ".file.tar.part").exists():
                break
            time.sleep(0.01)
        with open(tmp_path / ".file.tar.part", "ab") as stream:
            stream.write(b"from another process")
        request.wfile.write(BODY[5000:])

    server.script = [meddle]
    get(server.address, tmp_path, None)
    assert (tmp_path / "file.tar").read_bytes() == BODY
    assert len(server.requests) == 2

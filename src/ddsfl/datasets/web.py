"""Ask a web server for a file. What it answers is bounded: redirections, waiting, and how slowly it sends."""

from __future__ import annotations

import contextlib
import http
import http.client
import re
import socket
import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urljoin, urlsplit

TIMEOUT_SECONDS = 30.0
#: A server that sends less than this in each window is given up, so a download takes at most one second per
#: KiB. The first window includes the wait for an answer.
WINDOW_SECONDS = 60.0
LEAST_BYTES_PER_SECOND = 1024
MAX_REDIRECTIONS = 5

#: Temporary errors; others (403, 404, 410 ...) would occur again.
_PASSING = frozenset({408, 416, 425, 429, 500, 502, 503, 504})
_REDIRECTIONS = frozenset({301, 302, 303, 307, 308})


class PassingError(Exception):
    """This attempt failed; another may succeed. ``status`` is the server's, if it answered."""

    def __init__(self, text: str, status: int | None = None) -> None:
        super().__init__(text)
        self.status = status


class FinalError(Exception):
    """Further attempts at this address would fail too."""


class Answer:
    """What a server sends for an address.

    Attributes
    ----------
    resumed : whether it sends the rest of a file, from byte ``start``, instead of a complete one.
    total : length of the complete file; None if the server does not tell.
    has_end : whether an answer that breaks off can be told from a complete one.
    validator : changes with the file; None if the server gives none that is reliable.
    """

    def __init__(self, answer: Any, watch: _Watch) -> None:
        self._answer, self._watch = answer, watch
        headers = answer.headers
        self.resumed = answer.status == 206
        form = r"bytes (\d{1,18})-\d{1,18}/(\d{1,18})"
        span = re.fullmatch(form, headers.get("Content-Range", "")) if self.resumed else None
        length = re.fullmatch(r"[0-9]{1,18}", headers.get("Content-Length", ""))
        self.start = int(span[1]) if span else 0
        self.total = int(span[2]) if span else None
        if length and not self.resumed and not answer.chunked:
            self.total = int(length[0])
        self.has_end = self.total is not None or bool(answer.chunked)
        self.validator = _validator(headers)

    def read(self, most: int) -> bytes:
        """Return the next bytes, as soon as there are any; none at the end."""
        with _network_errors(self._watch):
            block: bytes = self._answer.read1(most)
        self._watch.n_bytes += len(block)
        return block


@contextlib.contextmanager
def answer_to(address: str, headers: Mapping[str, str]) -> Iterator[Answer]:
    """Ask for an address and yield the answer; `PassingError` or `FinalError` if there is none."""
    with _Watch() as watch:
        answer = _ask(address, headers, watch)
        with contextlib.closing(answer):
            if answer.status not in (200, 206):
                raise FinalError(f"{_status(answer.status)}; expected the file.")
            coding = answer.headers.get("Content-Encoding", "identity")
            if coding.strip().lower() != "identity":
                raise FinalError("the server sends the file compressed, although it was asked not to.")
            yield Answer(answer, watch)


def shown_address(address: str) -> str:
    """Return an address for a message, without a user's name, password or token.

    >>> shown_address("https://me:secret@example.org:8443/a.tar?token=secret")
    'https://example.org:8443/a.tar'
    """
    try:
        parts = urlsplit(address)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
    except ValueError:
        return "an invalid address"


def _ask(address: str, headers: Mapping[str, str], watch: _Watch) -> Any:
    """Return the response to a request, after redirections."""
    for _ in range(MAX_REDIRECTIONS + 1):
        _check(address)
        request = urllib.request.Request(address, headers=dict(headers))
        try:
            with _network_errors(watch):
                return _opener(watch).open(request, timeout=TIMEOUT_SECONDS)
        except urllib.error.HTTPError as error:
            error.close()  # its text is of no use, and may be endless
            there = error.headers.get("Location")
            if error.code not in _REDIRECTIONS or not there:
                if error.code in _PASSING:
                    raise PassingError(f"{_status(error.code)}.", error.code) from error
                raise FinalError(f"{_status(error.code)}.") from error
            address = _redirected(address, there)
    raise FinalError(f"the server redirects more than {MAX_REDIRECTIONS} times.")


def _check(address: str) -> None:
    """Raise `FinalError` unless an address may be asked for."""
    try:
        parts = urlsplit(address)
        valid = bool(parts.hostname) and parts.port != 0 and re.fullmatch(r"[!-~]+", address)
    except ValueError:
        valid = False
    if not valid:
        raise FinalError("this is not a valid address.")
    if parts.scheme not in ("http", "https"):
        raise FinalError("files are fetched from http and https addresses only.")
    if parts.username is not None or parts.password is not None:
        raise FinalError("addresses with a user's name or password are not supported.")


def _redirected(address: str, there: str) -> str:
    try:
        target = urljoin(address, there)
        safe = address.startswith("http:") or urlsplit(target).scheme == "https"
    except ValueError:
        raise FinalError("the server redirects to an invalid address.") from None
    if not safe:
        raise FinalError("the server redirects from https to an address that is not.")
    return target


def _status(code: int) -> str:
    """Return a status in words of our own, not of the server.

    >>> _status(404), _status(799)
    ('HTTP 404 (Not Found)', 'HTTP 799')
    """
    known = {status.value: status.phrase for status in http.HTTPStatus}
    return f"HTTP {code} ({known[code]})" if code in known else f"HTTP {code}"


def _validator(headers: Any) -> str | None:
    """Return what tells whether a file is still the same, in a form that can be sent back."""
    etag = headers.get("ETag", "")
    # Weak ones do not guarantee the same bytes.
    value = etag if etag and not etag.startswith("W/") else headers.get("Last-Modified", "")
    return value if re.fullmatch(r"[ -~]{1,500}", value) else None


@contextlib.contextmanager
def _network_errors(watch: _Watch) -> Iterator[None]:
    """Turn every failure of the connection into `PassingError` or `FinalError`; statuses pass through."""
    try:
        yield
    except urllib.error.HTTPError:
        raise
    except (OSError, http.client.HTTPException, ValueError) as error:
        watch.refuse_slowness()
        reason = getattr(error, "reason", None) or error
        if isinstance(reason, ssl.SSLCertVerificationError):
            raise FinalError(f"its certificate is not accepted: {reason.verify_message}.") from error
        if isinstance(reason, OSError):
            raise PassingError(f"{reason.strerror or reason}.") from error
        raise PassingError(f"the answer is not valid HTTP ({type(reason).__name__}).") from error
    watch.refuse_slowness()


def _opener(watch: _Watch) -> urllib.request.OpenerDirector:
    """Return an opener for http and https that uses proxies, but follows no redirections."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        _WatchedHandler(watch),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPErrorProcessor(),
    ):
        opener.add_handler(handler)
    return opener


class _WatchedHandler(urllib.request.AbstractHTTPHandler):
    """Opens connections whose sockets are watched."""

    def __init__(self, watch: _Watch) -> None:
        super().__init__()
        self._watch = watch

    def http_open(self, request: urllib.request.Request) -> Any:
        return self.do_open(self._watch.watching(http.client.HTTPConnection), request)

    def https_open(self, request: urllib.request.Request) -> Any:
        kind = self._watch.watching(http.client.HTTPSConnection)
        return self.do_open(kind, request, context=ssl.create_default_context())

    http_request = https_request = urllib.request.AbstractHTTPHandler.do_request_


class _Watch:
    """Ends connections that receive too little; a timeout alone is satisfied by one byte now and then."""

    def __init__(self) -> None:
        self.n_bytes = 0
        self._sockets: list[socket.socket] = []
        self._too_slow = False
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> _Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def watching(self, kind: type[http.client.HTTPConnection]) -> Any:
        """Return a kind of connection that registers its socket here."""
        sockets = self._sockets

        class Watched(kind):  # type: ignore[valid-type, misc]
            def connect(self) -> None:
                super().connect()
                sockets.append(self.sock)

        return Watched

    def refuse_slowness(self) -> None:
        """Raise `PassingError` if the connection was ended from here."""
        if self._too_slow:
            rate = f"{LEAST_BYTES_PER_SECOND} bytes per second"
            raise PassingError(f"the server sent less than {rate} for {WINDOW_SECONDS:g} seconds.")

    def _run(self) -> None:
        before = 0
        while not self._done.wait(WINDOW_SECONDS):
            if self.n_bytes - before < LEAST_BYTES_PER_SECOND * WINDOW_SECONDS and self._sockets:
                self._too_slow = True
                for opened in self._sockets:
                    with contextlib.suppress(OSError):
                        opened.shutdown(socket.SHUT_RDWR)
                return
            before = self.n_bytes

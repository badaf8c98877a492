"""A local web server that serves one file and misbehaves according to a script."""

import contextlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Scripted:
    """The served content (``body``, ``etag``) and the answers to the next requests (``script``).

    Each entry of the script is one answer: "break" sends half of the requested bytes and hangs up, "longer"
    and "shorter" give a false Content-Length, "wrong" sends other bytes, "no range" ignores Range, "off"
    continues at another byte, a number is an HTTP status, and a function is called with the request. After
    the script, answers are normal.
    """

    def __init__(self, body):
        self.body, self.etag, self.script, self.requests = body, '"one"', [], []
        self.address = ""

    def answer(self, request):
        how = self.script.pop(0) if self.script else "well"
        self.requests.append({key.lower(): value for key, value in request.headers.items()})
        if isinstance(how, int):
            request.send_error(how)
            return
        if callable(how):
            with contextlib.suppress(ConnectionError):
                how(request)
            request.close_connection = True
            return
        start, total = 0, len(self.body)
        wanted = request.headers.get("Range")
        same = request.headers.get("If-Range") in (None, self.etag)
        if wanted and same and how != "no range":
            start = int(wanted.removeprefix("bytes=").rstrip("-"))
            if start >= total:
                request.send_error(416)
                return
            start += how == "off"
            request.send_response(206)
            request.send_header("Content-Range", f"bytes {start}-{total - 1}/{total}")
        else:
            request.send_response(200)
        body = self.body[start:]
        lie = {"longer": 7, "shorter": -7}.get(how, 0)
        request.send_header("Content-Length", str(len(body) + lie))
        if self.etag:
            request.send_header("ETag", self.etag)
        request.end_headers()
        if how == "wrong":
            body = bytes(byte ^ 1 for byte in body)
        if how == "break":
            body = body[: len(body) // 2]
        with contextlib.suppress(ConnectionError):
            request.wfile.write(body[: len(body) + min(lie, 0)])
        request.close_connection = True


@contextlib.contextmanager
def serving(body):
    """Serve ``body`` at ``.address`` until the end of the block."""
    scripted = Scripted(body)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            scripted.answer(self)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        scripted.address = f"http://127.0.0.1:{server.server_port}/file.tar"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield scripted
        finally:
            server.shutdown()
            thread.join()

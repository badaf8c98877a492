"""A named pipe that tells whether somebody waited for it, and lets nobody wait for ever."""

import os
import threading
from contextlib import contextmanager


@contextmanager
def named_pipe(path):
    """Create a named pipe; fail at the end if somebody opened it in a way that waits for a writer."""
    os.mkfifo(path)
    opened, done = [], threading.Event()

    def release():
        while not done.wait(0.02):
            try:
                os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
            except OSError:  # nobody reads
                continue
            opened.append(path)

    thread = threading.Thread(target=release, daemon=True)
    thread.start()
    try:
        yield path
    finally:
        done.set()
        thread.join()
    assert not opened, f"{path} was opened"

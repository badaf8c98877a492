"""A program that uses an engine, to be interrupted; and what it leaves behind.

python -m tests.support.drivers FOLDER processes|ray [ADDRESS]
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

ROOT = Path(__file__).parents[2]
_MARK = "DDSFL_TEST_MARK"


class Driver:
    """The program in a session of its own; all its processes carry a mark in their environment."""

    def __init__(self, folder, *arguments, **environment):
        self.folder, self._mark = folder, f"{_MARK}={uuid.uuid4()}".encode()
        marked = dict([self._mark.decode().split("=")])
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.drivers", str(folder), *arguments],
            cwd=ROOT,
            env={**os.environ, **marked, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            # Shells start background jobs with SIGINT ignored, which children inherit.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )

    def wait_for_items(self, count):
        """Wait until so many items are being worked on."""
        wait_until(
            lambda: len(list(self.folder.glob("started-*"))) >= count or self.process.poll() is not None
        )
        assert self.process.poll() is None, self.process.communicate()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        for number in self.marked():  # after a failed test
            with contextlib.suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)
        self.process.wait()

    def marked(self):
        """Return the ids of the living processes that descend from the program."""
        found = []
        for place in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                alive = "(Z)" not in f"({(place / 'stat').read_text().rpartition(')')[2].split()[0]})"
                if alive and self._mark in (place / "environ").read_bytes().split(b"\0"):
                    found.append(int(place.name))
        return found


def wait_until(true, seconds=60.0):
    """Wait until a condition is true; fail after some time."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it never became true"
        time.sleep(0.05)


def main():
    from ddsfl.cli.ends import run
    from ddsfl.cli.engines import engine_of
    from tests.support.crews import makes, write_slowly

    folder, name, *address = sys.argv[1:]

    def work():
        with engine_of(name, *address, workers=2) as engine:
            for outcome in engine.run(
                makes(write_slowly, folder), range(4), lambda line: print(line, flush=True)
            ):
                raise AssertionError(outcome)

    def early(number, frame):
        raise AssertionError(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, early)
    run(work, answering=early)


if __name__ == "__main__":
    main()

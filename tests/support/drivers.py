"""A program that uses an engine, to be interrupted; and what it leaves behind.

python -m tests.support.drivers FOLDER processes|ray [ADDRESS]
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

from attacks.sharded.processes import Mark, wait_until

ROOT = Path(__file__).parents[2]


class Driver:
    """The program in a session of its own; all its processes carry a mark in their environment."""

    def __init__(self, folder, *arguments, **environment):
        self.folder, self._mark = folder, Mark()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.drivers", str(folder), *arguments],
            cwd=ROOT,
            env={**os.environ, **self._mark.environment, **environment},
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
        self._mark.end()  # after a failed test
        self.process.wait()

    def marked(self):
        """Return the ids of the living processes that descend from the program."""
        return self._mark.living()


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

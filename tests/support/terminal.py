"""A person's terminal: the program as its own process, in a folder and with an environment of their own."""

import fcntl
import os
import pty
import re
import select
import shlex
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import ddsfl

#: Colours and other signs to a terminal that are no text.
_STYLES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
#: Longer than any step takes on a busy machine.
_PATIENCE = 180.0


class Seen(NamedTuple):
    """What a person sees after a command; on a terminal, ``out`` has everything."""

    code: int
    out: str
    err: str = ""


class Desk:
    """A folder in which commands are typed as in a shell: ``ddsfl`` is the program, ``|`` and ``>`` work.

    Attributes
    ----------
    folder : the current folder of the commands.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        home = folder.with_name(f"{folder.name}-home")
        home.mkdir()
        self._environment = {
            "HOME": str(home),
            "LANG": "C.UTF-8",
            "OMP_NUM_THREADS": "1",  # tests run next to each other
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(Path(ddsfl.__file__).parents[1]),
            "TERM": "xterm",
        }

    def type(self, line: str, **environment: str) -> Seen:
        """Run a command line without a terminal, as from a script."""
        done = subprocess.run(
            _shell(line),
            cwd=self.folder,
            env={**self._environment, **environment},
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=_PATIENCE,
            check=False,
        )
        return Seen(done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode())

    def type_all(self, *lines: str) -> list[Seen]:
        """Run command lines that do not depend on each other, two at a time."""
        with ThreadPoolExecutor(2) as both:
            return list(both.map(self.type, lines))

    def watch(self, line: str, *, columns: int = 80, stop_when: Callable[[], bool] = lambda: False) -> Seen:
        """Run a command line on a terminal, and press Ctrl-C once when ``stop_when`` is true."""
        child, screen = pty.fork()
        if child == 0:
            os.chdir(self.folder)
            os.execve("/bin/bash", _shell(line), self._environment)
        fcntl.ioctl(screen, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        shown, pressed, end = b"", False, time.monotonic() + _PATIENCE
        try:
            while time.monotonic() < end:
                if not pressed and stop_when():
                    os.write(screen, b"\x03")
                    pressed = True
                if select.select([screen], [], [], 0.01)[0]:
                    shown += os.read(screen, 65536)
        except OSError:  # the program has ended
            pass
        os.close(screen)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        return Seen(code, _STYLES.sub("", shown.decode("utf-8", "replace")).replace("\r\n", "\n"))


def _shell(line: str) -> list[str]:
    program = f'ddsfl() {{ {shlex.quote(sys.executable)} -m ddsfl "$@"; }}'
    return ["/bin/bash", "-o", "pipefail", "-c", f"{program}; {line}"]

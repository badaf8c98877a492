"""Where a line of bash meets the program `ddsfl` in surroundings that were made bad on purpose."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from PIL import Image

import ddsfl
from ddsfl import SceneClassifier, make_scenes
from ddsfl.model.presets import PRESETS

#: Seconds that a surrounding may take.
LIMIT = 60
#: What nobody wants to read.
UGLY = ("Traceback", "Exception ignored", "Fatal Python error", "terminate called", "Segmentation fault")
#: Changes of preset `quick` that make it small.
SMALL = {
    "layers.bank.n_filters": 8,
    "layers.bank.max_iter": 2,
    "layers.bank.rounds": 1,
    "layers.bank.round_iter": 2,
    "layers.n_components": 10,
    "layers.n_scales": 2,
    "layers.patches_per_image": 20,
    "blocks.coding.n_words": 10,
    "blocks.coding.max_iter": 2,
}
#: The program as pip installs it.
CONSOLE_SCRIPT = f"""#!{sys.executable}
import re
import sys
from ddsfl.__main__ import main
if __name__ == "__main__":
    sys.argv[0] = re.sub(r"(-script\\.pyw|\\.exe)?$", "", sys.argv[0])
    sys.exit(main())
"""
#: Python modules that replace `sitecustomize`, by name: what they disturb before the program begins.
HOOKS = {
    "no_threads": """
import threading
def start(self): raise RuntimeError("can't start new thread")
threading.Thread.start = start
""",
    "signal": """
import os, signal, sys
# The program sends itself signals when it begins to import a module (WHEN), as Ctrl-C at that moment would.
class Finder:
    sent = False
    def find_spec(self, name, path=None, target=None):
        if name == os.environ.get("WHEN") and not self.sent:
            Finder.sent = True
            for one in os.environ["SENT"].split():
                os.kill(os.getpid(), getattr(signal, one))
sys.meta_path.insert(0, Finder())
signal.signal(signal.SIGINT, signal.default_int_handler)
""",
    "late": """
import atexit, os, signal, sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "ddsfl.cli.main":
            atexit.register(os.kill, os.getpid(), getattr(signal, os.environ["SENT"]))
sys.meta_path.insert(0, Finder())
signal.signal(signal.SIGINT, signal.default_int_handler)
""",
    "thread": """
import concurrent.futures, os, signal
submit = concurrent.futures.ThreadPoolExecutor.submit
def signalled(self, *given, **options):
    submit(self, os.kill, os.getpid(), getattr(signal, os.environ["SENT"]))
    return submit(self, *given, **options)
concurrent.futures.ThreadPoolExecutor.submit = signalled
signal.signal(signal.SIGINT, signal.default_int_handler)
""",
    "writing": """
import os, signal
fsync = os.fsync
def signalled(descriptor):
    os.kill(os.getpid(), getattr(signal, os.environ["SENT"]))
    return fsync(descriptor)
os.fsync = signalled
signal.signal(signal.SIGINT, signal.default_int_handler)
""",
}


class Surrounding(NamedTuple):
    """A line of bash and the exit codes that are right for it."""

    line: str
    codes: tuple[int, ...] = (0,)
    says: str = ""
    """A regular expression that standard error must match."""
    leaves: str = ""
    """What may be left in the folder `out`, as a regular expression for all of its files."""


class Outcome(NamedTuple):
    """What a surrounding did."""

    code: int | None
    """The exit code; None if it took too long."""
    seconds: float
    out: str
    err: str
    left: list[str]
    """The files in the folder `out`."""

    def wrong(self, expected: Surrounding) -> str:
        """Return what is wrong; nothing if all is well."""
        if self.code is None:
            return f"takes over {LIMIT} s"
        if ugly := next((words for words in UGLY if words in self.out + self.err), None):
            return ugly
        if self.code not in expected.codes:
            return f"exit code {self.code}; expected {' or '.join(map(str, expected.codes))}"
        if (
            self.code == 1
            and self.err
            and sum(line.startswith("ddsfl: ") for line in self.err.splitlines()) != 1
        ):
            return "not one sentence"
        if not re.search(expected.says, self.err, re.MULTILINE):
            return f"standard error does not match {expected.says}"
        if expected.leaves and not re.fullmatch(expected.leaves, " ".join(self.left)):
            return f"leaves {' '.join(self.left)}"
        if any(name.endswith(".part") for name in self.left):
            return "leaves an unfinished file"
        return ""


def _hears_all_signals() -> None:
    """Undo what `nohup` and some schedulers do: a program inherits that signals are ignored."""
    for sent in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(sent, signal.SIG_DFL)


class Ground:
    """The prepared files, copied for each surrounding."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._prepared = folder / "prepared"
        images, labels = make_scenes(n_per_class=4, random_state=0, size=64)
        for number, (image, label) in enumerate(zip(images, labels)):
            path = self._prepared / "set" / label / f"{number:03}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(image).save(path)
        settings = PRESETS["quick"].change(SMALL)
        SceneClassifier(settings, random_state=0).fit(images, labels).save(self._prepared / "m")
        for name, source in HOOKS.items():
            path = self._prepared / "hooks" / name / "sitecustomize.py"
            path.parent.mkdir(parents=True)
            path.write_text(source)
        program = folder / "bin" / "ddsfl"
        program.parent.mkdir()
        program.write_text(CONSOLE_SCRIPT)
        program.chmod(0o755)

    def run(self, surrounding: Surrounding) -> Outcome:
        """Run one surrounding in a folder of its own."""
        place = Path(tempfile.mkdtemp(dir=self.folder))
        shutil.copytree(self._prepared, place, dirs_exist_ok=True)
        (place / "out").mkdir()
        environment = {
            "HOME": str(place),
            "LANG": "C.UTF-8",
            "OMP_NUM_THREADS": "1",
            "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}",
            "PYTHONPATH": str(Path(ddsfl.__file__).parents[1]),
            "TERM": "xterm",
        }
        begin = time.monotonic()
        with open(place / "stdout", "wb") as out, open(place / "stderr", "wb") as err:
            process = subprocess.Popen(
                ["/bin/bash", "-c", surrounding.line],
                cwd=place,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
                preexec_fn=_hears_all_signals,
            )
            try:
                code: int | None = process.wait(LIMIT)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                code = None
        seconds = time.monotonic() - begin
        out_text, err_text = (
            (place / name).read_bytes().decode("utf-8", "replace") for name in ("stdout", "stderr")
        )
        left = sorted(path.name for path in (place / "out").rglob("*") if path.parent.name != "m.stages")
        left += [path.name for path in (place / "out").rglob("*.part")]
        shutil.rmtree(place, ignore_errors=True)
        return Outcome(code, seconds, out_text, err_text, left)

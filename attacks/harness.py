"""Run cases in child processes and watch them: foreign errors, hangs, memory, deaths and unnamed files."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).parents[1]
#: Imports and `Domain.prepare`, also on a busy machine.
_START_SECONDS = 300.0
#: Cases of one finding whose files are kept.
_KEPT = 3


@dataclass(frozen=True)
class Limits:
    """What a case may cost.

    Attributes
    ----------
    seconds : processor time, and waiting without work. A case that only waits for a busy machine has six
        times as long.
    bytes : memory in addition to what the process had before.
    """

    seconds: float = 10.0
    bytes: int = 10**9


@dataclass(frozen=True)
class Finding:
    """Something that must not happen.

    Attributes
    ----------
    number : the case.
    kind : "error", "assertion", "hang", "memory", "died", "opened", "started" or "foreign".
    what : the last line of the error, or what was opened or started.
    where : the innermost place of the product.
    """

    number: int
    kind: str
    what: str
    where: str

    @property
    def key(self) -> tuple[str, str, str]:
        """What equal findings have in common."""
        what = self.what.partition(":")[0] if self.kind in ("error", "assertion") else ""
        return self.kind, what or self.what.partition(" ")[0], self.where


@dataclass
class Tally:
    """The outcome of many cases of one domain.

    Attributes
    ----------
    domain : its name.
    results : how many cases were accepted, refused, or gave a finding.
    findings : all findings, equal ones together.
    slowest, largest : the most seconds and bytes of a case without finding, each with its number.
    """

    domain: str
    results: Counter[str] = field(default_factory=Counter)
    findings: dict[tuple[str, str, str], list[Finding]] = field(default_factory=dict)
    slowest: tuple[float, int] = (0.0, -1)
    largest: tuple[int, int] = (0, -1)

    @property
    def kinds(self) -> Counter[str]:
        """How many cases gave each kind of finding."""
        cases = {(each.kind, each.number) for same in self.findings.values() for each in same}
        return Counter(kind for kind, _ in cases)

    def add(self, number: int, outcome: dict[str, Any]) -> list[Finding]:
        """Count a case; return its findings that have not been seen often."""
        self.results[outcome["result"]] += 1
        if not outcome["findings"]:
            self.slowest = max(self.slowest, (outcome["seconds"], number))
            self.largest = max(self.largest, (outcome["bytes"], number))
        found = [Finding(number, each["kind"], each["what"], each["where"]) for each in outcome["findings"]]
        for each in found:
            self.findings.setdefault(each.key, []).append(each)
        return [each for each in found if len(self.findings[each.key]) <= _KEPT]


class Attack:
    """Runs cases of one domain in several processes.

    Parameters
    ----------
    name, spec : the domain and where it is, "module:class".
    seed : what the cases depend on, with their numbers.
    keep : folder for the files of cases with findings; the processes work in it too.
    limits : what a case may cost.
    """

    def __init__(self, name: str, spec: str, seed: int, keep: Path, limits: Limits | None = None) -> None:
        self.name, self.spec, self.seed, self.keep = name, spec, seed, keep
        self.limits = limits or Limits()
        self._lock = threading.Lock()

    def run(
        self, numbers: Iterable[int], jobs: int = 1, progress: Callable[[Tally], None] = lambda tally: None
    ) -> Tally:
        """Return the outcome of the cases with these numbers; after Ctrl-C, of those that have run."""
        tally, left = Tally(self.name), iter(numbers)
        failures: list[BaseException] = []
        stopped = threading.Event()

        def work() -> None:
            child: _Child | None = None
            try:
                while not stopped.is_set():
                    with self._lock:
                        number = next(left, None)
                    if number is None:
                        break
                    child = child or _Child(self)
                    outcome = child.run(number)
                    with self._lock:
                        if tally.add(number, outcome):
                            self._keep(number, child, outcome)
                        progress(tally)
                    if not child.alive:
                        child.remove()
                        child = None
            except BaseException as error:
                failures.append(error)
                stopped.set()
            finally:
                if child is not None:
                    child.remove()

        self.keep.mkdir(parents=True, exist_ok=True)
        threads = [threading.Thread(target=work) for _ in range(jobs)]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                thread.join()
        except KeyboardInterrupt:
            stopped.set()  # the cases in flight still end, so that all before the next number have run
            for thread in threads:
                thread.join()
        if failures:
            raise failures[0]
        return tally

    def _keep(self, number: int, child: _Child, outcome: dict[str, Any]) -> None:
        """Move the files of a case to the folder of findings and describe it there."""
        kept = self.keep / self.name / str(number)
        shutil.rmtree(kept, ignore_errors=True)
        kept.mkdir(parents=True)
        with contextlib.suppress(FileNotFoundError):
            (child.folder / "case").rename(kept / "case")
        text = [f"python -m attacks.fuzz {self.name} --seed {self.seed} --case {number}", ""]
        for finding in outcome["findings"]:
            text += [f"{finding['kind']}: {finding['what']} ({finding['where']})", finding.get("detail", "")]
        text += [outcome.get("case", "")]
        (kept / "finding.txt").write_text("\n".join(text), errors="backslashreplace")


class _Child:
    """A process that runs cases (`attacks.worker`); not alive after a hang or a death."""

    def __init__(self, attack: Attack) -> None:
        self._limits = attack.limits
        self.folder = Path(tempfile.mkdtemp(prefix="work-", dir=attack.keep)).resolve()
        (self.folder / "matplotlib").mkdir()
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(_ROOT / "src"), str(_ROOT), os.environ.get("PYTHONPATH", "")]),
            "OMP_NUM_THREADS": "1",
            "MPLCONFIGDIR": str(self.folder / "matplotlib"),
            "COLUMNS": "200",
        }
        command = [sys.executable, "-m", "attacks.worker", attack.spec, str(attack.seed), str(self.folder)]
        self._process = subprocess.Popen(
            [*command, str(attack.limits.bytes)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,  # so that its own children end with it
        )
        self.alive = True
        if self._answer(_START_SECONDS) is None:
            why = self._last_words("log")
            self.remove()
            raise RuntimeError(f"{attack.spec} could not be prepared: {why}")

    def run(self, number: int) -> dict[str, Any]:
        """Return the outcome of a case, as `attacks.worker.Worker.run` gives it."""
        assert self._process.stdin is not None
        busy = self._busy_seconds()
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(f"{number}\n".encode())
            self._process.stdin.flush()
        limit = self._limits.seconds
        answer, waited = self._answer(limit), limit
        while answer is None and self._process.poll() is None:
            worked = self._busy_seconds() - busy
            # Neither idle nor at its limit: the machine is busy with other things.
            if worked >= limit or worked < 0.05 * waited or waited >= 6 * limit:
                return self._hung()
            answer = self._answer(0.5)
            waited += 0.5
        if answer is not None and "broken" in answer:
            raise RuntimeError(f"case {number} could not be made: {answer['broken']}")
        return self._died() if answer is None else answer

    def _hung(self) -> dict[str, Any]:
        self._process.send_signal(signal.SIGUSR1)
        time.sleep(0.2)
        stack = self._last_words("stacks", 200)
        self._stop()
        return _outcome("hang", f"more than {self._limits.seconds:g} s", _innermost(stack), stack)

    def _died(self) -> dict[str, Any]:
        code = self._process.wait()
        stack = self._last_words("stacks", 200)
        self._stop()
        name = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        return _outcome("died", name, _innermost(stack), f"{stack}\n{self._last_words('log', 50)}")

    def _answer(self, seconds: float) -> Any:
        """Return the next line of the process; None if none comes in time or at all."""
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], seconds)
        line = self._process.stdout.readline() if ready else b""
        if ready and not line:
            self._process.wait()
        return json.loads(line) if line else None

    def _busy_seconds(self) -> float:
        """Return the processor time of the process; infinity where it is unknown."""
        try:
            fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return float("inf")
        return sum(map(int, fields[11:15])) / float(os.sysconf("SC_CLK_TCK"))

    def _last_words(self, file: str, lines: int = 20) -> str:
        with contextlib.suppress(FileNotFoundError):
            return "\n".join((self.folder / file).read_text(errors="replace").splitlines()[-lines:])
        return ""

    def _stop(self) -> None:
        self.alive = False
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            with contextlib.suppress(BrokenPipeError):
                stream.close()

    def remove(self) -> None:
        """End the process and remove its files."""
        if self.alive:
            self._stop()
        shutil.rmtree(self.folder, ignore_errors=True)


def _outcome(kind: str, what: str, where: str, detail: str) -> dict[str, Any]:
    finding = {"kind": kind, "what": what, "where": where, "detail": detail}
    return {"result": "finding", "seconds": 0.0, "bytes": 0, "findings": [finding]}


def _innermost(stack: str) -> str:
    """Return the innermost place of the product in a stack of faulthandler, which begins with it."""
    lines = [line for line in stack.splitlines() if "/ddsfl/" in line]
    return lines[0].rpartition("/ddsfl/")[2] if lines else ""

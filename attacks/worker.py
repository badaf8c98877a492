"""The child process that runs cases: one line with a number in, one line of JSON with the outcome out."""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import resource
import shutil
import signal
import sys
import time
import traceback
import zlib
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from attacks.domain import Attacked, make_domain
from attacks.watch import Watch, innermost

#: Beyond the level before the case, address space ends here: a machine survives any case.
HARD_BYTES = 3 * 2**30


class Worker:
    """Runs cases of one domain one after the other.

    Parameters
    ----------
    domain : the kind of input.
    seed : with the domain's name and the number of a case, all that a case depends on.
    folder : the folder of this worker; ``folder / "case"`` holds the files of the present case.
    max_bytes : more memory than this is a finding.
    """

    def __init__(self, domain: Attacked, seed: int, folder: Path, max_bytes: int) -> None:
        self.domain, self.seed, self.max_bytes = domain, seed, max_bytes
        self.shared, self.place, self.elsewhere = folder / "shared", folder / "case", folder / "elsewhere"
        for made in (self.shared, self.elsewhere):
            made.mkdir(parents=True)
        os.chdir(self.elsewhere)  # so that a file named relative to nothing is noticed
        domain.prepare(self.shared)
        self._watch = Watch(folder, [Path(os.environ["MPLCONFIGDIR"])])
        size = _status("VmSize") or 0
        resource.setrlimit(resource.RLIMIT_AS, (size + HARD_BYTES, resource.RLIM_INFINITY))

    def run(self, number: int) -> dict[str, Any]:
        """Return the outcome of a case: seconds, bytes, result and findings."""
        name = zlib.crc32(self.domain.name.encode())
        rng = np.random.default_rng([self.seed, name, number])
        shutil.rmtree(self.place, ignore_errors=True)
        self.place.mkdir()
        self._watch.begin([self.place, self.shared])
        case = self.domain.case(rng, self.place)
        if strayed := self._watch.end():
            raise RuntimeError(f"making case {number} touched other files: {strayed}")
        named = self.domain.may_open(case)
        before = _restart_peak()
        start, result, findings = time.perf_counter(), "finding", []
        self._watch.begin(named, getattr(self.domain, "may_start", ()))
        try:
            result = self.domain.attempt(case)
            assert result in ("accepted", "refused"), f"attempt returned {result!r}"
        except BaseException as error:  # whatever it is, it is reported and the next case runs
            findings.append(_from_error(error))
        finally:
            events = self._watch.end()
        used = max(0, _peak() - before)
        findings += [{"kind": kind, "what": what, "where": where} for kind, what, where in events]
        if used > self.max_bytes and not any(finding["kind"] == "memory" for finding in findings):
            findings.append({"kind": "memory", "what": f"{used / 1e9:.1f} GB", "where": ""})
        outcome = {"seconds": time.perf_counter() - start, "bytes": used, "findings": findings}
        shown = {"case": repr(case)[:100_000]} if findings else {}
        return {**outcome, **shown, "result": "finding" if findings else result}


def _from_error(error: BaseException) -> dict[str, str]:
    kind = "assertion" if isinstance(error, AssertionError) else "error"
    if isinstance(error, MemoryError) or "can't allocate memory" in str(error):
        kind = "memory"
    lines, frames = traceback.format_exception_only(error), traceback.extract_tb(error.__traceback__)
    return {
        "kind": kind,
        "what": lines[-1].strip()[:500],
        "where": innermost([(frame.filename, frame.name) for frame in reversed(frames)]),
        "detail": "".join(traceback.format_exception(error))[-20_000:],
    }


def _status(field: str) -> int | None:
    """Return a field of /proc/self/status in bytes; None where there is none."""
    with contextlib.suppress(OSError), open("/proc/self/status") as stream:
        for line in stream:
            if line.startswith(f"{field}:"):
                return int(line.split()[1]) * 1024
    return None


def _restart_peak() -> int:
    """Let the peak of memory start at the present level and return it."""
    with contextlib.suppress(OSError), open("/proc/self/clear_refs", "w") as stream:
        stream.write("5")
    return _peak()


def _peak() -> int:
    high = _status("VmHWM")
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 if high is None else high


def _take_streams(log: Path) -> tuple[TextIO, TextIO]:
    """Return streams of questions and answers; what the product reads or prints goes elsewhere."""
    questions, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    with open(log, "w") as stream, open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)
        for descriptor in (1, 2):
            os.dup2(stream.fileno(), descriptor)
    return questions, answers


def main() -> None:
    """Run the cases that standard input names; arguments: domain, seed, folder, bytes."""
    spec, seed, folder, max_bytes = sys.argv[1:]
    questions, answers = _take_streams(Path(folder) / "log")
    with open(Path(folder) / "stacks", "w") as stacks:
        faulthandler.enable(stacks)
        faulthandler.register(signal.SIGUSR1, stacks)  # the parent asks where a case hangs
        worker = Worker(make_domain(spec), int(seed), Path(folder), int(max_bytes))
        print(json.dumps({"ready": True}), file=answers, flush=True)
        for line in questions:
            try:
                outcome = worker.run(int(line))
            except Exception:  # not the product is at fault, but the attack
                outcome = {"broken": traceback.format_exc()}
            print(json.dumps(outcome), file=answers, flush=True)


if __name__ == "__main__":
    main()

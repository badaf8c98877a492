"""The program in bad surroundings: closed streams, no memory, no threads, odd environments, signals.

    python -m attacks.surroundings [NAME ...] [--jobs 2] [--verbose]

Each surrounding is a line of bash in a fresh folder with a small image set `set`, a model `m` of it and the
program `ddsfl`. It must end within 60 s with one of the expected exit codes, without a traceback, and with
one sentence if it fails. Prints a table; exits with code 1 if any surrounding does not hold. NAME is a part
of the name of a surrounding.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from attacks.ground import SMALL, Ground, Surrounding

PREDICT = "ddsfl predict m set"
TRAIN = "ddsfl train set --out out/m " + " ".join(f"--set {path}={value}" for path, value in SMALL.items())
_NO_OUTPUT = "^ddsfl: standard output cannot be written: .*$"
_MEMORY = (0, 1)
_INTERRUPTED = r"\Addsfl: interrupted\.\n\Z"


def _hook(name: str, line: str, **environment: str) -> str:
    set_ = " ".join(f"{key}='{value}'" for key, value in environment.items())
    return f"export {set_} PYTHONPATH=$PWD/hooks/{name}:$PYTHONPATH; {line}"


SURROUNDINGS = {
    # Streams.
    "pipe closed at once": Surrounding(
        "ddsfl predict m set --csv | true; exit ${PIPESTATUS[0]}", (0, 141), r"\A(\w.*: .* s\n)*\Z"
    ),
    "pipe closed after a line": Surrounding(
        "ddsfl datasets list | head -1; exit ${PIPESTATUS[0]}", (0, 141), r"\A\Z"
    ),
    "pipe of help closed": Surrounding("ddsfl --help | true; exit ${PIPESTATUS[0]}", (0, 141), r"\A\Z"),
    "pipe of both closed": Surrounding(f"{PREDICT} 2>&1 | true; exit ${{PIPESTATUS[0]}}", (0, 141)),
    "pipe of stderr closed": Surrounding(f"{TRAIN} 2> >(true)"),
    "stdout closed": Surrounding(f"{PREDICT} >&-", (1,), _NO_OUTPUT),
    "stdout closed, help": Surrounding("ddsfl --help >&-", (1,), _NO_OUTPUT),
    "stdout closed, version": Surrounding("ddsfl --version >&-", (1,), _NO_OUTPUT),
    "stdout closed, nothing to print": Surrounding(f"{TRAIN} >&-"),
    "stderr closed": Surrounding(f"{PREDICT} 2>&-"),
    "stderr closed, an error": Surrounding("ddsfl predict m nothing 2>&-", (1,)),
    "stderr closed, a wrong call": Surrounding("ddsfl predict 2>&-", (2,)),
    "stdout and stderr closed": Surrounding(f"{PREDICT} >&- 2>&-", (1,)),
    "stdin closed": Surrounding(f"{PREDICT} <&-"),
    "all streams closed": Surrounding(f"{TRAIN} <&- >&- 2>&-", leaves=r"m\b.*"),
    "stdout full": Surrounding(f"{PREDICT} >/dev/full", (1,), _NO_OUTPUT),
    "stdout full, json": Surrounding(f"{PREDICT} --json >/dev/full", (1,), _NO_OUTPUT),
    "stdout full, csv": Surrounding(f"{PREDICT} --csv >/dev/full", (1,), _NO_OUTPUT),
    "stdout full, version": Surrounding("ddsfl --version >/dev/full", (1,), _NO_OUTPUT),
    "stdout full, help": Surrounding("ddsfl predict --help >/dev/full", (1,), _NO_OUTPUT),
    "stderr full": Surrounding(f"{TRAIN} 2>/dev/full"),
    "both full": Surrounding(f"{PREDICT} >/dev/full 2>&1", (1,)),
    # Limits.
    **{
        f"memory of {size} MB": Surrounding(f"ulimit -v {size}000; {PREDICT}", (1,), "memory|space|map|alloc")
        for size in (100, 200, 400, 600, 800, 1000, 1300, 1900)
    },
    **{
        f"memory of {size} MB": Surrounding(f"ulimit -v {size}000; {PREDICT}", _MEMORY)
        for size in (2000, 2500)
    },
    "memory of 2000 MB, train": Surrounding(f"ulimit -v 2000000; {TRAIN}", _MEMORY),
    **{
        f"{count} descriptors": Surrounding(f"ulimit -n {count}; {PREDICT}", (0, 1))
        for count in (5, 6, 8, 12, 24, 64)
    },
    "8 descriptors, train": Surrounding(f"ulimit -n 8; {TRAIN}", (0, 1)),
    "no threads": Surrounding(_hook("no_threads", PREDICT), (0, 1), "thread|s$"),
    "no threads, train": Surrounding(_hook("no_threads", TRAIN), (0, 1)),
    "stack of 256 KB": Surrounding(f"ulimit -s 256; {PREDICT}", (0, 1)),
    "files of at most 1 KB": Surrounding(
        f"trap '' XFSZ; ulimit -f 1; {TRAIN}", (1,), "^ddsfl: File too large.*$", leaves=r"(m\.stages)?"
    ),
    # Places.
    "read-only HOME": Surrounding(f"export HOME=/proc; {PREDICT}"),
    "no HOME": Surrounding(f"unset HOME; {PREDICT}"),
    "HOME that does not exist": Surrounding("export HOME=/nowhere; ddsfl inspect m --out out"),
    "TMPDIR that does not exist": Surrounding(f"export TMPDIR=/nowhere; {PREDICT}"),
    "no place for temporary files": Surrounding("export TMPDIR=/proc HOME=/proc; ddsfl inspect m --out out"),
    "MPLCONFIGDIR not writable": Surrounding("export MPLCONFIGDIR=/proc; ddsfl inspect m --out out"),
    "folder that is gone": Surrounding(
        'm=$PWD/m s=$PWD/set; mkdir gone; cd gone; rmdir ../gone; ddsfl predict "$m" "$s"',
        (1,),
        "^ddsfl: the current folder does not exist",
    ),
    "folder that is gone, help": Surrounding("mkdir gone; cd gone; rmdir ../gone; ddsfl --help"),
    "torch.py in the folder": Surrounding(f"echo 'raise SystemExit(9)' > torch.py; {PREDICT}"),
    "names of modules in the folder": Surrounding(
        f"echo 'raise SystemExit(9)' | tee signal.py typing.py numpy.py ddsfl.py; {PREDICT}"
    ),
    # Environment.
    "C locale": Surrounding(f"export LC_ALL=C PYTHONUTF8=0 PYTHONCOERCECLOCALE=0; {PREDICT}"),
    "a locale that does not exist": Surrounding(f"export LC_ALL=xx_YY.UTF-8; {PREDICT}"),
    "ASCII": Surrounding(f"export PYTHONIOENCODING=ascii; {PREDICT}"),
    "ASCII, help": Surrounding("export PYTHONIOENCODING=ascii; ddsfl --help"),
    "TERM=dumb": Surrounding(f"export TERM=dumb; {PREDICT}"),
    "no TERM": Surrounding(f"unset TERM; {PREDICT}"),
    **{
        f"COLUMNS={value}": Surrounding(f"export COLUMNS={value} LINES={value}; {PREDICT} && ddsfl --help")
        for value in ("1", "0", "-7", "wide", "999999")
    },
    "NO_COLOR and FORCE_COLOR": Surrounding(f"export NO_COLOR=1 FORCE_COLOR=1 TTY_COMPATIBLE=x; {PREDICT}"),
    "OMP_NUM_THREADS=many": Surrounding(
        f"export OMP_NUM_THREADS=many OPENBLAS_NUM_THREADS=many MKL_NUM_THREADS=; {PREDICT}"
    ),
    "OMP_NUM_THREADS=0": Surrounding(f"export OMP_NUM_THREADS=0 OMP_STACKSIZE=x; {PREDICT}"),
    "warnings are errors": Surrounding(f"export PYTHONWARNINGS=error; {PREDICT}"),
    "warnings are errors, train": Surrounding(f"export PYTHONWARNINGS=error; {TRAIN}", leaves=r"m\b.*"),
    "PYTHONOPTIMIZE=2": Surrounding(f"export PYTHONOPTIMIZE=2; {PREDICT} && ddsfl predict --help"),
    "no bytecode": Surrounding(f"export PYTHONDONTWRITEBYTECODE=1 PYTHONPYCACHEPREFIX=/proc; {PREDICT}"),
    "MPLBACKEND unknown": Surrounding("export MPLBACKEND=nothing; ddsfl inspect m --out out"),
    "CUDA_VISIBLE_DEVICES=x": Surrounding(f"export CUDA_VISIBLE_DEVICES=x; {PREDICT}"),
    # Signals; those who wait for a moment are sent by the program itself.
    **{
        f"{sent} as {when} is imported": Surrounding(
            _hook("signal", PREDICT, WHEN=when, SENT=sent), (code,), f"\\Addsfl: {word}\\.\n\\Z"
        )
        for sent, code, word in (("SIGINT", 130, "interrupted"), ("SIGTERM", 143, "terminated"))
        for when in ("typer", "rich", "torch", "torch._C", "numpy", "sklearn")
    },
    "SIGHUP as torch is imported": Surrounding(
        _hook("signal", PREDICT, WHEN="torch", SENT="SIGHUP"),
        (129,),
        r"\Addsfl: the terminal was closed\.\n\Z",
    ),
    "SIGINT twice": Surrounding(
        _hook("signal", PREDICT, WHEN="torch", SENT="SIGINT SIGINT"), (130,), _INTERRUPTED
    ),
    "SIGINT before the help": Surrounding(
        _hook("signal", "ddsfl --help", WHEN="typer.rich_utils", SENT="SIGINT"), (130,), _INTERRUPTED
    ),
    "SIGINT as pictures are drawn": Surrounding(
        _hook("signal", "ddsfl inspect m --out out", WHEN="PIL.PngImagePlugin", SENT="SIGINT"),
        (130,),
        _INTERRUPTED,
    ),
    "SIGINT as Python ends": Surrounding(
        _hook("late", PREDICT, SENT="SIGINT"), (130,), "^ddsfl: interrupted.$"
    ),
    "SIGTERM as Python ends": Surrounding(
        _hook("late", "ddsfl --help", SENT="SIGTERM"), (143,), "^ddsfl: terminated.$"
    ),
    "SIGINT from a thread": Surrounding(
        _hook("thread", PREDICT, SENT="SIGINT"), (130,), "^ddsfl: interrupted.$"
    ),
    "SIGTERM while writing": Surrounding(
        _hook("writing", TRAIN, SENT="SIGTERM"),
        (143,),
        "^ddsfl: terminated; rerun the same command to resume.$",
        leaves=r"(m\.stages)?",
    ),
    "SIGINT ignored from the start": Surrounding(
        f"trap '' INT; {PREDICT} & sleep 0.5; kill -INT $!; wait $!"
    ),
}


def main() -> None:
    """Run surroundings, print a table, and exit with code 1 if one does not hold."""
    parser = argparse.ArgumentParser(prog="python -m attacks.surroundings")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--verbose", action="store_true", help="show what the program printed")
    given = parser.parse_args()
    chosen = {
        name: one
        for name, one in SURROUNDINGS.items()
        if not given.names or any(part in name for part in given.names)
    }
    n_wrong = 0
    with tempfile.TemporaryDirectory(prefix="surroundings") as folder, ThreadPoolExecutor(given.jobs) as pool:
        outcomes = pool.map(Ground(Path(folder)).run, chosen.values())
        for (name, surrounding), outcome in zip(chosen.items(), outcomes):
            wrong = outcome.wrong(surrounding)
            n_wrong += bool(wrong)
            last = (outcome.err.strip().splitlines() or [""])[-1]
            print(
                f"{name:34} {outcome.code!s:>4} {outcome.seconds:5.1f} s  {wrong or 'holds':8} {last[:110]}"
            )
            if given.verbose or wrong:
                print(f"{outcome.out[-600:]}{outcome.err[-1500:]}")
            sys.stdout.flush()
    print(f"{len(chosen)} surroundings, {n_wrong} wrong")
    sys.exit(n_wrong > 0)


if __name__ == "__main__":
    main()

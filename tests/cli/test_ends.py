"""How the program ends: signals at any moment, streams that are closed or full, and what it lacks.

The complete table is `python -m attacks.surroundings`.
"""

import os
import signal
import subprocess
import sys
import tomllib
import warnings
from pathlib import Path

import pytest
from attacks.ground import CONSOLE_SCRIPT, Ground, Outcome, Surrounding
from attacks.surroundings import SURROUNDINGS

from ddsfl.cli import ends, needs
from ddsfl.cli.ends import Interrupted, ended
from tests.support.program import run_program

QUICK = [
    "SIGINT as typer is imported",
    "SIGTERM as torch._C is imported",
    "SIGHUP as torch is imported",
    "SIGINT twice",
    "SIGINT before the help",
    "SIGTERM as Python ends",
    "stdout closed, help",
    "stdout full, version",
    "memory of 400 MB",
    "folder that is gone",
    "no threads",
]
SLOW = ["SIGINT from a thread", "SIGTERM while writing"]


@pytest.fixture(scope="module")
def ground(tmp_path_factory):
    return Ground(tmp_path_factory.mktemp("ground"))


@pytest.mark.parametrize("name", [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)])
def test_surroundings(ground, name):
    outcome = ground.run(SURROUNDINGS[name])
    assert not outcome.wrong(SURROUNDINGS[name]), outcome


def test_the_program_that_pip_installs_begins_where_the_surroundings_begin():
    project = Path(__file__).parents[2] / "pyproject.toml"
    home = tomllib.loads(project.read_text())["project"]["scripts"]["ddsfl"]
    module, _, name = home.partition(":")
    assert f"from {module} import {name}\n" in CONSOLE_SCRIPT


def test_what_is_wrong_with_an_outcome():
    fine = Surrounding("", (1,), "^ddsfl: x", leaves="m?")
    right = Outcome(1, 0.0, "", "ddsfl: x\n", ["m"])
    assert right.wrong(fine) == ""
    for change in (
        {"code": None},
        {"code": 0},
        {"err": "Traceback"},
        {"err": "ddsfl: x\nddsfl: x"},
        {"err": "other"},
        {"left": ["n"]},
    ):
        assert right._replace(**change).wrong(fine), change
    assert right._replace(left=[".m.1.part"]).wrong(fine._replace(leaves=""))


@pytest.mark.parametrize(("program", "code"), [("ddsfl --version", 141), ("ddsfl --help", 141)])
def test_a_pipe_that_nobody_reads_is_quiet(ground, program, code):
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, str(ground.folder / "bin" / "ddsfl"), program.split()[1]]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (code, b"")


def raising(error):
    def raise_it():
        raise error

    return raise_it


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (KeyboardInterrupt(), 130, "ddsfl: interrupted."),
        (Interrupted(signal.SIGTERM), 143, "ddsfl: terminated."),
        (ValueError("a\nb\x1b."), 1, r"ddsfl: a\nb\x1b."),
        (OSError(28, "No space left on device", "f"), 1, "ddsfl: No space left on device: f"),
        (MemoryError(), 1, "ddsfl: not enough memory."),
        (MemoryError("Unable to allocate 3 GiB"), 1, "ddsfl: not enough memory: Unable to allocate 3 GiB"),
        (RuntimeError("can't allocate memory\nC++"), 1, "ddsfl: not enough memory: can't allocate memory"),
        (ImportError("x: failed to map segment"), 1, "ddsfl: not enough memory: x: failed to map segment"),
        (ImportError("pip install it."), 1, "ddsfl: pip install it."),
        (SystemExit(2), 2, ""),
        (SystemExit("x"), 1, ""),
    ],
)  # fmt: skip
def test_errors_become_a_code_and_a_sentence(capsys, error, code, line):
    assert ended(raising(error)) == code
    assert capsys.readouterr().err.rstrip("\n") == line


def test_a_page_of_advice_around_an_import_becomes_its_cause(capsys):
    def load():
        try:
            raise ImportError("libx.so is gone\nmore")
        except ImportError as cause:
            raise ImportError("\n\nIMPORTANT: PLEASE READ THIS\n...") from cause

    assert ended(load) == 1
    assert capsys.readouterr().err == "ddsfl: libx.so is gone\n"


def test_a_bug_keeps_its_traceback():
    with pytest.raises(KeyError):
        ended(raising(KeyError("bug")))


def test_an_error_of_an_import_that_a_signal_ended_is_an_interruption(capsys, monkeypatch):
    monkeypatch.setattr(ends._State, "received", signal.SIGINT)
    monkeypatch.setattr(ends._State, "told", False)
    monkeypatch.setattr(ends, "_ignore_signals", lambda: None)
    assert ended(raising(ImportError("half a module"))) == 130
    assert capsys.readouterr().err == "ddsfl: interrupted.\n"
    assert ended(raising(SystemExit(0))) == 130  # said once
    assert capsys.readouterr().err == ""


def test_an_interruption_that_nobody_can_catch_ends_the_program(monkeypatch):
    ended_by = []
    monkeypatch.setattr(ends, "_end_now", ended_by.append)
    monkeypatch.setattr(sys, "unraisablehook", ends._unraisable)

    class Closing:
        def __del__(self):
            raise Interrupted(signal.SIGTERM)

    Closing()
    assert ended_by == [signal.SIGTERM]


def test_warnings_are_no_errors_and_take_one_line(capsys):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ends._calm_warnings()
        warnings.warn("two\nlines", UserWarning, stacklevel=1)
        warnings.warn("old", DeprecationWarning, stacklevel=1)
    assert capsys.readouterr().err == "  - two\\nlines\n"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="limits of address space are those of Linux")
@pytest.mark.parametrize("command", ["datasets list", "predict missing.safetensors missing"])
def test_the_least_memory_is_enough_to_load_all_libraries(tmp_path, command):
    limited = f"ulimit -v {needs.LEAST_MEMORY // 1024 + 1}; exec {sys.executable} -m ddsfl {command}"
    ended = subprocess.run(
        ["bash", "-c", limited],
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "2"},
        capture_output=True,
        text=True,
    )
    assert "memory" not in ended.stderr + ended.stdout
    assert ended.returncode == (0 if command.startswith("datasets") else 1)


def test_needs(ddsfl, monkeypatch):
    import resource

    monkeypatch.setattr(resource, "getrlimit", lambda kind: (400_000_000, 400_000_000))
    code, _, err = ddsfl("datasets", "list")
    assert (code, err) == (
        1,
        "ddsfl: not enough memory: the limit is 400 MB (ulimit -v); expected at least 2000.\n",
    )
    monkeypatch.undo()
    asked = []
    monkeypatch.setattr(needs, "_check_threads", asked.append)
    monkeypatch.setattr(os, "getcwd", raising(FileNotFoundError()))
    assert run_program("datasets", "list") == 1
    assert asked[0] > 9

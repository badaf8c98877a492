"""Trainings that are killed, damaged, starved and disturbed must end with the model of an undisturbed one.

    python -m attacks.chaos [--kills 200] [--damages 220] [--others 80] [--seed 0] [--first 1] [--jobs 2]

Kills: before every change of a file, within writes, at random moments, and again and again. Damages: of every
stage in every way, and of models. Others: a full or read-only disk, no rights, open files or memory, and two
runs at the same time. Each case has a number; ``--first`` starts at one. Exit code 1 if anything went wrong.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from rich.table import Table

from attacks.disturbed import damages, kills, neighbours, surroundings
from attacks.disturbed.cases import Case
from attacks.disturbed.runs import OUTCOMES, Bench, Place, Wrong
from ddsfl.report.console import show

WRONG = "WRONG"


def main() -> None:
    """Run all cases and print a table of how they ended."""
    options = _options()
    with tempfile.TemporaryDirectory(prefix="ddsfl-chaos-", dir=_memory()) as folder:
        start = time.perf_counter()
        bench = Bench.prepare(Path(folder))
        cases = all_cases(bench, options.kills, options.damages, options.others)
        numbers = range(options.first, len(cases) + 1)
        print(
            f"one run takes {bench.seconds:.2f} s and changes files {bench.n_changes} times", file=sys.stderr
        )
        context = get_context("fork")  # so that torch is imported once
        with ProcessPoolExecutor(
            options.jobs, mp_context=context, initializer=_start, initargs=(bench, cases, options.seed)
        ) as pool:
            counts: Counter[tuple[str, str]] = Counter()
            for number, (outcome, details) in zip(numbers, pool.map(_run, numbers)):
                counts[cases[number - 1].kind, outcome] += 1
                if outcome == WRONG:
                    print(f"case {number}, {cases[number - 1].kind}: {details}", file=sys.stderr)
                if number % 50 == 0:
                    print(f"{number} of {len(cases)} cases done", file=sys.stderr)
    show(table(counts))
    n_wrong = sum(count for (_, outcome), count in counts.items() if outcome == WRONG)
    print(
        f"{counts.total()} cases, {n_wrong} wrong, {time.perf_counter() - start:.0f} s, seed {options.seed}"
    )
    sys.exit(1 if n_wrong else 0)


def all_cases(bench: Bench, n_kills: int, n_damages: int, n_others: int) -> list[Case]:
    """Return the cases in the order of their numbers."""
    n_lacking = n_others * 3 // 4
    return [
        *kills.cases(bench, n_kills),
        *damages.cases(bench, n_damages),
        *surroundings.cases(bench, n_lacking),
        *neighbours.cases(bench, n_others - n_lacking),
    ]


def table(counts: Counter[tuple[str, str]]) -> Table:
    """Return a table of the outcomes of each kind of case.

    >>> table(Counter({("a kill", "same model"): 2})).row_count
    2
    """
    shown = Table("kind", "cases", *OUTCOMES, WRONG)
    for kind in dict.fromkeys(kind for kind, _ in counts):
        each = [counts[kind, outcome] for outcome in (*OUTCOMES, WRONG)]
        shown.add_row(kind, str(sum(each)), *(str(count or "") for count in each))
    shown.add_section()
    totals = [sum(counts[key] for key in counts if key[1] == outcome) for outcome in (*OUTCOMES, WRONG)]
    shown.add_row("all", str(counts.total()), *map(str, totals))
    return shown


#: What a process of the pool works on.
_shared: tuple[Bench, list[Case], int] | None = None


def _start(bench: Bench, cases: list[Case], seed: int) -> None:
    global _shared
    _shared = bench, cases, seed


def _run(number: int) -> tuple[str, str]:
    """Run one case in a new folder; return how it ended, and what is wrong."""
    assert _shared is not None
    bench, cases, seed = _shared
    folder = bench.images.parent / f"case-{number}"
    try:
        place = Place.new(folder, bench)
        return cases[number - 1].run(place, np.random.default_rng([seed, number])), ""
    except Wrong as wrong:
        return WRONG, str(wrong)
    except Exception:  # of the case itself
        return WRONG, traceback.format_exc()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _memory() -> str | None:
    """Return a folder in memory, where there is one: a disk would spend most of the time on fsync."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m attacks.chaos", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--kills", type=int, default=200, help="trainings that are killed")
    parser.add_argument("--damages", type=int, default=220, help="damaged stages and models")
    parser.add_argument(
        "--others", type=int, default=80, help="trainings that lack something or have a rival"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=1, help="number of the first case")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="cases at a time")
    return parser.parse_args()


if __name__ == "__main__":
    main()

"""Runs of shards that are killed, starved or given another model must end with what one process computes.

    python -m attacks.shards [--each 5] [--kinds WORD] [--places here ray ...] [--seed 0] [--first 1]
                             [--cells FILE]

Each case disturbs a run of `ddsfl predict ... --out FOLDER.parquet`. Then this run, or if it ended the same
command again, must be complete: nothing lost, nothing computed twice, no file or process left. Each case has
a number; ``--first`` starts at one. Exit code 1 if anything went wrong. ``ray`` and ``cluster`` need Ray.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import get_args

import numpy as np
from rich.table import Table

from attacks.disturbed.runs import Wrong
from attacks.sharded import kills, others
from attacks.sharded.cases import Case
from attacks.sharded.runs import OUTCOMES, Bench, Ground, Place
from ddsfl.compute.stages import write_whole
from ddsfl.experiments.cells import current_commit
from ddsfl.report.console import show

WRONG = "WRONG"
#: Cases at a time besides the one on the cluster; they mostly wait for processes to start and end.
JOBS = 2
#: A case and how it ended.
Ended = tuple[Case, str]


def main() -> None:
    """Run all cases and print a table of how they ended."""
    options = _options()
    with tempfile.TemporaryDirectory(prefix="ddsfl-shards-", dir=_memory()) as folder:
        start = time.perf_counter()
        bench = Bench.prepare(Path(folder), cluster="cluster" in options.places)
        try:
            cases = all_cases(bench, options.each, options.places)
            numbered = {
                number: case
                for number, case in enumerate(cases, start=1)
                if number >= options.first and options.kinds in case.kind
            }
            ended = run_all(bench, numbered, options.seed)
        finally:
            bench.end()
    show(table(ended))
    if options.cells is not None:
        write_whole(options.cells, cells_of(ended, options.seed))
    n_wrong = sum(outcome == WRONG for _, outcome in ended)
    print(f"{len(ended)} cases, {n_wrong} wrong, {time.perf_counter() - start:.0f} s, seed {options.seed}")
    sys.exit(1 if n_wrong else 0)


def all_cases(bench: Bench, each: int, places: Sequence[Place]) -> list[Case]:
    """Return the cases in the order of their numbers, up to ``each`` of a kind."""
    chosen: dict[str, list[Case]] = {}
    for case in (*kills.cases(each), *others.cases(bench)):
        if case.place in places and len(chosen.setdefault(case.kind, [])) < each:
            chosen[case.kind].append(case)
    return [case for cases in chosen.values() for case in cases]


def run_all(bench: Bench, numbered: dict[int, Case], seed: int) -> list[Ended]:
    """Run cases, one at a time on the cluster and others next to it; return how they ended."""
    outcomes: dict[int, str] = {}

    def run(number: int) -> None:
        outcomes[number] = _run(bench, number, numbered[number], seed)

    with ThreadPoolExecutor(JOBS) as pool:
        elsewhere = [pool.submit(run, number) for number, case in numbered.items() if case.place != "cluster"]
        for number, case in numbered.items():
            if case.place == "cluster":
                run(number)  # in the main thread, where Ray insists to start nodes
        for one in elsewhere:
            one.result()
    return [(case, outcomes[number]) for number, case in numbered.items()]


def _run(bench: Bench, number: int, case: Case, seed: int) -> str:
    """Run one case in a new folder; return how it ended."""
    start = time.perf_counter()
    ground = Ground.new(f"case-{number}", bench, case.place)
    try:
        outcome: str = case.run(ground, np.random.default_rng([seed, number]))
        details = ""
    except Wrong as wrong:
        outcome, details = WRONG, f": {wrong}"
    except Exception:  # of the case itself
        outcome, details = WRONG, f": {traceback.format_exc()}"
    finally:
        ground.end()
    seconds = time.perf_counter() - start
    print(f"case {number}, {case.kind}, {case.when}: {outcome}{details} ({seconds:.0f} s)", file=sys.stderr)
    return outcome


def table(ended: Sequence[Ended]) -> Table:
    """Return a table of the outcomes of each kind of case.

    >>> case = Case("a kill", "first image", "here", lambda ground, rng: "complete")
    >>> table([(case, "complete")]).row_count
    2
    """
    shown = Table("kind", "when", "cases", *OUTCOMES, WRONG)
    for kind in dict.fromkeys(case.kind for case, _ in ended):
        mine = [(case, outcome) for case, outcome in ended if case.kind == kind]
        when = "; ".join(case.when for case, _ in mine)
        shown.add_row(kind, when, *map(str, _counts(mine)))
    shown.add_section()
    shown.add_row("all", "", *map(str, _counts(ended)))
    return shown


def cells_of(ended: Sequence[Ended], seed: int) -> bytes:
    """Return all outcomes as JSON, for the tables of the docs."""
    cells = [
        {"kind": case.kind, "when": case.when, "place": case.place, "outcome": outcome}
        for case, outcome in ended
    ]
    return f"{json.dumps({'commit': current_commit(), 'seed': seed, 'cells': cells}, indent=1)}\n".encode()


def _counts(ended: Sequence[Ended]) -> Iterator[int | str]:
    yield len(ended)
    for column in (*OUTCOMES, WRONG):
        yield sum(outcome == column for _, outcome in ended) or ""


def _memory() -> str | None:
    """Return a folder in memory, where there is one: a disk would spend most of the time on fsync."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m attacks.shards", description=(__doc__ or "").split("\n")[0]
    )
    places = get_args(Place)
    parser.add_argument("--each", type=int, default=5, help="most cases of a kind")
    parser.add_argument("--kinds", default="", metavar="WORD", help="kinds whose names contain it")
    parser.add_argument("--places", nargs="+", choices=places, default=places, help="where commands work")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cells", type=Path, help="JSON file for the outcomes")
    parser.add_argument("--first", type=int, default=1, help="number of the first case")
    return parser.parse_args()


if __name__ == "__main__":
    main()

"""Run a job over its shards on an engine: what is finished is kept, what fails is reported."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from ddsfl.compute.words import counted
from ddsfl.report.console import Console
from ddsfl.scale.engine import Engine
from ddsfl.scale.inputs.rows import Shard
from ddsfl.scale.parts import Facts, finished, part_path
from ddsfl.scale.worker import Done, Job, ShardWorker, Task

#: So many shards that fail one after the other show that all will: a full disk, a lost folder.
MOST_FAILURES = 10


@dataclass
class Outcomes:
    """What became of the shards of a run.

    Attributes
    ----------
    n_kept, n_computed : numbers of parts that were there already, and that were written.
    rows, errors, unlike : counts over both.
    failures : a sentence for each shard without a part, by its number.
    """

    n_kept: int = 0
    n_computed: int = 0
    rows: int = 0
    errors: int = 0
    unlike: int = 0
    failures: dict[int, str] = field(default_factory=dict)

    def count(self, facts: Facts, *, kept: bool) -> None:
        """Add a part."""
        self.n_kept += kept
        self.n_computed += not kept
        self.rows += facts.rows
        self.errors += facts.errors
        self.unlike += facts.unlike


def keep_finished(job: Job, shards: Sequence[Shard]) -> tuple[list[Shard], Outcomes]:
    """Return the shards that have to be computed, and the counts of the parts that are complete."""
    left, outcomes = [], Outcomes()
    for shard in shards:
        facts = finished(part_path(job.folder, shard.number), job.stamp, shard.rows.fingerprint)
        if facts is None:
            left.append(shard)
        else:
            outcomes.count(facts, kept=True)
    return left, outcomes


def run_shards(
    job: Job, shards: Sequence[Shard], outcomes: Outcomes, engine: Engine, console: Console
) -> None:
    """Compute shards on an engine and add what became of them to ``outcomes``.

    Shards that failed, and those that another process was computing, are tried once more at the end; by then
    the other process has mostly written the part. ValueError if many fail one after the other.
    """
    total = sum(len(shard.rows) for shard in shards)
    done = 0
    console.begin(job.computation.command, rate=True)
    console.progress(0, total)
    again: list[Shard] = []
    for last in (False, True):
        tasks = _tasks(again if last else shards, wait=last, alone=engine.n_workers == 1)
        again = []
        in_a_row = 0
        for outcome in engine.run(partial(ShardWorker, job), tasks, console.note):
            shard: Shard = outcome.item.shard
            result: Done = outcome.result or Done(failure=outcome.failure or "its worker ended")
            in_a_row = in_a_row + 1 if result.failure else 0
            if in_a_row >= MOST_FAILURES and not last:  # at the end, only those that failed are left
                console.close()
                raise ValueError(
                    f"{MOST_FAILURES} shards in a row failed, the last one because: {result.failure}."
                )
            if result.facts is None:
                again.append(shard)
                outcomes.failures[shard.number] = str(result.failure or result.in_use)
                continue
            outcomes.failures.pop(shard.number, None)
            outcomes.count(result.facts, kept=result.kept)
            done += len(shard.rows)
            console.progress(done, total)
        if not again:
            break
    console.close()


def _tasks(shards: Sequence[Shard], *, wait: bool, alone: bool) -> list[Task]:
    """Return tasks; a worker that is alone gets them in order, so it knows which shard follows."""
    following = [*shards[1:], None] if alone else [None] * len(shards)
    return [Task(shard, wait, after) for shard, after in zip(shards, following)]


def failure_lines(outcomes: Outcomes) -> list[str]:
    """Return a line for each part that could not be computed.

    >>> failure_lines(Outcomes(failures={3: "No space left on device"}))
    ['part-00003.parquet: No space left on device']
    """
    return [f"part-{number:05d}.parquet: {why}" for number, why in sorted(outcomes.failures.items())]


def selected(shards: Sequence[Shard], part: int, of: int) -> Sequence[Shard]:
    """Return part ``part`` of ``of`` equal parts of the shards, counted from 1: those next to each other.

    >>> selected(range(7), 1, 3), selected(range(7), 3, 3)
    (range(0, 2), range(4, 7))
    """
    return shards[(part - 1) * len(shards) // of : part * len(shards) // of]


def shortly(outcomes: Outcomes) -> str:
    """Return what a run did, in words.

    >>> shortly(Outcomes(n_kept=2, n_computed=1, rows=9, errors=1))
    '9 rows, 1 unreadable; 1 part computed, 2 kept'
    """
    rows, parts = counted(outcomes.rows, "row"), counted(outcomes.n_computed, "part")
    return f"{rows}, {outcomes.errors} unreadable; {parts} computed, {outcomes.n_kept} kept"

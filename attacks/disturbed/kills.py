"""Trainings that are killed with SIGKILL: at every change of a file, within a write, at random, in chains."""

from __future__ import annotations

import signal
from functools import partial

from attacks.disturbed.cases import Case, Random, in_turn
from attacks.disturbed.faults import kill_at, kill_within_writes
from attacks.disturbed.runs import Bench, Outcome, Place, Wrong

#: A chain ends with an undisturbed run after so many kills at the latest.
LONGEST_CHAIN = 10


def cases(bench: Bench, count: int) -> list[Case]:
    """Return ``count`` kills, four or more: nearly half of them before changes of files, each change once."""
    n_at_changes = min(bench.n_changes, (count - 2) // 2)
    # Fewer kills than changes are spread over all of the run.
    numbers = [1 + number * bench.n_changes // n_at_changes for number in range(n_at_changes)]
    others = [
        Case("kill within a write", _within_a_write),
        Case("kill at a random moment", _at_random),
        Case("kill again and again", _in_a_chain),
    ]
    at_changes = [Case("kill at a write", partial(_at_change, number)) for number in numbers]
    return at_changes + in_turn(others, count - n_at_changes)


def _at_change(number: int, place: Place, rng: Random) -> Outcome:
    """Kill a run just before one change of a file; every second one has an earlier model to replace."""
    options = _with_earlier_model(place, rng)
    ended = place.train(*options, faults=[partial(kill_at, place.folder, number)]).wait()
    # An earlier model makes a few changes more or less.
    if ended.code not in (-signal.SIGKILL, 0):
        raise Wrong(f"exit {ended.code} instead of a kill: {ended.said[-2000:]}")
    place.check_kept()
    return place.resume(*options)


def _within_a_write(place: Place, rng: Random) -> Outcome:
    """Let the kernel kill a run within the first write that exceeds a random size: half a file is left."""
    options = _with_earlier_model(place, rng)
    sizes = [path.stat().st_size for path in place.bench.stages.iterdir()] + [len(place.bench.model)]
    size = int(rng.integers(1, max(sizes)))
    ended = place.train(*options, faults=[partial(kill_within_writes, size)]).wait()
    if ended.code != -signal.SIGXFSZ:
        raise Wrong(f"exit {ended.code} instead of a kill: {ended.said[-2000:]}")
    place.check_kept()
    return place.resume(*options)


def _at_random(place: Place, rng: Random) -> Outcome:
    options = _with_earlier_model(place, rng)
    place.train(*options).kill(after=float(rng.uniform(0, place.bench.seconds)))
    place.check_kept()
    return place.resume(*options)


def _in_a_chain(place: Place, rng: Random) -> Outcome:
    """Kill the run, the resumed run and so on, until one is faster."""
    for _ in range(LONGEST_CHAIN):
        ended = place.train().kill(after=float(rng.uniform(0.2, 0.9) * place.bench.seconds))
        place.check_kept()
        if ended.code == 0:
            break
    return place.resume()


def _with_earlier_model(place: Place, rng: Random) -> tuple[str, ...]:
    """Put the model of another seed where this training will write, for every second case."""
    if rng.random() < 0.5:
        return ()
    place.out.write_bytes(place.bench.other)
    return ("--overwrite",)

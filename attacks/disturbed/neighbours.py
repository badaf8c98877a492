"""Two trainings at the same time: on one output, and with stages in one folder."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from attacks.disturbed.cases import Case, Random, in_turn
from attacks.disturbed.runs import SETTINGS, Bench, Ended, Outcome, Place, Running, Wrong
from ddsfl.compute.stages import remove_stages


def cases(bench: Bench, count: int) -> list[Case]:
    """Return ``count`` cases, each kind in turn."""
    kinds = [
        Case("two runs with one output", _two_at_once),
        Case("a run after a killed one", _after_a_kill),
        Case("stages shared by two, removed by a third", _shared_stages),
    ]
    return in_turn(kinds, count)


def _two_at_once(place: Place, rng: Random) -> Outcome:
    """Start two runs shortly after each other: one says who holds the lock, the other ends undisturbed."""
    first = place.train()
    time.sleep(float(rng.uniform(0, 1.2) * place.bench.seconds))
    second = place.train()
    runs = {first.number: first.wait(), second.number: second.wait()}
    refused = {number: ended for number, ended in runs.items() if ended.code != 0}
    if len(refused) > 1:
        raise Wrong(f"both failed: {[ended.said for ended in refused.values()]}")
    for ended in refused.values():
        [other] = runs.keys() - refused.keys()
        ended.check_sentence()
        if f"is in use by `ddsfl train` (process {other}, " not in ended.said:
            raise Wrong(f"the other process {other} is not named: {ended.said}")
    if not refused and not any("already trained" in ended.said for ended in runs.values()):
        raise Wrong("both trained")
    place.check_finished(next(ended for ended in runs.values() if ended.code == 0))
    return "refused" if refused else "same model"


def _after_a_kill(place: Place, rng: Random) -> Outcome:
    place.train().kill(after=float(rng.uniform(0, place.bench.seconds)))
    return place.resume()


def _shared_stages(place: Place, rng: Random) -> Outcome:
    """Fit twice with one folder for the stages, while somebody removes stages all the time."""
    shared = place.folder / "shared"
    outputs = [place.folder / "seed-0", place.folder / "seed-1"]
    fits = []
    for seed, out in enumerate(outputs):
        fits.append(Running(_fit(place, shared, seed, out)))
        time.sleep(float(rng.uniform(0, 0.5) * place.bench.seconds))
    remover = Running(lambda: _remove_all_the_time(shared))
    ended: list[Ended] = [fit.wait() for fit in fits]
    remover.kill()
    for one, out, model in zip(ended, outputs, (place.bench.model, place.bench.other)):
        if one.code != 0:
            raise Wrong(f"exit {one.code}: {one.said[-2000:]}")
        if out.read_bytes() != model:
            raise Wrong("ANOTHER MODEL")
    place.check_kept()
    return "same model"


def _fit(place: Place, shared: Path, seed: int, out: Path) -> Callable[[], None]:
    def fit() -> None:
        from ddsfl import SceneClassifier
        from ddsfl.images.folders import ImageSet

        found = ImageSet.find(place.bench.images)
        model = SceneClassifier("quick", changes=SETTINGS, random_state=seed)
        model.fit(found.paths, found.labels, checkpoints=shared).save(out)

    return fit


def _remove_all_the_time(folder: Path) -> None:
    while True:
        remove_stages(folder)
        time.sleep(0.001)

"""Runs of shards that lack room on the disk, meet corrupt images, or find another model in its place."""

from __future__ import annotations

import resource
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

from attacks.disturbed.runs import Ended, Wrong
from attacks.disturbed.surroundings import can_mount, mount, unmount
from attacks.sharded.cases import Case, Random
from attacks.sharded.kills import kill
from attacks.sharded.moments import N_SHARDS, SHARD_SIZE, Moment, image_name, middle
from attacks.sharded.runs import Bench, Ground, Outcome, Place, Rows, rows_of
from ddsfl.scale.parts import part_path

_ALL: tuple[Place, ...] = ("here", "processes", "cluster")


def cases(bench: Bench) -> Iterator[Case]:
    """Yield a case of each kind for each engine where it can be; the first engine is not always the same."""
    for place in _ALL[1:]:
        yield Case("disk full in one worker", place, place, _full_worker)
    if can_mount(bench.folder / "disk"):
        for place in _ALL[:2]:
            yield Case("small disk", place, place, _small_disk)
    for place in (*_ALL[1:], _ALL[0]):
        yield Case("a corrupt image in every shard", place, place, _corrupt)
    for place in _ALL:
        yield Case("another model between two runs", place, place, _another_model)
    for place in reversed(_ALL):
        dies = ", a worker dies" if place != "here" else ""
        yield Case("another model during a run", f"{place}{dies}", place, _another_model_meanwhile)


def _ended(ended: Ended, ground: Ground, kept: dict[str, tuple[int, int]]) -> Outcome:
    """Judge a run that may have failed in a sentence; then the same command runs undisturbed."""
    if ended.code == 0:
        ground.check_finished(ended, kept)
        return "complete"
    ended.check_sentence()
    ground.resume(kept | ground.parts())
    return "one sentence, then complete"


def _full_worker(ground: Ground, rng: Random) -> Outcome:
    """Let one worker write half of a part, and then nothing more, as if its disk were full."""
    number = middle(int(rng.integers(100)))
    ground.trap.set(Moment("half", part_path(Path(), number).name, "worker", does="full"))
    run = ground.run()
    ground.trap.caught(run.is_running)
    kept = ground.parts()
    return _ended(run.wait(), ground, kept)


def _small_disk(ground: Ground, rng: Random) -> Outcome:
    """Run on a disk on which not all parts fit; then make room."""
    pages = int(rng.uniform(0.3, 0.7) * N_SHARDS) * 2  # a part takes two; there also is the manifest
    size = pages * resource.getpagesize()
    if not mount(ground.out, f"size={size}"):
        raise Wrong("the small disk could not be made")
    try:
        ended = ground.run().wait()
        if ended.code == 0:
            raise Wrong("the disk was large enough")
        kept = ground.parts()
        mount(ground.out, f"remount,size={100 * size}")
        return _ended(ended, ground, kept)
    finally:
        unmount(ground.out)


def _corrupt(ground: Ground, rng: Random) -> Outcome:
    """Cut off one image of every shard; repair them and run again."""
    ground.photos = ground.folder / "photos"
    shutil.copytree(ground.bench.photos, ground.photos)
    rows: Rows = {name: dict(row) for name, row in ground.bench.rows.items()}
    bad = [image_name(shard * SHARD_SIZE + int(rng.integers(SHARD_SIZE))) for shard in range(N_SHARDS)]
    for name in bad:
        content = (ground.photos / name).read_bytes()
        (ground.photos / name).write_bytes(content[: int(rng.integers(len(content) // 2))])
    ended = ground.run().wait()
    found = rows_of(ground.out)
    for name in bad:
        reason = found[name][0]["error"]
        if not reason:
            raise Wrong(f"{name} is cut off but has no error")
        rows[name] = {**dict.fromkeys(rows[name]), "error": reason}
    ground.check_finished(ended, {}, rows)
    for name in bad:
        shutil.copy(ground.bench.photos / name, ground.photos)
    ground.resume({}, times=2)  # all shards have changed
    return "complete"


def _another_model(ground: Ground, rng: Random) -> Outcome:
    """Kill a run, put another model in the place of its own: refused, and nothing changes."""
    ground.trap.set(Moment("half", part_path(Path(), middle(int(rng.integers(100)))).name))
    run = ground.run()
    kill("driver", ground, run, ground.trap.caught(run.is_running))
    if (ended := run.wait()).code != -signal.SIGKILL:
        raise Wrong(f"exit {ended.code} instead of a kill: {ended.said[-2000:]}")
    kept, manifest = ground.parts(), (ground.out / "_manifest.json").read_bytes()
    ground.replace_model(ground.bench.other)
    refused = ground.run().wait()
    refused.check_sentence()
    if "holds results that differ in the model (" not in refused.said:
        raise Wrong(f"refused for another reason: {refused.said[-2000:]}")
    if ground.parts() != kept or (ground.out / "_manifest.json").read_bytes() != manifest:
        raise Wrong("CHANGED by a refused run")
    ground.replace_model(ground.bench.model)
    ground.resume(kept)
    return "refused, then complete"


def _another_model_meanwhile(ground: Ground, rng: Random) -> Outcome:
    """Replace the model while a worker is at work, and kill that worker: the next one needs a model, too."""
    shard = middle(int(rng.integers(100)))
    ground.trap.set(Moment("opened", image_name(shard * SHARD_SIZE)))
    run = ground.run()
    stopped = ground.trap.caught(run.is_running)
    kept = ground.parts()
    ground.replace_model(ground.bench.other)
    if ground.place == "here":
        ground.trap.release()
    else:
        kill("worker", ground, run, stopped)
    ended = run.wait()
    ground.replace_model(ground.bench.model)
    return _ended(ended, ground, kept)

"""Stages and models that are damaged on disk; then the same command runs again."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

from attacks.disturbed.cases import Case, Random, in_turn
from attacks.disturbed.faults import NOBODY, become_nobody
from attacks.disturbed.runs import NOTES, Bench, Outcome, Place, Wrong, nobody_can_train

Damage = Callable[[Path, Random], None]


def cases(bench: Bench, count: int) -> list[Case]:
    """Return ``count`` damages: three quarters of stages, each kind for each stage in turn, and of models."""
    names = sorted(path.name for path in bench.stages.iterdir())
    # The administrator reads everything; who cannot become somebody else cannot test this.
    forbids = os.getuid() != 0 or nobody_can_train()
    kinds = [(kind, damage) for kind, damage in _OF_STAGES.items() if damage is not _forbid or forbids]
    stages = [
        # The names shift with the kind, so that few cases already are about many stages.
        Case(f"stage: {kind}", partial(_of_stage, names[(turn + number) % len(names)], damage))
        for turn in range(len(names))
        for number, (kind, damage) in enumerate(kinds)
    ]
    models = [Case(f"model: {kind}", partial(_of_model, damage)) for kind, damage in _OF_MODELS.items()]
    n_models = min(count, max(len(models), count // 4))
    return in_turn(stages, count - n_models) + in_turn(models, n_models)


def _of_stage(name: str, damage: Damage, place: Place, rng: Random) -> Outcome:
    for path in place.bench.stages.iterdir():
        shutil.copy(path, place.stages)
    damage(place.stages / name, rng)
    if os.getuid() == 0 and damage is _forbid:
        for path in (place.folder, *place.folder.rglob("*")):
            os.chown(path, NOBODY, NOBODY)
        ended = place.train(faults=[become_nobody]).wait()
    else:
        ended = place.train().wait()
    place.check_finished(ended, {name, f"{name}/{NOTES}"} if damage is _replace_by_full_folder else set())
    return "warning and same model" if ended.warned else "same model"


def _of_model(damage: Damage, place: Place, rng: Random) -> Outcome:
    """Damage a finished model: it is refused by `predict` and `train`, or it still is the same."""
    place.out.write_bytes(place.bench.model)
    damage(place.out, rng)
    predicted = place.predict()
    if predicted.code == 0:
        if predicted.said != place.bench.scores:
            raise Wrong("OTHER SCORES")
        return place.resume()
    predicted.check_sentence()
    ended = place.train().wait()
    ended.check_sentence()
    return "refused"


def _flip_data(path: Path, rng: Random) -> None:
    content = bytearray(path.read_bytes())
    start = 8 + int.from_bytes(content[:8], "little")
    _flip(path, content, int(rng.integers(start, len(content))), rng)


def _flip_header(path: Path, rng: Random) -> None:
    content = bytearray(path.read_bytes())
    _flip(path, content, int(rng.integers(0, 8 + int.from_bytes(content[:8], "little"))), rng)


def _flip(path: Path, content: bytearray, at: int, rng: Random) -> None:
    content[at] ^= 1 << int(rng.integers(8))
    path.write_bytes(content)


def _truncate(path: Path, rng: Random) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: int(rng.integers(1, len(content)))])


def _empty(path: Path, rng: Random) -> None:
    path.write_bytes(b"")


def _extend(path: Path, rng: Random) -> None:
    path.write_bytes(path.read_bytes() + rng.bytes(int(rng.integers(1, 100))))


def _replace_by_noise(path: Path, rng: Random) -> None:
    path.write_bytes(rng.bytes(path.stat().st_size))


def _replace_by_another(path: Path, rng: Random) -> None:
    others = sorted(other for other in path.parent.glob("*.safetensors") if other != path)
    shutil.copy(others[int(rng.integers(len(others)))], path)


def _replace_by_folder(path: Path, rng: Random) -> None:
    path.unlink()
    path.mkdir()


def _replace_by_full_folder(path: Path, rng: Random) -> None:
    _replace_by_folder(path, rng)
    (path / NOTES).write_text("mine")


def _replace_by_pipe(path: Path, rng: Random) -> None:
    path.unlink()
    os.mkfifo(path)


def _replace_by_broken_link(path: Path, rng: Random) -> None:
    path.unlink()
    path.symlink_to("gone")


def _forbid(path: Path, rng: Random) -> None:
    path.chmod(0)


def _remove(path: Path, rng: Random) -> None:
    path.unlink()


_OF_BOTH: dict[str, Damage] = {
    "a flipped bit in its numbers": _flip_data,
    "a flipped bit in its header": _flip_header,
    "cut off": _truncate,
    "empty": _empty,
    "followed by other bytes": _extend,
    "noise": _replace_by_noise,
}
_OF_STAGES: dict[str, Damage] = {
    **_OF_BOTH,
    "another stage's file": _replace_by_another,
    "an empty folder": _replace_by_folder,
    "a folder with a file of the user": _replace_by_full_folder,
    "a named pipe": _replace_by_pipe,
    "a broken link": _replace_by_broken_link,
    "not readable": _forbid,
    "missing": _remove,
}
_OF_MODELS = _OF_BOTH

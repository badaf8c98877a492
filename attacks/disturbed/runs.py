"""Tiny trainings in processes of their own, and how their results are judged."""

from __future__ import annotations

import importlib
import io
import os
import select
import shutil
import sys
import time
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Literal

from PIL import Image

from attacks.disturbed.faults import become_nobody, kill_before_model, log_changes
from ddsfl.images.scenes import make_scenes

#: A fit of a third of a second with twelve stages.
SETTINGS = {
    "layers.bank.n_filters": 10,
    "layers.bank.max_iter": 4,
    "layers.bank.rounds": 1,
    "layers.bank.round_iter": 3,
    "layers.n_components": 12,
    "layers.n_scales": 2,
    "layers.patches_per_image": 20,
    "blocks.coding.n_words": 12,
    "blocks.coding.max_iter": 3,
}
#: Name of the model file, and of a file of the user in every folder that a training writes to.
MODEL, NOTES = "model.safetensors", "notes.txt"
_NOTE = "the only copy of my thesis"
#: Seconds after which a run counts as hanging.
PATIENCE = 120.0

Outcome = Literal["same model", "warning and same model", "one sentence, then same model", "refused"]
OUTCOMES: tuple[Outcome, ...] = (
    "same model",
    "warning and same model",
    "one sentence, then same model",
    "refused",
)
Fault = Callable[[], None]


class Wrong(Exception):
    """A disturbed training that ended in a way that it must not; the message says how."""


@dataclass(frozen=True)
class Ended:
    """How a process ended: its exit code (negative: the signal that killed it) and what it printed."""

    code: int
    said: str

    @property
    def warned(self) -> bool:
        """Whether it said that something stored is damaged."""
        return "is damaged" in self.said or "is not kept" in self.said

    def check_sentence(self) -> None:
        """Raise Wrong unless the program ended with one sentence about what went wrong."""
        usage = self.code == 2 and "cannot be written" in " ".join(self.said.replace("│", " ").split())
        if "Traceback" in self.said or not (usage or (self.code == 1 and self.said.count("ddsfl: ") == 1)):
            raise Wrong(f"exit {self.code}, no sentence: {self.said[-2000:]}")


class Running:
    """A function that runs in a process of its own, with faults that are installed first."""

    def __init__(self, work: Callable[[], None], faults: Sequence[Fault] = ()) -> None:
        # A pipe, because limits on files must not hit what is printed.
        self._output, printed = os.pipe()
        self._process = get_context("fork").Process(target=_in_child, args=(work, printed, faults))
        self._process.start()
        os.close(printed)

    @property
    def number(self) -> int:
        """The process id."""
        return self._process.pid or 0

    def kill(self, after: float = 0.0) -> Ended:
        """Kill it some seconds from now, or let it end before."""
        self._process.join(after)
        self._process.kill()
        return self.wait()

    def wait(self) -> Ended:
        """Wait for its end."""
        deadline, said = time.monotonic() + PATIENCE, b""
        while select.select([self._output], [], [], max(0.0, deadline - time.monotonic()))[0]:
            some = os.read(self._output, 2**16)
            said += some
            if not some:
                break
        self._process.join(max(0.0, deadline - time.monotonic()))
        hangs = self._process.exitcode is None
        self._process.kill()
        self._process.join()
        os.close(self._output)
        if hangs or self._process.exitcode is None:
            raise Wrong(f"still running after {PATIENCE:.0f} s: {said[-2000:].decode(errors='replace')}")
        return Ended(self._process.exitcode, said.decode(errors="replace"))


def _in_child(work: Callable[[], None], printed: int, faults: Sequence[Fault]) -> None:
    os.dup2(printed, 1)
    os.dup2(printed, 2)
    os.close(printed)
    # New streams: the old ones know whether the streams of the parent were files.
    sys.stdout, sys.stderr = (io.TextIOWrapper(io.FileIO(one, "w", closefd=False)) for one in (1, 2))
    sys.stderr.reconfigure(line_buffering=True)
    for fault in faults:
        fault()
    work()


def program(*arguments: object) -> Callable[[], None]:
    """Return a function that runs ``ddsfl`` with these arguments."""

    def run() -> None:
        sys.argv = ["ddsfl", *map(str, arguments)]
        importlib.import_module("ddsfl.cli.main").main()

    return run


def nobody_can_train() -> bool:
    """Return whether we can give up the rights of the administrator, to whom file modes do not apply."""

    def read_packages() -> None:
        become_nobody()
        for name in ("ddsfl", "torch", "attacks"):
            Path(importlib.import_module(name).__file__ or "").read_bytes()

    return os.getuid() == 0 and Running(read_packages).wait().code == 0


@dataclass(frozen=True)
class Bench:
    """What all cases share: images, the models of undisturbed runs, all stages of one, and their times.

    Attributes
    ----------
    images : folder of the images.
    model, other : the bytes of the models of seeds 0 and 1.
    scores : what `ddsfl predict --json` prints with the model.
    stages : folder of all stages of seed 0.
    n_changes : number of changes of files in one run.
    seconds : time of one run.
    """

    images: Path
    model: bytes
    other: bytes
    scores: str
    stages: Path
    n_changes: int
    seconds: float

    @classmethod
    def prepare(cls, folder: Path) -> Bench:
        """Draw images and train undisturbed."""
        # Imported once, not in each process; nothing is computed here, so that processes can be forked.
        for name in ("main", "train", "predict"):
            importlib.import_module(f"ddsfl.cli.{name}")
        folder.chmod(0o755)
        images = folder / "images"
        for number, (image, label) in enumerate(zip(*make_scenes(n_per_class=4, random_state=0, size=64))):
            if label in ("coast", "facade", "forest", "street"):
                (images / label).mkdir(parents=True, exist_ok=True)
                Image.fromarray(image).save(images / label / f"{number:03}.png")
        bench = cls(images, b"", b"", "", folder / "stages", 0, 0.0)
        places = [
            Place.new(folder / name, bench) for name in ("undisturbed", "again", "other", "stages-only")
        ]
        start = time.perf_counter()
        models = []
        for place, seed in zip(places, (0, 0, 1)):
            log = folder / f"{place.folder.name}.changes"
            ended = place.train(seed=seed, faults=[partial(log_changes, place.folder, log)]).wait()
            if ended.code != 0:
                raise Wrong(f"the undisturbed run failed: {ended.said}")
            models.append(place.out.read_bytes())
        seconds = (time.perf_counter() - start) / 3
        if models[0] != models[1]:
            raise Wrong("two undisturbed runs gave different models")
        stopped = places[3].train(faults=[partial(kill_before_model, places[3].folder)]).wait()
        if stopped.code != -9:
            raise Wrong(f"the run for the stages was not stopped: {stopped.said}")
        (places[3].stages / NOTES).unlink()
        shutil.copytree(places[3].stages, folder / "stages")
        scores = places[0].predict().said
        n_changes = len((folder / "undisturbed.changes").read_text().splitlines())
        return cls(images, models[0], models[2], scores, folder / "stages", n_changes, seconds)


@dataclass(frozen=True)
class Place:
    """The folder of one case, with files of the user in it."""

    folder: Path
    bench: Bench

    @classmethod
    def new(cls, folder: Path, bench: Bench) -> Place:
        """Make the folder, with a file of the user next to the model and another among the stages."""
        place = cls(folder, bench)
        place.stages.mkdir(parents=True)
        for notes in (folder / NOTES, place.stages / NOTES):
            notes.write_text(_NOTE)
        return place

    @property
    def out(self) -> Path:
        """The model file."""
        return self.folder / MODEL

    @property
    def stages(self) -> Path:
        """The folder of the stages."""
        return self.folder / f"{MODEL}.stages"

    def train(self, *options: str, seed: int = 0, faults: Sequence[Fault] = ()) -> Running:
        """Start a training."""
        changes = [word for path, value in SETTINGS.items() for word in ("--set", f"{path}={value}")]
        command = ("train", self.bench.images, "--out", self.out, "--seed", seed, *changes, *options)
        return Running(program(*command), faults)

    def predict(self) -> Ended:
        """Classify the training images with the model."""
        command = ("predict", self.out, self.bench.images, "--json", "--quiet")
        return Running(program(*command)).wait()

    def check_kept(self) -> None:
        """Raise Wrong if a file of the user is lost, or if a model is there that is not complete."""
        for notes in (self.folder / NOTES, self.stages / NOTES):
            if not notes.is_file() or notes.read_text() != _NOTE:
                raise Wrong(f"{notes.name} of the user is lost")
        if self.out.is_file() and self.out.read_bytes() not in (self.bench.model, self.bench.other):
            raise Wrong("the model file is not complete")

    def check_finished(self, ended: Ended, foreign: Set[str] = frozenset()) -> None:
        """Raise Wrong unless a run ended with the model of the undisturbed run, and left nothing else.

        ``foreign`` are files of the user among the stages, which must still be there.
        """
        if ended.code != 0:
            raise Wrong(f"exit {ended.code}: {ended.said[-2000:]}")
        if self.out.read_bytes() != self.bench.model:
            raise Wrong("ANOTHER MODEL")
        self.check_kept()
        found = {path.relative_to(self.folder).as_posix() for path in self.folder.rglob("*")}
        stages = self.stages.name
        expected = {MODEL, f"{MODEL}.run.json", NOTES, stages, f"{stages}/{NOTES}"}
        if lost := {f"{stages}/{name}" for name in foreign} - found:
            raise Wrong(f"lost: {', '.join(sorted(lost))}")
        if left := found - expected - {f"{stages}/{name}" for name in foreign}:
            raise Wrong(f"left behind: {', '.join(sorted(left))}")

    def resume(self, *options: str) -> Outcome:
        """Run the same command again, without any fault, to its end."""
        ended = self.train(*options).wait()
        self.check_finished(ended)
        return "warning and same model" if ended.warned else "same model"

"""Runs of `ddsfl predict --out FOLDER.parquet` on each engine, and how their results are judged."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.dataset
from PIL import Image

from attacks.disturbed.runs import MODEL, PATIENCE, SETTINGS, Ended, Wrong
from attacks.sharded.clusters import ThreeNodes
from attacks.sharded.moments import N_SHARDS, SHARD_SIZE, Trap, image_name
from attacks.sharded.processes import Mark, command_of, is_running, wait_until
from ddsfl import SceneClassifier, make_scenes
from ddsfl.scale.checking import check_folder
from ddsfl.scale.manifest import NAME
from ddsfl.scale.parts import DamagedPart, part_path, parts_in, read_part

#: Where a command works: without an engine, in processes, on a Ray cluster of its own, on one of three nodes.
Place = Literal["here", "processes", "ray", "cluster"]
Outcome = Literal[
    "complete", "complete after a rerun", "one sentence, then complete", "refused, then complete"
]
OUTCOMES: tuple[Outcome, ...] = (
    "complete",
    "complete after a rerun",
    "one sentence, then complete",
    "refused, then complete",
)
#: Seconds until the processes of a command that has ended are gone. Of a command that was killed, agents of
#: Ray first try for up to a minute to report to a store that is gone, too.
_END = 90.0
#: By which numbers may differ from those of one process.
_CLOSE = 1e-6

Rows = dict[str, dict[str, Any]]
#: What tells a part from one that was written again: inode and time.
Parts = dict[str, tuple[int, int]]


@dataclass
class Bench:
    """What all cases share.

    Attributes
    ----------
    folder : for the cases; short, because of Ray's sockets.
    model, other : the bytes of two models.
    rows : what an undisturbed run without an engine gives, by the name of the image.
    cluster : three nodes, if one is needed, and where its workers look for moments.
    """

    folder: Path
    model: bytes
    other: bytes
    rows: Rows = field(default_factory=dict)
    cluster: ThreeNodes | None = None
    trap: Trap | None = None

    @classmethod
    def prepare(cls, folder: Path, *, cluster: bool) -> Bench:
        """Draw images, train two models, start nodes, and run undisturbed."""
        images, labels = make_scenes(n_per_class=4, random_state=0, size=64)
        for name, seed in ((MODEL, 0), ("other", 1)):
            model = SceneClassifier("quick", changes=SETTINGS, device="cpu", random_state=seed)
            model.fit(images, labels).save(folder / name)
        bench = cls(folder, (folder / MODEL).read_bytes(), (folder / "other").read_bytes())
        bench.photos.mkdir()
        for number in range(N_SHARDS * SHARD_SIZE):
            picture = np.roll(images[number % len(images)], number, axis=1)
            Image.fromarray(picture).save(bench.photos / image_name(number))
        ground = Ground.new("undisturbed", bench, "here")
        ended = ground.run().wait()
        if ended.code != 0:
            raise Wrong(f"the undisturbed run failed: {ended.said}")
        bench.rows = {name: rows[0] for name, rows in rows_of(ground.out).items()}
        ground.check_finished(ended, {})
        ground.end()
        if cluster:
            bench.trap = Trap(folder / "trap")
            bench.cluster = ThreeNodes(head_cpus=0, environment=bench.trap.environment)
        return bench

    @property
    def photos(self) -> Path:
        """The folder of the images."""
        return self.folder / "photos"

    def end(self) -> None:
        """End the nodes."""
        if self.cluster is not None:
            self.cluster.end()


class Running:
    """The command in a session of its own; all its processes carry a mark."""

    def __init__(self, ground: Ground, options: Sequence[str]) -> None:
        self._mark, self._said = Mark(), ground.folder / "said.txt"
        # Of a cluster that is running, workers do not belong to the command; the trap knows them.
        self._trap = ground.trap
        base = ["predict", ground.model, ground.photos, "--out", ground.out, "--shard-size", SHARD_SIZE]
        environment = {
            **{name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"},
            **self._trap.environment,
            **self._mark.environment,
            "TMPDIR": str(ground.temporary),
        }
        with self._said.open("wb") as stream:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "ddsfl", *map(str, base), "--device", "cpu", *options],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def is_running(self) -> bool:
        return self.process.poll() is None

    def wait(self) -> Ended:
        """Wait for its end, and that of all its processes."""
        try:
            code = self.process.wait(PATIENCE)
            said = self._said.read_text(errors="replace")
            try:
                wait_until(lambda: not self._left(), _END)
            except AssertionError:
                left = "; ".join(map(command_of, self._left()))
                raise Wrong(f"processes are left after exit {code}: {left}: {said[-2000:]}") from None
        except subprocess.TimeoutExpired:
            said = self._said.read_text(errors="replace")
            raise Wrong(f"still running after {PATIENCE:.0f} s: {said[-2000:]}") from None
        finally:
            self.end()
        return Ended(code, said)

    def end(self) -> None:
        """Kill all its processes."""
        self._mark.end()
        self.process.wait()

    def _left(self) -> list[int]:
        return [*self._mark.living(), *filter(is_running, self._trap.workers())]


@dataclass
class Ground:
    """The folder of one case: its own copy of the model, and a folder for the parts."""

    folder: Path
    bench: Bench
    place: Place
    trap: Trap
    photos: Path
    temporary: Path
    runs: list[Running] = field(default_factory=list)

    @classmethod
    def new(cls, name: str, bench: Bench, place: Place) -> Ground:
        """Make the folder."""
        folder = bench.folder / name
        folder.mkdir()
        trap = Trap(folder / "trap")
        if place == "cluster":
            assert bench.trap is not None
            trap = bench.trap
            trap.clear()
        temporary = Path(tempfile.mkdtemp(prefix="dd", dir="/tmp"))  # Ray needs a short name
        ground = cls(folder, bench, place, trap, bench.photos, temporary)
        ground.model.write_bytes(bench.model)
        return ground

    @property
    def model(self) -> Path:
        """The model file."""
        return self.folder / MODEL

    @property
    def out(self) -> Path:
        """The folder of the parts."""
        return self.folder / "out.parquet"

    def run(self) -> Running:
        """Start the command."""
        options: Mapping[Place, list[str]] = {
            "here": [],
            "processes": ["--engine", "processes", "--workers", "2"],
            "ray": ["--engine", "ray", "--workers", "2"],
            "cluster": [
                "--engine",
                "ray",
                "--address",
                self.bench.cluster.address if self.bench.cluster else "",
            ],
        }
        self.runs.append(Running(self, options[self.place]))
        return self.runs[-1]

    def replace_model(self, content: bytes) -> None:
        """Put another model in the place of the model."""
        new = self.folder / "new"
        new.write_bytes(content)
        new.rename(self.model)

    def parts(self) -> Parts:
        """Return the parts that are there, all of which must be complete."""
        found = {}
        for _, path in list(parts_in(self.out)) if self.out.exists() else ():
            try:
                read_part(path)
            except DamagedPart as error:
                raise Wrong(f"HALF A PART: {error}") from error
            status = path.stat()
            found[path.name] = (status.st_ino, status.st_mtime_ns)
        return found

    def check_finished(self, ended: Ended, kept: Parts, rows: Rows | None = None, times: int = 1) -> None:
        """Raise Wrong unless all is there once, as in one undisturbed process, and nothing else.

        ``kept`` are the parts that must not have been written again; each part was written ``times``.
        """
        if ended.code != 0 or "Traceback" in ended.said:
            raise Wrong(f"exit {ended.code}: {ended.said[-2000:]}")
        found = {path.name for path in self.out.iterdir()}
        expected = {NAME, *(part_path(self.out, number).name for number in range(N_SHARDS))}
        if lost := expected - found:
            raise Wrong(f"LOST: {', '.join(sorted(lost))}")
        if left := found - expected:
            raise Wrong(f"left behind: {', '.join(sorted(left))}")
        if left := {path.name for path in self.temporary.iterdir()}:
            raise Wrong(f"left behind among temporary files: {', '.join(sorted(left))}")
        findings = check_folder(self.out)
        if findings.problems or findings.manifest.complete is None:
            raise Wrong(f"`shards check`: {findings.problems or 'not complete'}")
        check_rows(rows_of(self.out), rows or self.bench.rows)
        parts = self.parts()
        if again := [name for name, before in kept.items() if parts[name] != before]:
            raise Wrong(f"COMPUTED AGAIN: {', '.join(sorted(again))}")
        if odd := {name: n for name, n in Counter(self.trap.written()).items() if n != times}:
            raise Wrong(f"WRITTEN {odd}, expected {times}")

    def resume(self, kept: Parts, times: int = 1) -> None:
        """Run the same command again, undisturbed, to its end; ``kept`` is not computed again."""
        self.check_finished(self.run().wait(), kept, times=times)

    def end(self) -> None:
        """End and remove everything."""
        for run in self.runs:
            run.end()  # after a case that went wrong
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.rmtree(self.temporary, ignore_errors=True)


def rows_of(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Return all rows of a folder of parts by the name of their image."""
    found: dict[str, list[dict[str, Any]]] = {}
    table: pa.Table = pyarrow.dataset.dataset(folder, format="parquet").to_table()
    for row in table.to_pylist():
        found.setdefault(Path(row.pop("path")).name, []).append(row)
    return found


def check_rows(found: Mapping[str, Sequence[Mapping[str, Any]]], expected: Rows) -> None:
    """Raise Wrong unless each image is there once, with the same labels and nearly the same numbers."""
    if found.keys() != expected.keys():
        raise Wrong(f"OTHER IMAGES: {sorted(found.keys() ^ expected.keys())}")
    for name, rows in found.items():
        if len(rows) != 1:
            raise Wrong(f"TWICE: {name} has {len(rows)} rows")
        for column, value in expected[name].items():
            if not _same(rows[0][column], value):
                raise Wrong(f"OTHER RESULTS: {name} has {column} {rows[0][column]}, expected {value}")


def _same(one: Any, other: Any) -> bool:
    if isinstance(other, float) or (isinstance(other, list) and isinstance(other[0], float)):
        return one is not None and bool(np.allclose(one, other, rtol=0, atol=_CLOSE))
    return bool(one == other)

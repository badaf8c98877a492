"""Check a folder of parts against its manifest, reading everything once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from ddsfl.scale.manifest import Manifest
from ddsfl.scale.parts import DamagedPart, Facts, part_path, parts_in, read_part


@dataclass
class Findings:
    """What is wrong with a folder of parts.

    Attributes
    ----------
    manifest : of the folder.
    missing : names of parts that are not there.
    damaged : a sentence for each part that cannot be read, or is of another run.
    surplus : names of parts that belong to no shard.
    failed : path and reason of images that could not be read.
    rows : how many there are in the readable parts.
    """

    manifest: Manifest
    missing: list[str] = field(default_factory=list)
    damaged: list[str] = field(default_factory=list)
    surplus: list[str] = field(default_factory=list)
    failed: list[tuple[str, str]] = field(default_factory=list)
    rows: int = 0

    @property
    def problems(self) -> list[str]:
        """A sentence for each reason why the folder is not complete and sound."""
        found = [f"{name} is missing." for name in self.missing] + self.damaged
        found += [f"{name} belongs to no shard; run the command again to remove it." for name in self.surplus]
        if not found and self.rows != self.manifest.n_images:
            found.append(f"the parts have {self.rows} rows; expected {self.manifest.n_images}.")
        return found


def check_folder(folder: Path, progress: Callable[[int, int], None] = lambda done, total: None) -> Findings:
    """Read all parts of a folder; ValueError if it has no manifest that ddsfl wrote.

    ``progress`` is called with (parts done, parts in all).
    """
    findings = Findings(Manifest.read(folder))
    manifest = findings.manifest
    there = dict(parts_in(folder))
    findings.surplus = [path.name for number, path in sorted(there.items()) if number >= manifest.n_shards]
    for number in range(manifest.n_shards):
        path = part_path(folder, number)
        if number not in there:
            findings.missing.append(path.name)
        else:
            try:
                _check(*read_part(path), path, findings)
            except DamagedPart as error:
                findings.damaged.append(f"{error} Remove it and run the command again.")
        progress(number + 1, manifest.n_shards)
    return findings


def _check(table: pa.Table, facts: Facts, path: Path, findings: Findings) -> None:
    manifest = findings.manifest
    if facts.stamp != manifest.stamp:
        raise DamagedPart(f"{path} differs in {manifest.difference(facts.stamp)}.")
    if {column.name: str(column.type) for column in table.schema} != manifest.columns:
        raise DamagedPart(f"{path} does not have the columns of the manifest.")
    if facts.classes != manifest.classes:
        raise DamagedPart(f"{path} does not have the classes of the manifest.")
    failed = table.filter(pc.is_valid(table["error"]))
    if len(failed) != facts.errors:
        raise DamagedPart(f"{path} has {len(failed)} rows with an error; expected {facts.errors}.")
    unlike = pc.sum(table["unlike"]).as_py() or 0 if "unlike" in manifest.columns else 0
    if unlike != facts.unlike:
        raise DamagedPart(f"{path} has {unlike} images unlike the training; expected {facts.unlike}.")
    findings.rows += len(table)
    findings.failed += zip(failed["path"].to_pylist(), failed["error"].to_pylist())

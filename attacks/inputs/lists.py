"""Lists of images and labels: CSV files, text lists, tables of vectors, folder trees, labels in Python."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from attacks.domain import DECODER
from attacks.mutations import chance, mutated, odd_text, odd_value, pick
from attacks.trees import OUTSIDE, make_tree
from ddsfl.cli.inputs import read_set
from ddsfl.datasets.groups import read_groups
from ddsfl.datasets.splits import SplitError, official_split
from ddsfl.descriptors.table import TableFeatures
from ddsfl.images.folders import ImageSet, ImageSetError, list_images
from ddsfl.images.labels import Labels
from ddsfl.model.presets import preset
from ddsfl.report.checklist import findings_table
from ddsfl.report.checks import check_images
from ddsfl.report.console import Console, show
from ddsfl.report.findings import Subject

CLASSES = ("sea", "city", "wood")


@dataclass
class Case:
    """One list: what it is, its file or folder, and what else the product is given."""

    kind: str
    path: Path
    others: list[Any] = field(default_factory=list)


class Domain:
    """Image sets as a user may have them, and worse."""

    name = "lists"
    may_start = (DECODER,)

    def prepare(self, folder: Path) -> None:
        self.images = folder / "images"
        rng = np.random.default_rng(0)
        for label in CLASSES:
            (self.images / label).mkdir(parents=True)
            for number in range(3):
                pixels = rng.integers(0, 256, (40, 50), dtype=np.uint8)
                Image.fromarray(pixels).save(self.images / label / f"{number}.png")
        self.paths = sorted(self.images.glob("*/*"))
        self.settings = preset("quick")

    def case(self, rng: np.random.Generator, folder: Path) -> Case:
        kind = pick(
            rng, ("csv", "csv", "csv", "groups", "tree", "tree", "listing", "split", "table", "labels")
        )
        if kind == "labels":
            return Case(kind, folder, [_labels(rng)])
        if kind == "tree":
            return Case(kind, make_tree(rng, folder / "set", self.paths), [chance(rng, 0.5)])
        if kind == "listing":
            tree = make_tree(rng, folder / "set", self.paths)
            # Whoever names the root of the system has to wait.
            inside = [path for path in sorted(tree.iterdir()) if os.path.realpath(path) != "/"]
            named: list[Any] = [pick(rng, (tree, *inside, *self.paths, *OUTSIDE)) for _ in range(3)]
            odd = [f"{tree}/no{odd_text(rng)}"] if chance(rng, 0.3) else []
            return Case(kind, tree, [*named, *odd])
        if kind == "split":
            names = [os.path.relpath(path, self.images) for path in self.paths]
            files = [folder / "train.txt", folder / "test.txt"]
            for file in files:
                lines = [pick(rng, (*names, *names, odd_text(rng))) for _ in range(int(rng.integers(0, 6)))]
                file.write_bytes(_encoded(rng, pick(rng, ("\n", "\r\n", "\r")).join(lines)))
            return Case(kind, folder, files)
        if kind == "table":
            return Case(kind, self._table(rng, folder))
        list_file = folder / pick(rng, ("list.csv", "LIST.CSV", "list.txt", "list", "list.png"))
        list_file.write_bytes(self._csv(rng, folder))
        return Case(kind, list_file, [pick(rng, ("source", "label", "path", "", odd_text(rng)))])

    def may_open(self, case: Case) -> list[Path]:
        return [case.path.parent, self.images, *map(Path, OUTSIDE)]

    def attempt(self, case: Case) -> str:
        try:
            self._use(case)
        except ImageSetError:
            return "refused"
        except ValueError as error:
            if case.kind in ("csv", "groups", "tree", "listing") or not _is_sentence(error):
                raise
            return "refused"
        return "accepted"

    def _use(self, case: Case) -> None:
        if case.kind == "labels":
            labels = Labels.read(case.others[0])
            assert labels.membership.shape == (len(labels), len(labels.classes)), "shape of the membership"
            labels.fingerprint()
        elif case.kind == "split":
            official_split(self.paths, *case.others).check([path.parent.name for path in self.paths])
        elif case.kind == "listing":
            listing = list_images(case.others)
            assert "".join(listing.problems) + listing.ignored_files is not None
        elif case.kind == "table":
            table = TableFeatures(case.path)
            assert np.isfinite(table.vectors(self.paths)).all(), "vectors are not finite"
        elif case.kind == "groups":
            found = ImageSet.find(case.path, least=1)
            read_groups(case.path, str(case.others[0]), found.paths)
        elif case.others[0]:
            self._check(case.path)
        else:
            read_set(ImageSet.find(case.path), self.settings, False, Console(quiet=True))

    def _check(self, path: Path) -> None:
        """Do what `ddsfl check` does, with and without --json."""
        found = ImageSet.find(path, least=1)
        decoded = self.settings.image_list(found.paths, cache_bytes=0)
        findings = check_images(Subject(found, decoded, decoded.read_all(glance=True)))
        text = json.dumps([finding.to_json() for finding in findings], allow_nan=False)
        json.loads(text, parse_constant=_refuse)
        with contextlib.redirect_stdout(io.StringIO()):
            show(findings_table(findings, found.paths))

    def _csv(self, rng: np.random.Generator, folder: Path) -> bytes:
        columns = ["path", "label", "source"]
        if chance(rng, 0.2):
            columns[int(rng.integers(3))] = odd_text(rng)
        if chance(rng, 0.2):
            columns.append(pick(rng, columns))
        if chance(rng, 0.1):
            rng.shuffle(columns)
        rows: list[Sequence[str]] = [columns]
        for _ in range(int(pick(rng, (0, 3, 8, 20, 300)))):
            path = pick(rng, self.paths)
            shown = [str(path), os.path.relpath(path, folder)]
            if chance(rng, 0.15):
                shown = [
                    odd_text(rng),
                    *OUTSIDE,
                    "../" * 30 + "etc/hostname",
                    str(path.parent),
                    f"{path}\0.png",
                ]
            label = path.parent.name if chance(rng, 0.85) else _odd_label(rng)
            row = [pick(rng, shown), label, path.stem]
            rows.append(row[: int(rng.integers(0, 4))] if chance(rng, 0.05) else row)
        stream = io.StringIO()
        end, between = pick(rng, ("\n", "\n", "\r\n", "\r")), pick(rng, (",",) * 9 + (";",))
        csv.writer(
            stream, "unix" if chance(rng, 0.3) else "excel", lineterminator=end, delimiter=between
        ).writerows(rows)
        text = stream.getvalue()
        return _encoded(rng, text.rstrip(end) if chance(rng, 0.2) else text)

    def _table(self, rng: np.random.Generator, folder: Path) -> Path:
        """Write a table of vectors as .csv or .npz, damaged in most cases."""
        names = [os.path.relpath(path, self.images) for path in self.paths]
        values = rng.normal(size=(len(names), 4))
        if chance(rng, 0.5):
            lines = [",".join([name, *map(str, row)]) for name, row in zip(names, values)]
            for _ in range(int(rng.integers(0, 3))):
                lines[int(rng.integers(len(lines)))] = ",".join(odd_text(rng) for _ in range(5))
            path = folder / "table.csv"
            path.write_bytes(_encoded(rng, "\n".join(lines)))
            return path
        stream = io.BytesIO()
        arrays: dict[str, Any] = {"paths": np.array(names), "vectors": values}
        if chance(rng, 0.4):
            with contextlib.suppress(ValueError, OverflowError):
                arrays[pick(rng, ("paths", "vectors"))] = np.array(odd_value(rng))
        pick(rng, (np.savez, np.savez_compressed))(stream, **arrays)
        path = folder / "table.npz"
        path.write_bytes(mutated(rng, stream.getvalue()) if chance(rng, 0.7) else stream.getvalue())
        return path


def _is_sentence(error: ValueError) -> bool:
    """Return whether an error is one of the product, not of what it calls (such as UnicodeDecodeError)."""
    return type(error) in (ValueError, SplitError) and str(error).endswith((".", "?"))


def _refuse(constant: str) -> None:
    raise AssertionError(f"{constant} in JSON")


def _odd_label(rng: np.random.Generator) -> str:
    return pick(
        rng, (odd_text(rng), f"sea;{odd_text(rng)}", ";", ";;sea;", "sea;city;sea", " sea ", "SEA", "1")
    )


def _encoded(rng: np.random.Generator, text: str) -> bytes:
    """Return text in UTF-8 or another encoding, damaged in some cases."""
    encoding = pick(rng, ("utf-8",) * 7 + ("utf-8-sig", "utf-16", "latin-1", "utf-32"))
    data = text.encode(encoding, "replace" if encoding == "latin-1" else "surrogatepass")
    return mutated(rng, data) if chance(rng, 0.3) else data


def _labels(rng: np.random.Generator) -> Any:
    """Return labels of one of the forms that are accepted, with something odd among them."""
    n_images = int(rng.integers(0, 8))
    form = int(rng.integers(0, 9))
    if form == 0:
        return [pick(rng, (*CLASSES, odd_text(rng))) for _ in range(n_images)]
    if form == 1:
        return [int(pick(rng, (0, 1, 2, -1, 2**40))) for _ in range(n_images)]
    if form == 2:
        return [tuple(pick(rng, (*CLASSES, odd_text(rng))) for _ in range(3)) for _ in range(n_images)]
    if form == 3:
        return rng.integers(0, 2, tuple(rng.integers(0, 4, int(rng.integers(0, 4)))))
    if form == 4:
        return np.array([odd_value(rng) for _ in range(n_images)], dtype=object)
    if form == 5:
        return torch.tensor(rng.integers(-1, 3, (n_images, *rng.integers(0, 3, int(rng.integers(0, 2))))))
    if form == 6:
        return rng.normal(size=n_images).astype(
            pick(rng, ("f4", "f8", "c8", "i1", "u8", "S3", "U2", "M8[s]", "?"))
        )
    if form == 7:
        return [
            pick(rng, ("sea", ("sea",), ["city"], {"wood"}, frozenset({1}), 1, None, 1.5, b"x"))
        ] * n_images
    return odd_value(rng)

"""What a check of an image set finds, and what it looks at; nothing here knows about terminals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from ddsfl.images.folders import ImageSet
from ddsfl.images.headers import Header
from ddsfl.images.image_list import ImageList, Problem
from ddsfl.images.likeness import Copies
from ddsfl.report.opinion import Opinion

#: "error": images cannot be used or contradict each other; `train --strict` refuses them. "warning": model or
#: accuracy may suffer; `check --strict` exits with code 1 for these too. "note": advice.
Severity = Literal["error", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")


@dataclass(frozen=True)
class Item:
    """One instance of a finding: the files and labels it concerns, and what is special about it."""

    files: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    detail: str = ""
    count: int = 1


@dataclass(frozen=True)
class Finding:
    """All instances of one kind, the worst first.

    >>> Finding("flat", "warning", "images of one tone", "Delete them.", (Item(("a.png",)),)).count
    1
    """

    kind: str
    severity: Severity
    title: str
    advice: str
    items: tuple[Item, ...]

    @classmethod
    def of(
        cls, kind: str, severity: Severity, title: str, advice: str, items: Sequence[Item]
    ) -> Finding | None:
        """Return the finding, or None if there are no items."""
        return cls(kind, severity, title, advice, tuple(items)) if items else None

    @property
    def count(self) -> int:
        """The number of instances."""
        return sum(item.count for item in self.items)

    def to_json(self) -> dict[str, Any]:
        """Return the finding as plain values; files and labels only where an item has them."""
        items = []
        for item in self.items:
            values: dict[str, Any] = {"files": list(item.files), "labels": list(item.labels)}
            values |= {"detail": item.detail, "count": item.count if item.count > 1 else 0}
            items.append({name: value for name, value in values.items() if value})
        return {
            "kind": self.kind,
            "severity": self.severity,
            "title": self.title,
            "count": self.count,
            "advice": self.advice,
            "items": items,
        }


@dataclass(frozen=True)
class Subject:
    """The image set that is checked, and what was seen of it.

    Attributes
    ----------
    image_set : the images and their labels.
    images : the same images, read with ``glance=True``.
    unreadable : images that cannot be read.
    sides : numbers of the training images and of the test images; without a split, all are training images.
    opinion : what a model thinks of some of the images, by number.
    """

    image_set: ImageSet
    images: ImageList
    unreadable: Sequence[Problem] = ()
    sides: tuple[frozenset[int], frozenset[int]] | None = None
    opinion: Mapping[int, Opinion] = field(default_factory=dict)

    @cached_property
    def readable(self) -> list[int]:
        """The numbers of the images that can be read."""
        return self.images.seen()

    @cached_property
    def copies(self) -> list[Copies]:
        """Groups of images that show the same picture."""
        return self.images.copies()

    @cached_property
    def headers(self) -> dict[int, Header]:
        """The headers of the readable images, by number."""
        headers = {index: self.images.header(index) for index in self.readable}
        return {index: header for index, header in headers.items() if header is not None}

    @cached_property
    def training(self) -> list[int]:
        """The numbers of the readable training images."""
        return [index for index in self.readable if self.sides is None or index in self.sides[0]]

    def name(self, index: int) -> str:
        """Return the file name of an image."""
        return str(self.image_set.paths[index])

    def names(self, indices: Iterable[int]) -> tuple[str, ...]:
        """Return the file names of some images."""
        return tuple(map(self.name, indices))

    def labels(self, index: int) -> tuple[str, ...]:
        """Return the labels of an image, sorted."""
        return tuple(sorted(self.image_set.names(index)))

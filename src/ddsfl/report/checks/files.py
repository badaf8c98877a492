"""Files that are not used, or that may be missing elsewhere."""

from __future__ import annotations

from ddsfl.images.unreadable import name_of
from ddsfl.report.findings import Finding, Item, Subject


def unreadable(subject: Subject) -> Finding | None:
    """Find files that cannot be decoded."""
    items = [Item((name_of(problem.source),), detail=problem.reason) for problem in subject.unreadable]
    return Finding.of(
        "unreadable",
        "error",
        "files that cannot be read",
        "Replace or delete them; they are not used.",
        items,
    )


def left_out(subject: Subject) -> Finding | None:
    """Find what the image set left out when it was read."""
    items = [Item(detail=problem) for problem in subject.image_set.problems]
    return Finding.of(
        "left-out",
        "error",
        "entries left out",
        "Correct what each line names; these entries are not used.",
        items,
    )


def ignored(subject: Subject) -> Finding | None:
    """Count files that are no images by their suffix."""
    kinds = subject.image_set.ignored_kinds
    items = [Item(detail=words, count=count) for words, count in kinds.items()]
    return Finding.of(
        "ignored",
        "note",
        "files ignored because of their suffix",
        "Convert those that are images to PNG or JPEG.",
        items,
    )


def links_that_leave(subject: Subject) -> Finding | None:
    """Find links that lead out of the folder."""
    items = [Item((str(path),)) for path in subject.image_set.leaving]
    return Finding.of(
        "leaving",
        "warning",
        "links that lead out of the folder",
        "Replace them by copies, or the set is incomplete elsewhere.",
        items,
    )

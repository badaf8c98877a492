"""Images whose size, shape or kind of pixels is unusual in the set."""

from __future__ import annotations

from collections import Counter
from statistics import median

from ddsfl.images.headers import Header
from ddsfl.report.findings import Finding, Item, Subject

#: An image is unusually small if its longer side is shorter than the median of the set divided by this.
SMALLER = 4.0
#: An image is unusually long if longer side / shorter side exceeds this many times the median of the set.
LONGER = 2.0


def flat(subject: Subject) -> Finding | None:
    """Find images of (almost) a single tone."""
    return Finding.of(
        "flat",
        "warning",
        "images of one tone",
        "Delete them unless they are what the class looks like.",
        [Item((subject.name(index),)) for index in subject.images.flat()],
    )


def too_small(subject: Subject) -> Finding | None:
    """Find images that are stretched, because they are smaller than a descriptor."""
    small = [(min(header.width, header.height), index) for index, header in _small(subject).items()]
    return Finding.of(
        "too-small",
        "warning",
        f"images below {subject.images.min_side} pixels, which are stretched",
        "Use larger versions, or delete them.",
        [_sized(subject, index) for _, index in sorted(small)],
    )


def unusual_size(subject: Subject) -> Finding | None:
    """Find images that are much smaller or longer than the others."""
    headers = subject.headers
    if not headers:
        return None
    side = median(_longer(header) for header in headers.values()) / SMALLER
    length = median(map(_length, headers.values())) * LONGER
    small = _small(subject)
    excess = {
        index: max(side / _longer(header), _length(header) / length)
        for index, header in headers.items()
        if index not in small
    }
    indices = sorted((index for index in excess if excess[index] > 1), key=lambda index: -excess[index])
    return Finding.of(
        "size",
        "note",
        "images much smaller or longer than the others",
        "Look at them; thumbnails, banners or cuts show other scales.",
        [_sized(subject, index) for index in indices],
    )


def unusual_kind(subject: Subject) -> Finding | None:
    """Find kinds of pixels other than the most common one, and animations."""
    kinds = Counter(header.kind for header in subject.headers.values())
    usual = kinds.most_common(1)[0][0] if kinds else ""
    items = []
    for index, header in subject.headers.items():
        words = [header.kind] if header.kind != usual else []
        words += ["several frames"] if header.animated else []
        if words:
            items.append(Item((subject.name(index),), detail=", ".join(words)))
    return Finding.of(
        "kind",
        "note",
        f"other kinds of pixels than most images ({usual})",
        "Check that they look right; transparency becomes white, only first frames are used.",
        items,
    )


def _small(subject: Subject) -> dict[int, Header]:
    least = subject.images.min_side
    return {
        index: header for index, header in subject.headers.items() if min(header.width, header.height) < least
    }


def _longer(header: Header) -> int:
    return max(header.width, header.height)


def _length(header: Header) -> float:
    return _longer(header) / min(header.width, header.height)


def _sized(subject: Subject, index: int) -> Item:
    header = subject.headers[index]
    return Item((subject.name(index),), detail=f"{header.width} x {header.height}")

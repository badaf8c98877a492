"""Labels and the number of their images."""

from __future__ import annotations

from collections import Counter

from ddsfl.compute.words import counted
from ddsfl.report.findings import Finding, Item, Subject

#: Fewer images of a label than this give accuracies that vary widely.
FEW = 10
#: Ratio of the largest to the smallest class from which balanced weights help.
IMBALANCED = 5


def look_alike_labels(subject: Subject) -> Finding | None:
    """Find labels that differ only by case, Unicode form, blanks or invisible characters."""
    counts = Counter(name for index in range(len(subject.image_set)) for name in subject.labels(index))
    items = [
        Item(labels=group, detail=", ".join(f"{name!a}: {counted(counts[name], 'image')}" for name in group))
        for group in subject.image_set.look_alike_labels()
    ]
    return Finding.of(
        "labels",
        "error",
        "labels that look alike",
        "Give them one name if they mean the same.",
        items,
    )


def single_image_classes(subject: Subject) -> Finding | None:
    """Find labels with a single training image."""
    return Finding.of(
        "single",
        "error",
        "labels with fewer than 2 images",
        "Add images; training leaves these labels out.",
        _rare(subject, 1, 1),
    )


def small_classes(subject: Subject) -> Finding | None:
    """Find labels with few training images."""
    return Finding.of(
        "small",
        "note",
        f"labels with fewer than {FEW} images",
        "Add images if you can; accuracies vary widely with so few.",
        _rare(subject, 2, FEW - 1),
    )


def imbalance(subject: Subject) -> Finding | None:
    """Find a large ratio of class sizes."""
    counts = [pair for pair in _counts(subject).most_common() if pair[1] > 1]
    items = []
    if counts and counts[0][1] > IMBALANCED * counts[-1][1]:
        (largest, many), (smallest, few) = counts[0], counts[-1]
        detail = f"{largest!r}: {counted(many, 'image')}, {smallest!r}: {few}, ratio {many / few:.1f}"
        items.append(Item(labels=(largest, smallest), detail=detail))
    return Finding.of(
        "imbalance",
        "note",
        "classes of very different size",
        "Train with --balanced, or add images of the small classes.",
        items,
    )


def _counts(subject: Subject) -> Counter[str]:
    return Counter(name for index in subject.training for name in subject.labels(index))


def _rare(subject: Subject, least: int, most: int) -> list[Item]:
    counts = sorted(_counts(subject).items(), key=lambda pair: (pair[1], pair[0]))
    return [
        Item(labels=(name,), detail=f"{name!r}: {counted(count, 'image')}")
        for name, count in counts
        if least <= count <= most
    ]

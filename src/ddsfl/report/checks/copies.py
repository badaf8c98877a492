"""Images that occur more than once, exactly or almost.

A group of copies is listed once if all is well with its labels and its split, as a duplicate. Otherwise it is
listed for what is wrong: different labels, or copies on both sides of a split.
"""

from __future__ import annotations

from ddsfl.images.likeness import Copies
from ddsfl.report.findings import Finding, Item, Subject


def copies_with_different_labels(subject: Subject) -> Finding | None:
    """Find exact copies with different labels."""
    return Finding.of(
        "copies-labels",
        "error",
        "same image with different labels",
        "Keep the copy with the right label.",
        [_item(subject, group) for group in _groups(subject, exact=True) if _labels_differ(subject, group)],
    )


def copies_in_training_and_test(subject: Subject) -> Finding | None:
    """Find exact copies on both sides of a split."""
    return Finding.of(
        "copies-split",
        "error",
        "same image in training and test",
        "Remove it from one side, or the accuracy is too high.",
        [_item(subject, group) for group in _groups(subject, exact=True) if _on_both_sides(subject, group)],
    )


def copies(subject: Subject) -> Finding | None:
    """Find exact copies of the same label."""
    return Finding.of(
        "copies",
        "warning",
        "same image more than once",
        "Keep one of each; random splits put copies on both sides.",
        [_item(subject, group) for group in _groups(subject, exact=True) if _harmless(subject, group)],
    )


def near_copies_with_different_labels(subject: Subject) -> Finding | None:
    """Find near copies with different labels."""
    return Finding.of(
        "near-copies-labels",
        "warning",
        "almost the same image with different labels",
        "Look at them; if they are copies, keep the right label.",
        [_item(subject, group) for group in _groups(subject, exact=False) if _labels_differ(subject, group)],
    )


def near_copies_in_training_and_test(subject: Subject) -> Finding | None:
    """Find near copies on both sides of a split."""
    return Finding.of(
        "near-copies-split",
        "warning",
        "almost the same image in training and test",
        "Look at them; if they are copies, remove them from one side.",
        [_item(subject, group) for group in _groups(subject, exact=False) if _on_both_sides(subject, group)],
    )


def near_copies(subject: Subject) -> Finding | None:
    """Find near copies of the same label."""
    return Finding.of(
        "near-copies",
        "warning",
        "almost the same image more than once",
        "Look at them; if they are copies, keep one of each.",
        [_item(subject, group) for group in _groups(subject, exact=False) if _harmless(subject, group)],
    )


def _groups(subject: Subject, exact: bool) -> list[Copies]:
    """Return the groups, the largest first."""
    groups = [group for group in subject.copies if group.exact == exact]
    return sorted(groups, key=lambda group: -len(group.members))


def _labels_differ(subject: Subject, group: Copies) -> bool:
    return len({subject.labels(index) for index in group.members}) > 1


def _on_both_sides(subject: Subject, group: Copies) -> bool:
    return subject.sides is not None and all(not side.isdisjoint(group.members) for side in subject.sides)


def _harmless(subject: Subject, group: Copies) -> bool:
    return not (_labels_differ(subject, group) or _on_both_sides(subject, group))


def _item(subject: Subject, group: Copies) -> Item:
    labels = dict.fromkeys(name for index in group.members for name in subject.labels(index))
    return Item(subject.names(group.members), tuple(labels))

"""The checks of an image set, one function per kind of finding, in the order in which they are shown.

To add a check, write a function from `Subject` to `Finding` or None and add it to `CHECKS`.
"""

from __future__ import annotations

from collections.abc import Callable

from ddsfl.report.checks import classes, copies, files, model, pixels
from ddsfl.report.findings import SEVERITIES, Finding, Subject

CHECKS: tuple[Callable[[Subject], Finding | None], ...] = (
    files.unreadable,
    files.left_out,
    classes.look_alike_labels,
    classes.single_image_classes,
    copies.copies_with_different_labels,
    copies.copies_in_training_and_test,
    copies.copies,
    copies.near_copies_with_different_labels,
    copies.near_copies_in_training_and_test,
    copies.near_copies,
    files.links_that_leave,
    pixels.flat,
    pixels.too_small,
    classes.small_classes,
    classes.imbalance,
    pixels.unusual_size,
    pixels.unusual_kind,
    files.ignored,
    model.doubtful_labels,
    model.new_to_the_model,
)


def check_images(subject: Subject) -> list[Finding]:
    """Return everything that the checks find, errors first."""
    found = [finding for check in CHECKS if (finding := check(subject)) is not None]
    return sorted(found, key=lambda finding: SEVERITIES.index(finding.severity))

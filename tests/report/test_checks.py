"""Order of findings, and doubts about labels where images have several."""

import numpy as np

from ddsfl.images.folders import ImageSet
from ddsfl.images.image_list import ImageList
from ddsfl.report import checks
from ddsfl.report.findings import Subject
from ddsfl.report.opinion import doubts


def test_errors_come_first_in_whatever_order_the_checks_are(tmp_path, monkeypatch):
    paths = [tmp_path / name for name in ("a", "b", "c")]
    images = ImageList([np.zeros((40, 40), np.uint8)] * 3)
    images.read_all(glance=True)
    subject = Subject(ImageSet(paths, ["x", "X", "X"], ignored={".txt": 2}), images)
    monkeypatch.setattr(checks, "CHECKS", checks.CHECKS[::-1])
    found = [(finding.severity, finding.kind) for finding in checks.check_images(subject)]
    assert found == [
        ("error", "copies-labels"), ("error", "single"), ("error", "labels"), ("warning", "flat"),
        ("note", "ignored"), ("note", "small"),
    ]  # fmt: skip


def test_doubts_about_several_labels():
    """One of two labels is wrong: its score is the lowest of the own, and the right one is preferred."""
    vectors = np.repeat(np.eye(3), 8, axis=0)
    labels = [(*"ab",)] * 8 + [(*"bc",)] * 8 + [(*"ca",)] * 8
    labels[0] = ("a", "c")
    labels[9] = ("b",)  # its own class accepts it, so it is not doubted
    result = doubts(vectors, labels, C=1.0)
    assert [number for number, (doubt, _) in enumerate(result) if doubt] == [0]
    assert result[0][1] == "b"
    assert result[0][0] > 1

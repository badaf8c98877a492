"""Test images, and files that are not images."""

import numpy as np
from PIL import Image

from ddsfl.images.formats import SUFFIXES


def picture(height=37, width=53, seed=0, channels=3):
    shape = (height, width, 3) if channels == 3 else (height, width)
    return np.random.default_rng(seed).integers(0, 256, shape).astype(np.uint8)


def bad_files(folder):
    """Write files that look like images; return a part of the error message for each."""
    complete = folder / "whole.jpg"
    Image.fromarray(picture(200, 200)).save(complete)
    (folder / "text.jpg").write_text("This is not an image.")
    (folder / "empty.png").write_bytes(b"")
    (folder / "cut.jpg").write_bytes(complete.read_bytes()[:3000])
    (folder / "head.jpg").write_bytes(complete.read_bytes()[:40])
    (folder / "folder.jpg").mkdir()
    return {
        "text.jpg": "not an image", "empty.png": "not an image", "cut.jpg": "truncated", "head.jpg": ".",
        "folder.jpg": "directory", "missing.jpg": "no such file",
    }  # fmt: skip


def put(root, *names):
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (20, 20)).save(root / name)


def write_csv(root, text, encoding="utf-8"):
    path = root / "list.csv"
    path.write_text(text, encoding=encoding)
    return path


def without_heif(monkeypatch):
    readable = SUFFIXES - {".heic"}
    monkeypatch.setattr("ddsfl.images.walk.readable_suffixes", lambda: readable)
    monkeypatch.setattr("ddsfl.images.folders.readable_suffixes", lambda: readable)

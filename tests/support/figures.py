"""What is written in a figure."""

import numpy as np
from PIL import Image

#: Class names, one with a letter beyond ASCII.
NAMES = ["forest", "Küche", "street", "coast"]


def heading(axes):
    """Return title and caption."""
    return axes.get_title(loc="left"), axes.texts[-1].get_text()


def texts_of(labels):
    return [label.get_text() for label in labels]


def levels(path):
    """Return the pixels of a PNG file."""
    assert Image.open(path).format == "PNG"
    return np.asarray(Image.open(path).convert("RGB"))

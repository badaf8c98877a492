"""Explained images with drawn scenes and invented evidence."""

from dataclasses import replace

import numpy as np

from ddsfl.images.scenes import make_scenes
from ddsfl.report.pages.why_view import ExplainedImage, Part, Patch, Question, Spot, Voice

SIZE = 96
SCENES, LABELS = make_scenes(1, random_state=0, size=SIZE)
SCRIPT = "<script>alert(1)</script>"


def blobs(*places, size=SIZE):
    """Return a map with a round blob of the given sum at each (row, column, sum)."""
    y, x = np.mgrid[:size, :size]
    heat = np.zeros((size, size))
    for row, column, amount in places:
        blob = np.exp(-((y - row) ** 2 + (x - column) ** 2) / 60)
        heat += amount * blob / blob.sum()
    return heat


def made_voice(value, at=(20, 20), number=7, patches=("forest", "lake"), side=16, **changes):
    """Return a voice with two spots; its patches are gray and coloured in turn."""
    row, column = at
    spots = tuple(
        Spot((row + shift, column + shift, row + shift + side, column + shift + side), value / 2)
        for shift in (0, 30)
    )
    pixels = (SCENES[0][:20, :20], np.repeat(SCENES[1][:20, :20, None], 3, axis=2))
    made = tuple(Patch(pixels[n % 2], label) for n, label in enumerate(patches))
    return replace(Voice("layer1", "word", number, value, spots, made), **changes)


def made_question(name="forest", against=None, shift=0.0, **changes):
    """Return a question of two blocks with places and one without, with one voice for and one against."""
    parts = (Part("layer1", 0.5 + shift, True), Part("sift", -0.2, True), Part("network", 0.1, False))
    voices = (made_voice(0.03), made_voice(-0.02, at=(50, 40), number=8))
    heat = blobs((28, 28, 0.5 + shift), (60, 50, -0.2))
    start = -0.8
    made = Question(name, against, start + sum(part.value for part in parts), start, parts, heat, voices)
    return replace(made, **changes)


def made_image(index=0, **changes):
    """Return an image with three questions: forest rather than lake, forest, lake."""
    questions = (
        made_question("forest", "lake"),
        made_question("forest", shift=0.1),
        made_question("lake", shift=-0.4),
    )
    picture = np.repeat(SCENES[index][..., None], 3, axis=2)
    made = ExplainedImage(
        f"photos/scene {index}.jpg", picture, ("forest",), (0.714,), False, True, questions, 1.6e-7
    )
    return replace(made, **changes)

"""Drawn gray scenes for the demo and the tests, generated on the fly from a seed.

Every scene of every class has a sky, ground, clutter and noise. The classes differ in small parts with random
positions, sizes and tones. The classes form a ring: each has one exclusive part and shares one part with each
of its two neighbours. This gives a filter bank something to share.

    street  -windows- facade -stonework- field -pickets- garden -foliage- forest -rocks- mountain
    mountain -peaks- lake -ripples- harbour -poles- street
"""

from __future__ import annotations

from typing import Any

import numpy as np
from PIL import Image

from ddsfl.images.scene_parts import PARTS, ZOOM, Brush, Part

Array = np.ndarray[Any, Any]

SCENE_CLASSES = tuple(PARTS)


def make_scenes(
    n_per_class: int = 40, *, random_state: int = 0, size: int = 112
) -> tuple[list[Array], list[str]]:
    """Draw ``n_per_class`` gray scenes of each class of `SCENE_CLASSES`, in the order of the classes.

    A scene depends only on its class, its number and ``random_state``: drawing more scenes per class does
    not change the first ones.

    Returns
    -------
    images : uint8 arrays (size, size).
    labels : one class name per image.

    Examples
    --------
    >>> images, labels = make_scenes(2, random_state=0)
    >>> len(images), images[0].shape, labels[:3]
    (16, (112, 112), ['facade', 'facade', 'field'])
    """
    if n_per_class < 1:
        raise ValueError(f"n_per_class={n_per_class} must be at least 1.")
    if size < 64:
        raise ValueError(f"size={size} must be at least 64, or the parts of a scene do not fit.")
    images, labels = [], []
    for kind, name in enumerate(SCENE_CLASSES):
        for number in range(n_per_class):
            rng = np.random.default_rng([random_state, kind, number])
            images.append(_draw_scene(name, rng, size))
            labels.append(name)
    return images, labels


def _draw_scene(name: str, rng: np.random.Generator, size: int) -> Array:
    side = size * ZOOM
    canvas = _backdrop(rng, side)
    own, *shared = PARTS[name]
    parts = [own] * int(rng.integers(1, 4))
    parts += [part for part in shared for _ in range(int(rng.integers(0, 2)) + 1)]
    parts += [_any_part(rng)] * int(rng.random() < 0.35)
    for index in rng.permutation(len(parts)):
        width, height = side * rng.uniform(0.3, 0.55), side * rng.uniform(0.26, 0.42)
        # The upper sky stays empty, as in a real scene. This holds for all classes, so it gives no hint.
        left, top = rng.uniform((-0.1, 0.15), 1.1) * (side - width, side - height)
        parts[index](Brush(canvas, rng, (left, top, width, height)))
    _scribble(Brush(canvas, rng, (0, 0, side, side)))
    pixels = np.asarray(canvas.reduce(ZOOM), np.float32)
    if rng.random() < 0.5:
        pixels = pixels[:, ::-1]
    pixels = 128 + rng.uniform(0.7, 1.1) * (pixels - pixels.mean()) + rng.uniform(-25, 25)
    pixels = pixels + rng.uniform(3, 7) * rng.standard_normal((size, size), np.float32)
    return np.rint(pixels).clip(0, 255).astype(np.uint8)


def _any_part(rng: np.random.Generator) -> Part:
    """Return a part of a random class, as a distractor."""
    of_one = list(PARTS.values())[rng.integers(len(PARTS))]
    return of_one[rng.integers(3)]


def _backdrop(rng: np.random.Generator, side: int) -> Image.Image:
    """Draw sky and ground: two gradients with clouds and roughness, separated by a bent horizon."""
    horizon = np.interp(
        np.linspace(0, 4, side), np.arange(5), rng.uniform(0.3, 0.7) + rng.uniform(-0.06, 0.06, 5)
    )
    y = np.linspace(0, 1, side)[:, None]
    top, sky_end, ground_start, bottom = rng.uniform(65, 195, 4)
    sky = top + (sky_end - top) * y + _cloud(rng, side, 5, 18)
    ground = ground_start + (bottom - ground_start) * y + _cloud(rng, side, 30, 7)
    return Image.fromarray(np.where(y < horizon, sky, ground).clip(0, 255).astype(np.uint8))


def _cloud(rng: np.random.Generator, side: int, cells: int, strength: float) -> Array:
    """Return smooth noise, interpolated from ``cells`` x ``cells`` random values."""
    grid = (strength * rng.standard_normal((cells, cells))).astype(np.float32)
    return np.asarray(Image.fromarray(grid).resize((side, side), Image.Resampling.BILINEAR))


def _scribble(brush: Brush) -> None:
    """Draw clutter, common to all classes: strokes and dots across the scene."""
    for _ in range(int(brush.rng.integers(3, 7))):
        x, y = brush.rng.random(2)
        dx, dy = brush.rng.uniform(-0.25, 0.25, 2)
        tone = int(brush.rng.uniform(30, 225))
        brush.line([(x, y), (x + dx, y + dy)], tone, brush.rng.uniform(0.8, 2.2))
        brush.disc(x + dy, y + dx, brush.rng.uniform(1, 3), tone)

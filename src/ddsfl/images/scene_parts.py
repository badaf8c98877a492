"""The parts of the drawn scenes, the brush that draws them, and the parts of each class."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from PIL import Image, ImageDraw

Points = list[tuple[float, float]]

#: Scenes are drawn this many times larger and then reduced, which smooths their edges.
ZOOM = 2


class Brush:
    """Draws one part into a box of the canvas; x and y run from 0 to 1 within the box.

    ``ink`` is the tone of the lines and ``fill`` the tone of the areas.
    """

    def __init__(self, canvas: Image.Image, rng: np.random.Generator, box: tuple[float, ...]) -> None:
        self._draw = ImageDraw.Draw(canvas)
        self._left, self._top, self._width, self._height = box
        self.rng = rng
        middle = rng.uniform(70, 185)
        contrast = rng.uniform(50, 110) * rng.choice([-1, 1])
        self.fill = int(middle - contrast / 2)
        self.ink = int(middle + contrast / 2)

    @property
    def aspect(self) -> float:
        """Height of the box over its width."""
        return self._height / self._width

    def steps(self, pixels: float, *, down: bool = False) -> int:
        """Return how many times ``pixels`` of the finished scene fit along the box."""
        return max(2, round((self._height if down else self._width) / (pixels * ZOOM)))

    def line(self, points: Points, tone: int, pixels: float = 1.2) -> None:
        """Draw a line that is ``pixels`` wide in the finished scene."""
        width = max(1, round(pixels * ZOOM))
        self._draw.line(self._at(points), fill=tone, width=width, joint="curve")

    def area(self, points: Points, tone: int) -> None:
        """Fill a polygon."""
        self._draw.polygon(self._at(points), fill=tone)

    def rectangle(self, x0: float, y0: float, x1: float, y1: float, tone: int) -> None:
        """Fill a rectangle."""
        self._draw.rectangle(self._at([(x0, y0), (x1, y1)]), fill=tone)

    def disc(self, x: float, y: float, pixels: float, tone: int) -> None:
        """Fill a disc with a radius of ``pixels`` in the finished scene."""
        (cx, cy), r = self._at([(x, y)])[0], pixels * ZOOM
        self._draw.ellipse((cx - r, cy - r, cx + r, cy + r), fill=tone)

    def _at(self, points: Points) -> Points:
        return [(self._left + x * self._width, self._top + y * self._height) for x, y in points]


# --- parts that two neighbouring classes share -------------------------------------------------------


def windows(brush: Brush) -> None:
    """A wall of windows, each with a vertical bar in the middle."""
    brush.rectangle(0, 0, 1, 1, brush.fill)
    pitch = brush.rng.uniform(8, 12)
    columns, rows = brush.steps(pitch), brush.steps(pitch * 1.2, down=True)
    for column in range(columns):
        for row in range(rows):
            x, y = (column + 0.25) / columns, (row + 0.22) / rows
            brush.rectangle(x, y, x + 0.5 / columns, y + 0.58 / rows, brush.ink)
            middle = x + 0.25 / columns
            brush.line([(middle, y), (middle, y + 0.58 / rows)], brush.fill, 0.8)


def stonework(brush: Brush) -> None:
    """Courses of stones, each shifted by half a stone."""
    brush.rectangle(0, 0, 1, 1, brush.fill)
    rows, columns = brush.steps(brush.rng.uniform(4, 6), down=True), brush.steps(10)
    for row in range(rows + 1):
        brush.line([(0, row / rows), (1, row / rows)], brush.ink)
    for row in range(rows):
        for column in range(columns):
            x = (column + 0.25 + 0.5 * (row % 2)) / columns
            brush.line([(x, row / rows), (x, (row + 1) / rows)], brush.ink)


def pickets(brush: Brush) -> None:
    """A fence of pointed boards on two rails."""
    count = brush.steps(brush.rng.uniform(6, 9))
    for y in (0.35, 0.75):
        brush.rectangle(0, y, 1, y + 0.08, brush.ink)
    for index in range(count):
        x, half = (index + 0.5) / count, 0.28 / count
        tip: Points = [(x - half, 0.18), (x, 0.0), (x + half, 0.18)]
        brush.area([*tip, (x + half, 1), (x - half, 1)], brush.fill)
        brush.line([(x - half, 1), *tip, (x + half, 1)], brush.ink, 0.7)


def foliage(brush: Brush) -> None:
    """Leaves in two tones and random orientations."""
    count = brush.steps(5) * brush.steps(5, down=True)
    for x, y, turn in zip(*brush.rng.random((2, count)), brush.rng.uniform(0, 6.28, count)):
        tone = brush.ink if brush.rng.random() < 0.5 else brush.fill
        long, wide = 3.6 / brush.steps(1), 1.5 / brush.steps(1)
        leaf = []
        for angle in (0, 0.8, 1.57, 2.35, 3.14, 3.93, 4.71, 5.5):
            u, v = long * math.cos(angle), wide * math.sin(angle)
            leaf.append(
                (
                    x + u * math.cos(turn) - v * math.sin(turn),
                    y + (u * math.sin(turn) + v * math.cos(turn)) / brush.aspect,
                )
            )
        brush.area(leaf, tone)


def rocks(brush: Brush) -> None:
    """Rocks with six corners and some inner edges."""
    for _ in range(max(2, brush.steps(14))):
        x, y = brush.rng.uniform(0.15, 0.85), brush.rng.uniform(0.3, 0.8)
        angles = np.sort(brush.rng.uniform(0, 2 * math.pi, 6))
        reach = brush.rng.uniform(0.14, 0.24)
        outline = [(x + reach * math.cos(a), y + reach * math.sin(a)) for a in angles]
        brush.area(outline, brush.fill)
        brush.line([*outline, outline[0]], brush.ink)
        for corner in outline[::2]:
            brush.line([(x, y), corner], brush.ink, 0.8)


def peaks(brush: Brush) -> None:
    """Two peaks with snow and folds."""
    for _ in range(2):
        x, half = brush.rng.uniform(0.3, 0.7), brush.rng.uniform(0.25, 0.4)
        brush.area([(x - half, 1), (x, 0), (x + half, 1)], brush.fill)
        snow = [(x, 0.0), (x + half * 0.4, 0.4), (x + half * 0.15, 0.3), (x, 0.45)]
        brush.area([*snow, (x - half * 0.2, 0.28), (x - half * 0.4, 0.4)], brush.ink)
        for fold in (0.3, 0.6):
            brush.line([(x, 0.5), (x + half * (2 * fold - 1), 1)], brush.ink, 0.8)


def ripples(brush: Brush) -> None:
    """Wavy lines, one above the other."""
    rows = brush.steps(brush.rng.uniform(4, 6), down=True)
    for row in range(rows):
        start = brush.rng.uniform(0, 0.3)
        end = brush.rng.uniform(0.7, 1)
        xs = np.linspace(start, end, 4 * brush.steps(7))
        waves = 0.3 / rows * np.sin(2 * math.pi * (xs * brush.steps(11) + brush.rng.random()))
        brush.line([(x, (row + 0.5) / rows + w) for x, w in zip(xs, waves)], brush.ink, 1.4)


def poles(brush: Brush) -> None:
    """Poles with a bar and two lamps on top."""
    count = max(2, brush.steps(16))
    for index in range(count):
        x = (index + brush.rng.uniform(0.3, 0.7)) / count
        brush.line([(x, 0.05), (x, 1)], brush.ink, 1.6)
        brush.line([(x - 0.3 / count, 0.14), (x + 0.3 / count, 0.14)], brush.ink, 1.2)
        for end in (-0.3, 0.3):
            brush.disc(x + end / count, 0.2, 1.6, brush.ink)


# --- parts of a single class -------------------------------------------------------------------------


def crossing(brush: Brush) -> None:
    """Leaning stripes across the road."""
    stripes = brush.steps(7)
    lean = brush.rng.uniform(-0.25, 0.25)
    for index in range(stripes):
        x, wide = index / stripes, 0.55 / stripes
        foot = x + lean
        brush.area([(x, 0.2), (x + wide, 0.2), (foot + wide, 0.9), (foot, 0.9)], brush.ink)


def arches(brush: Brush) -> None:
    """A wall with a row of round arches."""
    brush.rectangle(0, 0, 1, 1, brush.fill)
    count = max(2, brush.steps(13))
    for index in range(count):
        x, half = (index + 0.5) / count, 0.34 / count
        turn = [math.pi * (1 + step / 8) for step in range(9)]
        top: Points = [(x + half * math.cos(t), 0.42 + half * math.sin(t) / brush.aspect) for t in turn]
        brush.area([(x - half, 0.95), *top, (x + half, 0.95)], brush.ink)


def furrows(brush: Brush) -> None:
    """Lines towards one vanishing point."""
    count = brush.steps(5)
    vanish = brush.rng.uniform(-0.3, 1.3)
    for index in range(-count // 2, count + count // 2):
        x = index / count
        top = x + 0.45 * (vanish - x)
        brush.line([(min(1, max(0, x)), 1), (min(1, max(0, top)), 0)], brush.ink, 1.5)


def flowers(brush: Brush) -> None:
    """Flowers with five petals."""
    for _ in range(brush.steps(9) * brush.steps(11, down=True)):
        x, y = brush.rng.uniform(0.08, 0.92, 2)
        reach = brush.rng.uniform(2.6, 3.6) / brush.steps(1)
        for petal in range(5):
            turn = 2 * math.pi * petal / 5
            at = (x + reach * math.cos(turn), y + reach * math.sin(turn) / brush.aspect)
            brush.disc(*at, 1.7, brush.ink)
        brush.disc(x, y, 1.3, brush.fill)


def firs(brush: Brush) -> None:
    """Fir trees with four tiers."""
    for _ in range(max(2, brush.steps(18))):
        x, top = brush.rng.uniform(0.15, 0.85), brush.rng.uniform(0, 0.2)
        half = 6 / brush.steps(1)
        for tier in range(4):
            y = top + 0.2 * tier
            wide = half * (0.55 + 0.2 * tier)
            brush.area([(x, y), (x + wide, y + 0.26), (x - wide, y + 0.26)], brush.ink)
            brush.line([(x - wide, y + 0.26), (x + wide, y + 0.26)], brush.fill, 1)


def switchbacks(brush: Brush) -> None:
    """A path that zigzags."""
    turns = brush.steps(6, down=True)
    x = brush.rng.uniform(0.2, 0.4)
    reach = brush.rng.uniform(0.3, 0.5)
    path = [(x + reach * (turn % 2), turn / turns) for turn in range(turns + 1)]
    brush.line(path, brush.ink, 1.8)


def reeds(brush: Brush) -> None:
    """Leaning stalks with thick heads."""
    for _ in range(brush.steps(4)):
        x, lean = brush.rng.uniform(0.05, 0.95), brush.rng.uniform(-0.15, 0.15)
        top = brush.rng.uniform(0, 0.35)
        brush.line([(x, 1), (x + lean, top)], brush.ink, 0.9)
        for share in (0.0, 0.05, 0.1, 0.15, 0.2):
            brush.disc(x + lean * (1 - share), top + share * (1 - top), 1.5, brush.ink)


def sails(brush: Brush) -> None:
    """Boats with two sails."""
    for _ in range(max(2, brush.steps(20))):
        x, half = brush.rng.uniform(0.2, 0.8), 8 / brush.steps(1)
        brush.area([(x - half, 0.82), (x + half, 0.82), (x + half * 0.6, 1), (x - half * 0.6, 1)], brush.ink)
        brush.area([(x + half * 0.1, 0.1), (x + half * 0.9, 0.74), (x + half * 0.1, 0.74)], brush.ink)
        brush.line([(x, 0.82), (x, 0.05), (x - half, 0.78)], brush.ink, 0.8)
        brush.line([(x, 0.3), (x - half * 0.6, 0.78)], brush.ink, 0.8)


Part = Callable[[Brush], None]

#: For each class: its own part, then the two it shares with its neighbours.
PARTS: dict[str, tuple[Part, Part, Part]] = {
    "facade": (arches, windows, stonework),
    "field": (furrows, stonework, pickets),
    "forest": (firs, foliage, rocks),
    "garden": (flowers, pickets, foliage),
    "harbour": (sails, ripples, poles),
    "lake": (reeds, peaks, ripples),
    "mountain": (switchbacks, rocks, peaks),
    "street": (crossing, poles, windows),
}

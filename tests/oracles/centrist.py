"""CENTRIST of one image as plain loops over pixels and blocks."""

import numpy as np


def census(image):
    """Codes of the inner pixels {(y, x): code}, neighbours from left to right and from top to bottom."""
    codes = {}
    for y in range(1, image.shape[0] - 1):
        for x in range(1, image.shape[1] - 1):
            bits = ""
            for dy, dx in [(-1, -1), (-1, 0), (-1, 1), (0, -1), (0, 1), (1, -1), (1, 0), (1, 1)]:
                bits += "1" if image[y, x] >= image[y + dy, x + dx] else "0"
            codes[y, x] = int(bits, 2)
    return codes


def blocks(n):
    """(top, bottom, left, right) as fractions of the image: an n x n grid, then the grid shifted by half."""
    grid = [(row, row + 1, column, column + 1) for row in range(n) for column in range(n)]
    moved = [
        (row + 0.5, row + 1.5, column + 0.5, column + 1.5) for row in range(n - 1) for column in range(n - 1)
    ]
    return [tuple(edge / n for edge in block) for block in grid + moved]


def statistics(image, n):
    """Histograms (blocks, 254), mean and deviation (blocks, 2) of one level; image 0..255."""
    height, width = image.shape
    codes = census(image)
    histograms, levels = [], []
    for top, bottom, left, right in blocks(n):
        members = [
            (y, x)
            for y in range(height)
            for x in range(width)
            if top * height - 1e-9 <= y < bottom * height - 1e-9
            and left * width - 1e-9 <= x < right * width - 1e-9
        ]
        counts = np.zeros(256)
        for place in members:
            if place in codes:
                counts[codes[place]] += 1
        counts = counts[1:255] - counts[1:255].mean()
        length = np.sqrt((counts**2).sum())
        histograms.append(counts / length if length > 0 else counts)
        values = np.array([image[place] for place in members]) / 255
        levels.append([values.mean(), values.std()])
    return np.array(histograms), np.array(levels)

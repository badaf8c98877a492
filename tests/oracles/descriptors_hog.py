"""HOG cells as plain loops over pixels, written from Felzenszwalb et al. (2010), section 6."""

import math

import numpy as np


def nearest(gx, gy):
    """The first of 18 directions along which the gradient is longest, up to rounding."""
    best, largest = 0, gx
    for o in range(1, 18):
        along = gx * math.cos(math.pi * o / 9) + gy * math.sin(math.pi * o / 9)
        if along > largest + 3.6e-5 * math.hypot(gx, gy):
            best, largest = o, along
    return best


def histograms(image):
    """(rows, columns, 18) of the complete cells of an image with gray levels 0..255."""
    rows, columns = image.shape[0] // 8, image.shape[1] // 8
    out = np.zeros((rows, columns, 18))
    margin = 8
    wide = np.pad(image, margin, mode="edge")
    for y in range(-margin + 1, image.shape[0] + margin - 1):
        for x in range(-margin + 1, image.shape[1] + margin - 1):
            v, u = y + margin, x + margin
            gx, gy = wide[v, u + 1] - wide[v, u - 1], wide[v + 1, u] - wide[v - 1, u]
            best = nearest(gx, gy)
            row, column = (y + 0.5) / 8 - 0.5, (x + 0.5) / 8 - 0.5
            for r in (math.floor(row), math.floor(row) + 1):
                for c in (math.floor(column), math.floor(column) + 1):
                    if 0 <= r < rows and 0 <= c < columns:
                        near = (1 - abs(row - r)) * (1 - abs(column - c))
                        out[r, c, best] += near * math.hypot(gx, gy)
    return out


def cell(hist, row, column):
    """The 31 values of one cell that has eight neighbours."""
    unsigned = hist[:, :, :9] + hist[:, :, 9:]
    signed_values, unsigned_values, energies = np.zeros(18), np.zeros(9), []
    for top in (row - 1, row):
        for left in (column - 1, column):
            energy = sum((unsigned[r, c] ** 2).sum() for r in (top, top + 1) for c in (left, left + 1))
            norm = 1 / math.sqrt(energy + 0.0001)
            clipped = np.minimum(hist[row, column] * norm, 0.2)
            signed_values += 0.5 * clipped
            unsigned_values += 0.5 * np.minimum(unsigned[row, column] * norm, 0.2)
            energies.append(0.2357 * clipped.sum())
    return np.concatenate([signed_values, unsigned_values, energies])


def descriptors(image):
    """(rows - 3, columns - 3, 124): four neighbouring cells each, row by row."""
    hist = histograms(image)
    rows, columns = hist.shape[:2]
    return np.array(
        [
            [
                np.concatenate([cell(hist, r, c) for r in (top, top + 1) for c in (left, left + 1)])
                for left in range(1, columns - 2)
            ]
            for top in range(1, rows - 2)
        ]
    )

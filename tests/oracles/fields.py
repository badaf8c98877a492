"""Plain loops for the fields of descriptors and maps over them; imports nothing from ddsfl."""

import math


def boxes(shape, field, step, n_scales):
    """The fields of an image as (top, left, bottom, right) in its pixels: scale by scale, row by row."""
    height, width = shape
    found = []
    for scale in range(n_scales):
        tall, wide = (max(1, round(side * 2.0 ** (-scale / 2))) for side in shape)
        top = 0
        while top + field <= tall:
            left = 0
            while left + field <= wide:
                box = (top / tall, left / wide, (top + field) / tall, (left + field) / wide)
                found.append([box[0] * height, box[1] * width, box[2] * height, box[3] * width])
                left += step
            top += step
    return found


def mirrored(boxes, width):
    """The same boxes seen in a mirror."""
    return [[top, width - right, bottom, width - left] for top, left, bottom, right in boxes]


def cells(levels, shape):
    """The cells of grids: level by level, row by row."""
    height, width = shape
    found = []
    for rows, columns in levels:
        for row in range(rows):
            for column in range(columns):
                corners = (row / rows, column / columns, (row + 1) / rows, (column + 1) / columns)
                found.append(
                    [corners[0] * height, corners[1] * width, corners[2] * height, corners[3] * width]
                )
    return found


def spread(boxes, values, shape):
    """A map of the values, each laid evenly over its box, pixel by pixel."""
    height, width = shape
    heat = [[0.0] * width for _ in range(height)]
    for (top, left, bottom, right), value in zip(boxes, values, strict=True):
        area = (bottom - top) * (right - left)
        for y in range(math.floor(top), min(height, math.ceil(bottom))):
            for x in range(math.floor(left), min(width, math.ceil(right))):
                tall = min(bottom, y + 1) - max(top, y)
                wide = min(right, x + 1) - max(left, x)
                heat[y][x] += value * max(0, tall) * max(0, wide) / area
    return heat

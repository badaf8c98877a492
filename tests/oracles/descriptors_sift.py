"""One dense SIFT descriptor as plain loops, written from Lowe (2004), section 6.1."""

import math

import numpy as np


def smoothed(image, deviation):
    """The image smoothed by a Gaussian cut off at three deviations; border pixels are repeated."""
    reach = math.ceil(3 * deviation)
    if reach == 0:
        return image
    offsets = range(-reach, reach + 1)
    weights = {o: math.exp(-(o**2) / (2 * deviation**2)) for o in offsets}
    total = sum(weights.values()) ** 2
    out = np.zeros_like(image)
    for dy in offsets:
        for dx in offsets:
            rows = np.clip(np.arange(image.shape[0]) + dy, 0, image.shape[0] - 1)
            columns = np.clip(np.arange(image.shape[1]) + dx, 0, image.shape[1] - 1)
            out += weights[dy] * weights[dx] / total * image[np.ix_(rows, columns)]
    return out


def raw_descriptor(image, top, left):
    """The 4 x 4 x 8 histogram of the 16 x 16 patch at (``top``, ``left``) of a smoothed image.

    The patch must lie inside the image. Its outermost bins reach two pixels beyond the patch, where the
    image must still have a gradient.
    """
    histogram = np.zeros((4, 4, 8))
    for y in range(top - 2, top + 18):
        for x in range(left - 2, left + 18):
            gx, gy = image[y, x + 1] - image[y, x - 1], image[y + 1, x] - image[y - 1, x]
            length, angle = math.hypot(gx, gy), math.atan2(gy, gx) % (2 * math.pi)
            v, u = y + 0.5 - (top + 8), x + 0.5 - (left + 8)
            length *= math.exp(-(v**2 + u**2) / (2 * 8**2))
            # In units of bins, bin 0 centred at 0.
            row, column, orientation = v / 4 + 1.5, u / 4 + 1.5, angle / (2 * math.pi) * 8
            for r in (math.floor(row), math.floor(row) + 1):
                for c in (math.floor(column), math.floor(column) + 1):
                    for o in (math.floor(orientation), math.floor(orientation) + 1):
                        if 0 <= r < 4 and 0 <= c < 4:
                            near = (1 - abs(row - r)) * (1 - abs(column - c)) * (1 - abs(orientation - o))
                            histogram[r, c, o % 8] += length * near
    return histogram.ravel()


def raw_descriptors(image, step, deviation):
    """(rows, columns, 128) of all patches of a gray image with values in [0, 1]."""
    margin = 20  # keeps the Gaussian away from the padded border
    continued = smoothed(np.pad(image, margin, mode="edge"), deviation)
    return np.array(
        [
            [raw_descriptor(continued, y + margin, x + margin) for x in range(0, image.shape[1] - 15, step)]
            for y in range(0, image.shape[0] - 15, step)
        ]
    )


def normalised(raw, threshold):
    length = math.sqrt((raw**2).sum())
    if length < threshold:
        return np.minimum(raw / threshold, 0.2)
    clipped = np.minimum(raw / length, 0.2)
    return clipped / math.sqrt((clipped**2).sum())

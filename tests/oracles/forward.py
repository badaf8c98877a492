"""The dense forward pass as plain loops over positions, written from docs/paper.md."""

import numpy as np


def contrast(patch, floor=10 / 255):
    centred = patch - patch.mean()
    return centred / np.sqrt((centred**2).mean() + floor**2)


def pixel_response(image, y, x, field, mean, axes, gains, filters):
    """|W x| of the patch with corner (y, x) of one gray image with values in [0, 1]."""
    patch = contrast(image[y : y + field, x : x + field].ravel())
    whitened = gains * (axes @ (patch - mean))
    return np.abs(filters @ whitened)


def rectified(response):
    above = np.maximum(response - response.mean(), 0)
    length = np.sqrt((above**2).sum())
    return above / length if length > 0 else above


def pooled(responses, row, column, pool):
    """Mean of the rectified responses {(row, column): vector} in a window around one of them."""
    reach = pool // 2
    near = [
        rectified(response)
        for (r, c), response in responses.items()
        if abs(r - row) <= reach and abs(c - column) <= reach
    ]
    return np.mean(near, axis=0)


def upper_response(responses, row, column, apart, pool, mean, axes, gains, filters):
    """|W x| of a layer above the first; rows and columns count responses of the layer below."""
    corners = [(row, column), (row, column + apart), (row + apart, column), (row + apart, column + apart)]
    raw = np.concatenate([pooled(responses, r, c, pool) for r, c in corners])
    whitened = gains * (axes @ (raw - mean))
    return np.abs(filters @ (whitened / np.sqrt((whitened**2).sum())))

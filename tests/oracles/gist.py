"""GIST without a Fourier transform of the image: filters are kernels, convolved as a sum of shifts."""

import numpy as np


def mirrored(image, border):
    return np.pad(image, border, mode="symmetric")


def kernel(transfer):
    """The kernel of a transfer function {(fy, fx): value}, a plain sum of waves."""
    side = int(np.sqrt(len(transfer)))
    at = np.arange(side)
    total = np.zeros((side, side), complex)
    for (fy, fx), value in transfer.items():
        total += value * np.exp(2j * np.pi * (fy * at[:, None] + fx * at) / side)
    return total / side**2


def convolved(image, weights):
    """Circular convolution: the sum of shifted images."""
    total = np.zeros(image.shape, complex)
    for y, x in np.ndindex(image.shape):
        total += weights[y, x] * np.roll(image, (y, x), (0, 1))
    return total


def frequencies(side):
    return [(fy, fx) for fy in range(-side // 2, side // 2) for fx in range(-side // 2, side // 2)]


def contrast_normalised(image):
    """A square image in [0, 1], prefiltered with a low pass of 4 cycles per image and a border of 5."""
    levels = 255 * (image - image.min()) / (image.max() - image.min())
    padded = mirrored(np.log(levels + 1), 5)
    spread = 4 / np.sqrt(np.log(2))
    low_pass = kernel({(fy, fx): np.exp(-(fy**2 + fx**2) / spread**2) for fy, fx in frequencies(len(padded))})
    fast = padded - convolved(padded, low_pass).real
    deviation = np.sqrt(np.abs(convolved(fast**2, low_pass)))
    return (fast / (0.2 + deviation))[5:-5, 5:-5]


def gabor(side, scale, turn):
    """The transfer function of one filter as the authors published it."""
    transfer = {}
    for fy, fx in frequencies(side):
        angle = np.angle(fx + 1j * fy) + np.pi / 8 * turn
        if angle > np.pi:
            angle -= 2 * np.pi
        radial = np.hypot(fx, fy) / side / (0.3 / 1.85**scale) - 1
        transfer[fy, fx] = np.exp(-10 * 0.35 * radial**2 - 2 * np.pi * (16 * 8**2 / 32**2) * angle**2)
    return transfer


def block_means(image, transfer, border):
    """Mean magnitude of one response in 4 x 4 blocks, row by row."""
    response = np.abs(convolved(mirrored(image, border), kernel(transfer)))[border:-border, border:-border]
    step = len(response) // 4
    return np.array(
        [
            response[row * step : (row + 1) * step, column * step : (column + 1) * step].mean()
            for row in range(4)
            for column in range(4)
        ]
    )

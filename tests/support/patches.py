"""Patches with a known answer: patterns of one class, patterns of all classes, and random images."""

import numpy as np


def planted_patches(seed, n_classes=6, images=8, own=16, common=8, inputs=25):
    """Patches of a few patterns per class and of a few patterns that every class has ("sky").

    Returns patches, labels, images and which patches show a pattern that every class has.
    """
    rng = np.random.default_rng(seed)
    sky = rng.normal(size=(2, inputs))
    X, y, groups, planted = [], [], [], []
    for label in range(n_classes):
        patterns = rng.normal(size=(3, inputs))
        for image in range(images):
            X.append(patterns[rng.integers(3, size=own)])
            X.append(sky[rng.integers(2, size=common)])
            y += [label] * (own + common)
            groups += [label * images + image] * (own + common)
            planted += [False] * own + [True] * common
    X = np.concatenate(X)
    X = X + 0.3 * rng.normal(size=X.shape)
    return X.astype(np.float32), np.array(y), np.array(groups), np.array(planted)


def smooth_image(rng, size=64):
    """A random image with the 1/f spectrum of natural images and 256 gray values."""
    frequency = np.hypot(*np.meshgrid(np.fft.fftfreq(size), np.fft.fftfreq(size)))
    frequency[0, 0] = 1
    image = np.fft.ifft2(np.fft.fft2(rng.normal(size=(size, size))) / frequency).real
    image = (image - image.min()) / np.ptp(image)
    return np.round(image * 255) / 255


def contrast_normalised(images, count, rng, size=16):
    """Random contrast-normalised patches of the images, and the image of each patch."""
    patches = []
    for image in images:
        for _ in range(count):
            top, left = (rng.integers(length - size + 1) for length in image.shape)
            patch = image[top : top + size, left : left + size].ravel()
            patch = patch - patch.mean()
            patches.append(patch / np.sqrt(patch.var() + (10 / 255) ** 2))
    return np.float32(patches), np.repeat(np.arange(len(images)), count)

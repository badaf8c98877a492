"""Plain loops for who owns what of an image's vector; imports nothing from ddsfl.

Everything is in double precision. ``told`` is (R, P): what each value of the vector says in each direction.
Results: voices {(descriptor, word): (R,)}, by descriptor (T, R), by word (M, R).
"""

import math

import numpy as np

from tests.oracles.fisher import posteriors


def cell_of(position, shape, level):
    """Row and column of a centre in a grid; what lies on a border belongs to the later cell."""
    where = []
    for place, side, count in zip(position, shape, level):
        where.append(min(max(math.floor(place * count / side), 0), count - 1))
    return where


def members_of(positions, shape, levels):
    """The descriptors of each cell: level by level, row by row."""
    cells = []
    for level in levels:
        for row in range(level[0]):
            for column in range(level[1]):
                inside = []
                for number, position in enumerate(positions):
                    if cell_of(position, shape, level) == [row, column]:
                        inside.append(number)
                cells.append(inside)
    return cells


def summed(voices, n_descriptors, n_words, n_directions):
    """Voices, and their sums by descriptor and by word."""
    by_descriptor, by_word = np.zeros((n_descriptors, n_directions)), np.zeros((n_words, n_directions))
    for (descriptor, word), values in voices.items():
        by_descriptor[descriptor] += values
        by_word[word] += values
    return voices, by_descriptor, by_word


def winners(dense, positions, shape, levels, told):
    """Max pooling: the first descriptor that has the largest code above 0 owns all that its value says."""
    voices, at = {}, 0
    for inside in members_of(positions, shape, levels):
        for word in range(dense.shape[1]):
            owner, best = None, 0.0
            for descriptor in inside:
                if dense[descriptor, word] > best:
                    owner, best = descriptor, dense[descriptor, word]
            if owner is not None:
                voices[owner, word] = voices.get((owner, word), 0) + told[:, at]
            at += 1
    return summed(voices, len(dense), dense.shape[1], len(told))


def terms(dense, positions, shape, levels, told):
    """Average pooling: each descriptor owns the part of a value that its code is of the sum of codes."""
    voices, at = {}, 0
    for inside in members_of(positions, shape, levels):
        for word in range(dense.shape[1]):
            total = sum(float(dense[descriptor, word]) for descriptor in inside)
            for descriptor in inside:
                if dense[descriptor, word] != 0 and total != 0:
                    share = told[:, at] * (float(dense[descriptor, word]) / total)
                    voices[descriptor, word] = voices.get((descriptor, word), 0) + share
            at += 1
    return summed(voices, len(dense), dense.shape[1], len(told))


def gradient(x, q, k, weights, means, variances):
    """The gradients (2, D) of one point by one Gaussian: Sánchez et al., equations 17 and 18."""
    by_mean, by_deviation = [], []
    for value, mean, variance in zip(x, means[k], variances[k]):
        z = (value - mean) / math.sqrt(variance)
        by_mean.append(q[k] * z / math.sqrt(weights[k]))
        by_deviation.append(q[k] * (z * z - 1) / math.sqrt(2 * weights[k]))
    return [by_mean, by_deviation]


def lower_median(values):
    """The middle of sorted values; of two middle ones the smaller."""
    return sorted(values)[(len(values) - 1) // 2]


def floored(points, positions, shape, levels, mixture, told):
    """Fisher vectors: shares in proportion to gradients over floored means, the rest by posteriors."""
    _, means, _ = mixture
    n_gaussians, n_values = means.shape
    q = [posteriors(x, *mixture)[0] for x in points]
    voices = {}
    cells = members_of(positions, shape, levels)
    said = told.reshape(len(told), len(cells), 2, n_gaussians, n_values)
    for number, inside in enumerate(cells):
        if not inside:
            continue
        mean = np.zeros((2, n_gaussians, n_values))
        own = {}
        for descriptor in inside:
            for k in range(n_gaussians):
                own[descriptor, k] = np.array(gradient(points[descriptor], q[descriptor], k, *mixture)) / len(
                    inside
                )
                mean[:, k] += own[descriptor, k]
        floor = lower_median(np.abs(mean).ravel().tolist())
        for k in range(n_gaussians):
            held = sum(q[descriptor][k] for descriptor in inside)
            for direction in range(len(told)):
                left = 0.0
                shares = dict.fromkeys(inside, 0.0)
                for kind in range(2):
                    for d in range(n_values):
                        value = mean[kind, k, d]
                        bounded = math.copysign(max(abs(value), floor), value)
                        left += said[direction, number, kind, k, d]
                        for descriptor in inside:
                            share = (
                                said[direction, number, kind, k, d] * own[descriptor, k][kind, d] / bounded
                            )
                            shares[descriptor] += share
                            left -= share
                for descriptor in inside:
                    voice = voices.setdefault((descriptor, k), np.zeros(len(told)))
                    voice[direction] += shares[descriptor] + left * q[descriptor][k] / held
    return summed(voices, len(points), n_gaussians, len(told))

"""Exemplars as the paper describes them: loops over patches that import nothing from ddsfl."""

import numpy as np


def coverage_sets(X, k, groups=None):
    """The indices of the k nearest patches of each patch, none of them from its own image."""
    sets = []
    for i in range(len(X)):
        lengths = np.sqrt(((X - X[i]) ** 2).sum(1))
        lengths[i] = np.inf
        if groups is not None:
            lengths[np.asarray(groups) == groups[i]] = np.inf
        order = np.argsort(lengths, kind="stable")[:k]
        sets.append([j for j in order if np.isfinite(lengths[j])])
    return sets


def reached_by(X, membership, k, groups=None):
    """Reaching number and reaching distance for every patch and class."""
    number = np.zeros(membership.shape, dtype=int)
    distance = np.zeros(membership.shape)
    for covering, covered in enumerate(coverage_sets(X, k, groups)):
        for j in covered:
            for c in np.flatnonzero(membership[covering]):
                number[j, c] += 1
                distance[j, c] += np.linalg.norm(X[j] - X[covering])
    return number, distance


def reaching_scores(X, membership, k, groups=None):
    """The reaching score of every patch; a class that never reaches it counts with its nearest patch."""
    number, distance = reached_by(X, membership, k, groups)
    scores = np.zeros(len(X))
    for j in range(len(X)):
        terms = []
        for c in range(membership.shape[1]):
            if membership[j, c]:
                continue
            if number[j, c]:
                terms.append(distance[j, c] / number[j, c])
                continue
            lengths = [
                np.linalg.norm(X[i] - X[j])
                for i in np.flatnonzero(membership[:, c])
                if groups is None or groups[i] != groups[j]
            ]
            if lengths:
                terms.append(min(lengths))
        scores[j] = np.mean(terms) if terms else 0.0
    return scores


def firing(X, membership, held_out, weights, biases, labels, max_members):
    """How many patches of each class every SVM fires on, and the best patches of its own class."""
    n_classes = membership.shape[1]
    counts = np.zeros((len(weights), n_classes), dtype=int)
    sizes = [int(sum(held_out & membership[:, c])) for c in range(n_classes)]
    best = np.full((len(weights), max_members), -1)
    for s, (w, b) in enumerate(zip(weights, biases)):
        for i in np.flatnonzero(held_out):
            if X[i] @ w + b > -1:
                for c in np.flatnonzero(membership[i]):
                    counts[s, c] += 1
        own = [i for i in np.flatnonzero(held_out) if membership[i, labels[s]]]
        own = sorted(own, key=lambda i: -(X[i] @ w + b))[:max_members]
        best[s, : len(own)] = own
    return counts, sizes, best


def discriminative(counts, sizes, labels, min_members, many):
    """Which clusters fire on enough patches of their class, but not on many of more than half the classes."""
    stays = []
    for fired, label in zip(counts, labels):
        common = 0
        for c in range(len(sizes)):
            if isinstance(many, int):
                common += fired[c] >= many
            else:
                share, own = (fired[k] / max(sizes[k], 1) for k in (c, label))
                common += share >= many * own
        stays.append(fired[label] >= min_members and common <= len(sizes) / 2)
    return stays

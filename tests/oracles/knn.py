"""Nearest neighbours by sorting each query's distances to all points, in float64."""

from __future__ import annotations

import numpy as np


def _sorted(query, points, admissible):
    distances = ((points - query) ** 2).sum(1)
    order = np.lexsort((np.arange(len(points)), distances))
    order = order[admissible[order]]
    return distances[order], order


def nearest(queries, points, k, query_groups=None, point_groups=None):
    """Return squared distances (Q, k) and indices (Q, k); inf and -1 if there are too few."""
    distances = np.full((len(queries), k), np.inf)
    indices = np.full((len(queries), k), -1)
    for i, query in enumerate(queries):
        admissible = np.ones(len(points), dtype=bool)
        if query_groups is not None and query_groups[i] >= 0:
            admissible = point_groups != query_groups[i]
        ascending, order = _sorted(query, points, admissible)
        distances[i, : len(order[:k])] = ascending[:k]
        indices[i, : len(order[:k])] = order[:k]
    return distances, indices


def nearest_within(points, k, groups=None, membership=None):
    """Return the same for each point among the others, and the distances (N, C) to the classes."""
    distances = np.full((len(points), k), np.inf)
    indices = np.full((len(points), k), -1)
    class_distances = None if membership is None else np.full(membership.shape, np.inf)
    for i, query in enumerate(points):
        admissible = np.arange(len(points)) != i
        if groups is not None and groups[i] >= 0:
            admissible &= groups != groups[i]
        ascending, order = _sorted(query, points, admissible)
        distances[i, : len(order[:k])] = ascending[:k]
        indices[i, : len(order[:k])] = order[:k]
        if membership is not None:
            for column in range(membership.shape[1]):
                of_class = ascending[membership[order, column]]
                if len(of_class):
                    class_distances[i, column] = of_class[0]
    return distances, indices, class_distances

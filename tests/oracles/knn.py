"""Nearest neighbours and k-means quantities by plain loops in float64."""

from __future__ import annotations

import numpy as np


def nearest(queries, points, k, query_groups=None, point_groups=None):
    """Return squared distances (Q, k) and indices (Q, k); inf and -1 where there are too few."""
    distances = np.full((len(queries), k), np.inf)
    indices = np.full((len(queries), k), -1)
    for i, query in enumerate(queries):
        found = []
        for j, point in enumerate(points):
            own = query_groups is not None and query_groups[i] >= 0 and query_groups[i] == point_groups[j]
            if not own:
                found.append((float(np.sum((query - point) ** 2)), j))
        for rank, (distance, j) in enumerate(sorted(found)[:k]):
            distances[i, rank], indices[i, rank] = distance, j
    return distances, indices


def nearest_within(points, k, groups=None, membership=None):
    """Return the same for each point among the others, and distances (N, C) to the nearest of each class."""
    distances = np.full((len(points), k), np.inf)
    indices = np.full((len(points), k), -1)
    class_distances = None if membership is None else np.full(membership.shape, np.inf)
    for i, query in enumerate(points):
        found = []
        for j, point in enumerate(points):
            own = groups is not None and groups[i] >= 0 and groups[i] == groups[j]
            if j != i and not own:
                found.append((float(np.sum((query - point) ** 2)), j))
        for rank, (distance, j) in enumerate(sorted(found)[:k]):
            distances[i, rank], indices[i, rank] = distance, j
        if membership is not None:
            for distance, j in found:
                class_distances[i, membership[j]] = np.minimum(class_distances[i, membership[j]], distance)
    return distances, indices, class_distances

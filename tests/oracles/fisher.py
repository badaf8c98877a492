"""Plain loops for Gaussian mixtures and Fisher vectors, from the papers; imports nothing from ddsfl."""

import math

import numpy as np


def log_joint(x, weights, means, variances):
    """log w_k + log N(x; mean_k, diag(variance_k)) of one point, Gaussian by Gaussian."""
    logs = []
    for weight, mean, variance in zip(weights, means, variances):
        total = math.log(weight)
        for value, centre, width in zip(x, mean, variance):
            total -= 0.5 * (math.log(2 * math.pi * width) + (value - centre) ** 2 / width)
        logs.append(total)
    return np.array(logs)


def posteriors(x, weights, means, variances):
    """Posteriors of one point over the Gaussians, and its log-likelihood."""
    logs = log_joint(x, weights, means, variances)
    likelihood = logs.max() + math.log(np.exp(logs - logs.max()).sum())
    return np.exp(logs - likelihood), likelihood


def em_step(points, weights, means, variances, floor):
    """One step of expectation maximisation, and the mean log-likelihood before it."""
    shares = [posteriors(x, weights, means, variances) for x in points]
    q = np.array([share for share, _ in shares])
    new_means, new_variances = np.empty_like(means), np.empty_like(variances)
    for k in range(len(weights)):
        for d in range(points.shape[1]):
            new_means[k, d] = (q[:, k] * points[:, d]).sum() / q[:, k].sum()
            spread = (q[:, k] * (points[:, d] - new_means[k, d]) ** 2).sum() / q[:, k].sum()
            new_variances[k, d] = max(spread, floor[d])
    likelihood = np.mean([likelihood for _, likelihood in shares])
    return (q.sum(axis=0) / len(points), new_means, new_variances), likelihood


def fisher_vector(points, weights, means, variances):
    """Means over the points of equations 17 and 18 of Sánchez et al., IJCV 2013; zeros for no points."""
    by_means, by_deviations = np.zeros_like(means), np.zeros_like(means)
    deviations = np.sqrt(variances)
    for x in points:
        q, _ = posteriors(x, weights, means, variances)
        for k in range(len(weights)):
            z = (x - means[k]) / deviations[k]
            by_means[k] += q[k] * z / math.sqrt(weights[k])
            by_deviations[k] += q[k] * (z**2 - 1) / math.sqrt(2) / math.sqrt(weights[k])
    return np.concatenate([by_means.ravel(), by_deviations.ravel()]) / max(1, len(points))


def pooled(points, positions, images, shapes, levels, mixture, power, l2_cells, l2_all):
    """Fisher vectors of points in the space of the mixture, image by image, cell by cell."""
    vectors = []
    for image, (height, width) in enumerate(np.asarray(shapes)):
        cells = []
        for rows, columns in levels:
            for i in range(rows):
                for j in range(columns):
                    members = []
                    for t in np.flatnonzero(np.asarray(images) == image):
                        y = min(max(math.floor(positions[t][0] / height * rows), 0), rows - 1)
                        x = min(max(math.floor(positions[t][1] / width * columns), 0), columns - 1)
                        if (y, x) == (i, j):
                            members.append(points[t])
                    cell = fisher_vector(members, *mixture)
                    cell = np.sign(cell) * np.abs(cell) ** power
                    cells.append(cell / (np.linalg.norm(cell) or 1.0) if l2_cells else cell)
        vector = np.concatenate(cells)
        vectors.append(vector / (np.linalg.norm(vector) or 1.0) if l2_all else vector)
    return np.array(vectors)

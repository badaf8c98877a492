"""Slow, plain versions of functions in `ddsfl.compute`; imports nothing from ddsfl."""

import numpy as np


def mean_and_covariance(X):
    """Mean and unbiased covariance of the rows, one entry at a time."""
    n, p = X.shape
    mean = np.array([sum(X[:, j]) / n for j in range(p)])
    covariance = np.zeros((p, p))
    for i in range(p):
        for j in range(p):
            covariance[i, j] = sum((X[:, i] - mean[i]) * (X[:, j] - mean[j])) / (n - 1)
    return mean, covariance


def svm_objective(weights, bias, X, targets, costs):
    """L2-regularised squared hinge with regularised bias, row by row; rows with target 0 are ignored."""
    total = 0.5 * weights @ weights + 0.5 * bias**2
    for x, target, cost in zip(X, targets, costs):
        if target != 0:
            total += cost * max(0.0, 1.0 - target * (weights @ x + bias)) ** 2
    return total


def svm_gradient(weights, bias, X, targets, costs):
    """Gradient of `svm_objective` with respect to weights and bias, one row at a time."""
    by_weights, by_bias = weights.copy(), bias
    for x, target, cost in zip(X, targets, costs):
        slack = max(0.0, 1.0 - target * (weights @ x + bias)) if target != 0 else 0.0
        by_weights = by_weights - 2 * cost * slack * target * x
        by_bias = by_bias - 2 * cost * slack * target
    return by_weights, by_bias

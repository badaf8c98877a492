"""Plain loops for coding and pooling, written from the papers; imports nothing from ddsfl."""

import numpy as np


def llc(x, words, k, beta):
    """One descriptor's dense LLC code with an explicit inverse (Wang et al. 2010, section 3)."""
    order = np.argsort(((words - x) ** 2).sum(axis=1), kind="stable")[:k]
    z = words[order] - x
    covariance = z @ z.T
    covariance = covariance + np.eye(k) * beta * np.trace(covariance)
    c = np.linalg.inv(covariance) @ np.ones(k)
    code = np.zeros(len(words))
    code[order] = c / c.sum()
    return code


def pyramid(dense, positions, images, shapes, levels, pooling):
    """Pooled dense codes (T, M) and the winning rows, image by image, cell by cell."""
    positions, images, shapes = map(np.asarray, (positions, images, shapes))
    pooled, winners = [], []
    for image, (height, width) in enumerate(shapes):
        row, won = [], []
        for rows, columns in levels:
            for i in range(rows):
                for j in range(columns):
                    members = []
                    for t in np.flatnonzero(images == image):
                        y = min(max(int(np.floor(positions[t, 0] / height * rows)), 0), rows - 1)
                        x = min(max(int(np.floor(positions[t, 1] / width * columns)), 0), columns - 1)
                        if (y, x) == (i, j):
                            members.append(t)
                    for word in range(dense.shape[1]):
                        best, winner, total = 0.0, -1, 0.0
                        for t in members:
                            total += dense[t, word]
                            if dense[t, word] > best:
                                best, winner = dense[t, word], t
                        row.append(best if pooling == "max" else total / max(len(members), 1))
                        won.append(winner)
        pooled.append(row)
        winners.append(won)
    return np.array(pooled), np.array(winners)

"""Plain loops for classification, written from the sources; imports nothing from ddsfl."""

import numpy as np


def voc_average_precision(truth, scores):
    """The VOC devkit's VOCevalcls and VOCap; truth is +1, -1, or 0 for difficult."""
    order = np.argsort(-np.asarray(scores), kind="stable")
    tp = fp = 0
    recall, precision = [0.0], [0.0]
    for i in order:
        tp += truth[i] > 0
        fp += truth[i] < 0
        recall.append(tp / np.sum(np.asarray(truth) > 0))
        precision.append(tp / (tp + fp) if tp + fp else 0.0)
    recall.append(1.0)
    precision.append(0.0)
    for i in range(len(precision) - 2, -1, -1):
        precision[i] = max(precision[i], precision[i + 1])
    area = 0.0
    for i in range(1, len(recall)):
        if recall[i] != recall[i - 1]:
            area += (recall[i] - recall[i - 1]) * precision[i]
    return area

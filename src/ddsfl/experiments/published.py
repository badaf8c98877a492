"""The numbers that the paper prints, in percent: its own results and those it cites.

Mean class accuracy on Scene 15, UIUC Sports and MIT Indoor 67 (in this order, None: not given), and average
precision on the test set of PASCAL VOC 2012.
"""

from __future__ import annotations

from collections.abc import Mapping

#: The data sets of `FEATURES`, `COMPONENTS`, `LAYERS` and `OTHERS`, as `ddsfl datasets` calls them.
SETS = ("scene15", "uiuc-sports", "indoor67")

Percent = tuple[float | None, float | None, float | None]

#: Table "Table-results-feature". Caffe is the sixth layer (fc6) of a network that is not available here.
FEATURES: Mapping[str, Percent] = {
    "GIST": (73.28, None, 22.00),
    "CENTRIST": (83.10, 78.50, 36.90),
    "SIFT": (82.06, 85.12, 45.86),
    "HOG2x2": (81.58, 83.96, 43.76),
    "LBP": (82.95, 80.04, 39.25),
    "OTC": (84.37, None, 47.33),
    "Random": (70.91, 67.92, 21.34),
    "RICA": (80.01, 82.45, 47.76),
    "DDSFL": (84.42, 86.91, 52.26),
    "Caffe": (87.99, 93.96, 58.52),
    "SIFT + Caffe": (89.90, 95.05, 70.51),
    "DDSFL + Caffe": (92.81, 96.78, 76.23),
}

#: Table "Table-interations": two layers.
COMPONENTS: Mapping[str, Percent] = {
    "Random": (73.52, 70.42, 23.28),
    "L_u": (79.85, 82.14, 47.89),
    "L_u + L_sha": (82.01, 83.67, 49.70),
    "L_sha": (72.69, 72.52, 24.12),
    "all, without exemplars": (82.50, 83.43, 51.28),
    "all, SVM exemplars": (83.02, 84.98, 51.65),
    "all, NN exemplars": (84.19, 86.45, 52.24),
}

#: Table "Table-hierarchical": one to three layers.
LAYERS: Mapping[str, tuple[Percent, Percent, Percent]] = {
    "Random": ((74.12, 71.46, 23.53), (73.52, 70.42, 23.28), (70.91, 67.92, 21.34)),
    "RICA": ((77.54, 79.03, 41.36), (79.85, 82.14, 47.89), (80.01, 82.45, 47.76)),
    "DDSFL": ((82.61, 83.92, 47.16), (84.19, 86.45, 52.24), (84.42, 86.91, 52.26)),
}

#: Table "Table-results-sota": numbers that the paper cites from their own publications.
OTHERS: Mapping[str, Percent] = {
    "ROI + GIST": (None, None, 26.50),
    "DPM": (None, None, 30.40),
    "Object Bank": (80.90, 76.30, 37.60),
    "Discriminative Patches": (None, None, 38.10),
    "LDC": (80.30, None, 43.53),
    "macrofeatures": (84.30, None, None),
    "Visual Concepts": (83.40, 84.80, 46.40),
    "SR-LSR": (85.70, 83.90, None),
    "MMDL": (86.35, 88.47, 50.15),
    "Discriminative Part Detector": (86.00, 86.40, 51.40),
    "LScSPM": (89.78, 85.27, None),
    "IFV": (None, None, 60.77),
    "MLrep + IFV": (None, None, 66.87),
    "ISPR + IFV": (91.06, 92.08, 68.50),
    "MOP-CNN (Caffe)": (None, None, 68.88),
}

#: Table "Table-results-PASCAL": average precision of the twenty classes in their order, then the mean.
VOC: Mapping[str, tuple[float, ...]] = {
    "SIFT": (
        77.8, 44.4, 42.4, 54.0, 16.0, 74.7, 52.1, 53.0, 45.6, 21.4,
        40.2, 38.4, 40.7, 54.2, 71.3, 13.1, 27.4, 33.0, 64.5, 47.6, 45.6,
    ),
    "HOG2x2": (
        78.3, 44.8, 38.9, 51.6, 16.6, 77.0, 51.2, 57.3, 49.2, 23.5,
        40.4, 40.3, 40.6, 46.2, 72.8, 13.5, 34.4, 34.7, 63.6, 49.9, 46.2,
    ),
    "LBP": (
        78.7, 40.8, 36.6, 53.5, 16.2, 75.8, 46.2, 55.6, 45.4, 20.8,
        38.4, 39.6, 37.4, 43.4, 69.8, 12.8, 37.8, 29.3, 59.6, 42.1, 44.0,
    ),
    "Random": (
        63.0, 15.4, 18.8, 26.7, 10.4, 44.6, 30.2, 28.7, 26.3, 9.4,
        15.8, 22.8, 13.7, 22.0, 50.7, 7.3, 15.1, 15.8, 30.0, 22.9, 24.5,
    ),
    "RICA": (
        76.1, 37.2, 39.1, 49.6, 13.8, 70.5, 46.2, 51.2, 41.4, 15.6,
        29.8, 35.6, 33.3, 46.6, 67.0, 14.1, 28.9, 29.6, 58.9, 44.3, 41.4,
    ),
    "DDSFL": (
        77.7, 42.5, 45.4, 53.3, 24.0, 72.2, 50.6, 54.2, 47.4, 26.0,
        36.6, 42.6, 38.9, 50.7, 70.3, 23.4, 36.2, 36.4, 61.6, 49.0, 46.9,
    ),
    "Caffe": (
        90.7, 67.9, 79.9, 77.0, 32.7, 86.0, 59.7, 81.6, 51.4, 56.1,
        55.2, 72.0, 69.5, 75.1, 88.0, 36.3, 63.2, 43.0, 87.7, 64.6, 66.9,
    ),
    "SIFT + Caffe": (
        92.3, 72.3, 83.0, 79.5, 38.1, 88.5, 65.8, 84.9, 59.1, 61.5,
        61.6, 76.0, 72.7, 79.0, 90.7, 41.8, 69.2, 52.7, 88.9, 70.1, 71.4,
    ),
    "DDSFL + Caffe": (
        92.7, 75.4, 85.1, 79.4, 42.3, 88.1, 68.5, 87.1, 62.9, 65.8,
        60.6, 80.2, 74.0, 76.4, 92.3, 43.6, 74.3, 53.2, 88.4, 73.7, 73.2,
    ),
}  # fmt: skip


def by_set(numbers: Percent) -> dict[str, float]:
    """Return the numbers that are given, by data set.

    >>> by_set(FEATURES["GIST"])
    {'scene15': 73.28, 'indoor67': 22.0}
    """
    return {name: number for name, number in zip(SETS, numbers) if number is not None}

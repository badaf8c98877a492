"""CENTRIST and OTC on an image set, in the common pipeline of all rivals and with the authors' kernel.

    python -m studies.rival_descriptors FOLDER [--splits 1] [--only centrist] [--step 3] [--words 2000]

FOLDER contains class folders. Splits are those of the tables for Scene 15 (100 training images per class, the
rest test images). C and the width of the kernel are chosen by cross-validation on the training images. Test
images are evaluated once per row. Step and words apply to OTC; the tables use 3 and 2000, which take about
ten minutes per row on one core. docs/rivals.md lists and discusses the numbers.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from sklearn.model_selection import StratifiedKFold
from sklearn.svm import SVC
from torch import Tensor

from ddsfl import SceneClassifier
from ddsfl.classify.linear import LinearClassifier
from ddsfl.classify.metrics import mean_class_accuracy
from ddsfl.compute.device import as_tensor, resolve_device
from ddsfl.datasets.splits import Split, random_splits
from ddsfl.descriptors import otc
from ddsfl.descriptors.centrist import CENTRIST
from ddsfl.encoder.encoder import unit_vectors
from ddsfl.experiments.cells import current_commit
from ddsfl.experiments.methods import method
from ddsfl.images.folders import ImageSet
from ddsfl.images.image_list import ImageList
from ddsfl.model.settings import Settings
from ddsfl.patches.batches import image_batches

Array = np.ndarray[Any, Any]

N_TRAIN, SEED = 100, 0
#: Candidates for cross-validation of a kernel: C, and its width in units of 1 / mean squared distance.
COSTS, WIDTHS = (3.0, 10.0, 30.0), (0.5, 1.0, 2.0)


def linear(vectors: Tensor, labels: Array, split: Split) -> float:
    """Return the mean class accuracy in percent of the tables' linear SVM on vectors of unit length."""
    vectors = unit_vectors(vectors, 1.0)
    train = vectors[split.train]
    machine = LinearClassifier(device=train.device, random_state=0).fit_gram(
        train @ train.T, labels[split.train]
    )
    predicted = machine.predict(vectors[split.test] @ train.T)
    return 100 * mean_class_accuracy(labels[split.test], predicted)


def rbf(vectors: Tensor, labels: Array, split: Split) -> float:
    """Return the same for an SVM with the kernel exp(-width d^2) and one machine per pair of classes."""
    rows = vectors.to(torch.float64).cpu()
    train, test = rows[split.train], rows[split.test]
    targets = labels[split.train]
    distances = torch.cdist(train, train) ** 2
    mean = float(distances.mean())
    folds = list(StratifiedKFold(5, shuffle=True, random_state=0).split(distances, targets))

    def score(C: float, width: float) -> float:
        kernel = (-width / mean * distances).exp().numpy()
        predicted = np.empty_like(targets)
        for fit, judge in folds:
            machine = SVC(C=C, kernel="precomputed").fit(kernel[np.ix_(fit, fit)], targets[fit])
            predicted[judge] = machine.predict(kernel[np.ix_(judge, fit)])
        return mean_class_accuracy(targets, predicted)

    C, width = max(itertools.product(COSTS, WIDTHS), key=lambda pair: score(*pair))
    machine = SVC(C=C, kernel="precomputed").fit((-width / mean * distances).exp().numpy(), targets)
    predicted = machine.predict((-width / mean * torch.cdist(test, train) ** 2).exp().numpy())
    return 100 * mean_class_accuracy(labels[split.test], predicted)


def centrist(images: ImageList, labels: Array, split: Split, settings: Settings) -> dict[str, float]:
    """Return the scores of CENTRIST: with unscaled values, scaled, and scaled with the authors' kernel."""
    source = CENTRIST().fit(images.subset(split.train))
    device = resolve_device("auto")
    scaled = torch.empty(len(images), len(source.lowest_), device=device)
    for numbers, group in image_batches(images, device):
        scaled[numbers] = source.embed(group)
    lowest, highest = as_tensor(source.lowest_, device), as_tensor(source.highest_, device)
    return {
        "CENTRIST, linear, unscaled values": linear(
            (scaled * (highest - lowest) + lowest + highest) / 2, labels, split
        ),
        "CENTRIST, linear (the tables)": linear(scaled, labels, split),
        "CENTRIST, RBF": rbf(scaled, labels, split),
    }


def oriented_curves(images: ImageList, labels: Array, split: Split, settings: Settings) -> dict[str, float]:
    """Return the scores of OTC with 0.05 in each constant bin and with 0.05 for all bins together."""
    scores = {}
    for row, value in {"0.05 in each bin": 0.05, "bins of 0.05 in total (the tables)": otc.H_BIN}.items():
        model = SceneClassifier("paper", changes=settings.to_json(), random_state=0)
        with patch.object(otc, "H_BIN", value):
            model.fit(images.subset(split.train), labels[split.train])
            predicted = model.predict(images.subset(split.test))
        scores[f"OTC, {row}"] = 100 * mean_class_accuracy(labels[split.test], predicted)
    return scores


RIVALS = {"centrist": centrist, "otc": oriented_curves}


def main() -> None:
    """Print one line per split and row, then means and standard deviations over the splits."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--splits", type=int, default=1)
    parser.add_argument("--only", choices=RIVALS)
    parser.add_argument("--step", type=int, default=3)
    parser.add_argument("--words", type=int, default=2000)
    given = parser.parse_args()
    settings = dataclasses.replace(method("otc"), sources={"otc": {"method": "otc", "step": given.step}})
    settings = settings.change({"blocks.coding.n_words": given.words})
    files = ImageSet.find(given.folder)
    labels = [str(label) for label in files.labels]
    images = settings.image_list(files.paths)
    print(f"commit {current_commit()}, {given.folder}, splits: {given.splits}", flush=True)
    print(f"OTC with step {given.step} and {given.words} words", flush=True)
    for name in [given.only] if given.only else RIVALS:
        scores: dict[str, list[float]] = {}
        for split in random_splits(labels, n_train=N_TRAIN, n_splits=given.splits, seed=SEED):
            for row, score in RIVALS[name](images, np.array(labels), split, settings).items():
                scores.setdefault(row, []).append(score)
                print(f"{split.name}: {row:40} {score:.2f}", flush=True)
        for row, values in scores.items():
            spread = f" +- {np.std(values, ddof=1):.2f}" if len(values) > 1 else ""
            print(f"{row:40} {np.mean(values):.2f}{spread}")


if __name__ == "__main__":
    main()

"""Accuracy cost of a faster path: two encodings of the same images with the same model.

    python -m studies.agreement MODEL FOLDER [--splits 20] [--device cuda]

On CUDA, the fused path in half precision is compared with plain torch in float32; on a CPU, the shortlist
search for the nearest words with the exact search. Filters and words are those of the model. Only the SVM is
retrained, on random splits of the images, which allows averaging the difference over many splits.
"""

from __future__ import annotations

import argparse
import time
from contextlib import nullcontext

import numpy as np
import torch
from torch import Tensor

from ddsfl import SceneClassifier
from ddsfl.classify.linear import LinearClassifier
from ddsfl.classify.metrics import mean_class_accuracy
from ddsfl.coding.llc import LLC
from ddsfl.compute.device import plain_path
from ddsfl.datasets.splits import Split, random_splits
from ddsfl.experiments.cells import current_commit
from ddsfl.images.folders import ImageSet
from ddsfl.images.image_list import ImageList


def gram(model: SceneClassifier, images: ImageList) -> Tensor:
    """Return the inner products of the concatenated vectors of all images."""
    total: Tensor | None = None
    for vectors in model.block_vectors(images).values():
        own = vectors @ vectors.T
        total = own if total is None else total.add_(own)
    assert total is not None
    return total


def accuracy(products: Tensor, labels: np.ndarray, split: Split) -> float:
    """Return the mean class accuracy in percent at C = 10, from the inner products of all images."""
    machine = LinearClassifier(C=10.0, device=products.device)
    machine.fit_gram(products[split.train][:, split.train], labels[split.train])
    predicted = machine.predict(products[split.test][:, split.train])
    return 100 * mean_class_accuracy(labels[split.test], predicted)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("folder")
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--train", type=int, default=100)
    parser.add_argument("--device", default="auto")
    given = parser.parse_args()
    model = SceneClassifier.load(given.model, device=given.device)
    files = ImageSet.find(given.folder)
    labels = np.array([str(label) for label in files.labels])
    images = ImageList(files.paths, min_side=model.settings_.min_side, colour=model.settings_.colour)
    images.read_all()
    on_cuda = given.device != "cpu" and torch.cuda.is_available()
    print(f"{torch.cuda.get_device_name() if on_cuda else 'cpu'}, commit {current_commit() or 'unknown'}")
    products = {}
    for name in ("fused", "plain") if on_cuda else ("fast", "exact"):
        for coding in model.codings_:
            if isinstance(coding, LLC):
                coding.search = "exact" if name == "exact" else "fast"
        start = time.perf_counter()
        with plain_path() if name == "plain" else nullcontext():
            products[name] = gram(model, images)
        print(f"{name}: {len(images)} images in {time.perf_counter() - start:.1f} s", flush=True)
    (quick, first), (careful, second) = products.items()
    splits = random_splits(list(labels), n_train=given.train, n_splits=given.splits, seed=100)
    scores = np.array([[accuracy(each, labels, split) for each in (first, second)] for split in splits])
    gain = scores[:, 0] - scores[:, 1]
    print(
        f"{quick} {scores[:, 0].mean():.3f}, {careful} {scores[:, 1].mean():.3f}; difference "
        f"{gain.mean():+.3f} +- {gain.std(ddof=1) / len(gain) ** 0.5:.3f} (s.e. over {len(gain)} splits)"
    )


if __name__ == "__main__":
    main()

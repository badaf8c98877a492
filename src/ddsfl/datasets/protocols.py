"""The protocol of each data set: how its images are split for training and testing."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from ddsfl.datasets.folders import find_list, image_folder
from ddsfl.datasets.splits import Split, official_split, random_splits
from ddsfl.datasets.voc import read_voc
from ddsfl.images.folders import ImageSet


@dataclass(frozen=True)
class Protocol:
    """How the images of one data set are split; the same for every method.

    Attributes
    ----------
    dataset : the name of the set.
    n_splits : number of splits.
    n_train, n_test : images per class, for random splits; n_test=None tests all other images.
    lists : names of the lists of training and test images, for official splits.
    seed : seed from which the seeds of random splits are drawn.
    """

    dataset: str
    n_splits: int = 1
    n_train: int | None = None
    n_test: int | None = None
    lists: tuple[str, str] | None = None
    seed: int = 0

    def read(self, folder: str | os.PathLike[str]) -> tuple[ImageSet, list[Split]]:
        """Return the images of a folder and their splits, as `evaluate_split` expects them.

        Images are sorted by name, so the order in which a disk lists them does not matter.
        """
        if self.dataset == "voc2012":
            return self._read_voc(folder)
        place = image_folder(self.dataset, folder)
        images = ImageSet.find(place)
        if self.lists is not None:
            train, test = (find_list(folder, place, name) for name in self.lists)
            return images, [official_split(images.paths, train, test)]
        assert self.n_train is not None
        labels = [str(label) for label in images.labels]
        return images, random_splits(labels, self.n_train, self.n_splits, n_test=self.n_test, seed=self.seed)

    def _read_voc(self, folder: str | os.PathLike[str]) -> tuple[ImageSet, list[Split]]:
        """Difficult images have their label in training but not in testing, see `voc`."""
        assert self.lists is not None
        train, test = (read_voc(folder, subset) for subset in self.lists)
        images = ImageSet([*train.paths, *test.paths], [*train.training_labels, *test.labels])
        numbers = list(range(len(images)))
        name = " / ".join(self.lists)
        return images, [Split(numbers[: len(train)], numbers[len(train) :], None, name)]


#: By name. Test images of voc2012-test have no labels: VOC's server scores them (`voc.write_results`).
PROTOCOLS: Mapping[str, Protocol] = {
    "scene15": Protocol("scene15", n_splits=5, n_train=100),
    "uiuc-sports": Protocol("uiuc-sports", n_splits=5, n_train=70, n_test=60),
    "indoor67": Protocol("indoor67", lists=("TrainImages.txt", "TestImages.txt")),
    "voc2012": Protocol("voc2012", lists=("train", "val")),
    "voc2012-test": Protocol("voc2012", lists=("trainval", "test")),
    # Replacements with the layout of UIUC Sports and MIT Indoor 67.
    "sports8": Protocol("sports8", n_splits=5, n_train=70, n_test=60),
    "indoor10": Protocol("indoor10", lists=("TrainImages.txt", "TestImages.txt")),
    # Other kinds of images than scenes.
    "objects102": Protocol("objects102", n_splits=5, n_train=30, n_test=10),
    "steel6": Protocol("steel6", n_splits=5, n_train=10),
}


def protocol(name: str) -> Protocol:
    """Return the protocol of a data set.

    >>> protocol("scene15").n_train, protocol("scene15").n_splits
    (100, 5)
    """
    if name not in PROTOCOLS:
        raise ValueError(f"there is no protocol {name!r}; expected one of {', '.join(PROTOCOLS)}.")
    return PROTOCOLS[name]

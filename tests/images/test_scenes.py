import hashlib
from collections import Counter

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from ddsfl.images.scene_parts import PARTS
from ddsfl.images.scenes import SCENE_CLASSES, make_scenes


def test_scenes_are_gray_pictures_with_their_classes():
    images, labels = make_scenes(2, random_state=3, size=96)
    assert labels == [name for name in SCENE_CLASSES for _ in range(2)]
    assert all(image.shape == (96, 96) and image.dtype == np.uint8 for image in images)
    assert min(image.std() for image in images) > 5


def test_a_seed_means_the_same_scenes_and_another_one_means_others():
    digests = [
        hashlib.sha256(b"".join(map(bytes, make_scenes(2, random_state=s)[0]))).digest() for s in (0, 0, 1)
    ]
    assert digests[0] == digests[1] != digests[2]
    few, more = make_scenes(1, random_state=5)[0], make_scenes(3, random_state=5)[0]
    assert all(np.array_equal(a, b) for a, b in zip(few, more[::3]))


def test_each_class_has_one_part_alone_and_one_with_each_neighbour():
    uses = Counter(part for parts in PARTS.values() for part in parts)
    for own, *shared in PARTS.values():
        assert uses[own] == 1
        assert [uses[part] for part in shared] == [2, 2]
    neighbours = Counter(
        frozenset(name for name, parts in PARTS.items() if part in parts)
        for part, count in uses.items()
        if count == 2
    )
    assert set(neighbours.values()) == {1}  # a ring: no two classes share both parts


def test_thumbnails_and_histograms_do_not_give_the_class_away():
    images, labels = make_scenes(30, random_state=1)
    y = np.array(labels)
    train = np.arange(len(y)) % 30 < 20
    stack = np.array(images, dtype=float)
    thumbnails = stack.reshape(len(stack), 16, 7, 16, 7).mean(axis=(2, 4)).reshape(len(stack), -1)
    histograms = np.array([np.histogram(image, 32, (0, 256))[0] for image in stack])
    for vectors in (thumbnails, histograms):
        svm = make_pipeline(StandardScaler(), LinearSVC(C=1e-3)).fit(vectors[train], y[train])
        assert svm.score(vectors[~train], y[~train]) < 0.4


def test_sizes_are_checked():
    with pytest.raises(ValueError, match="n_per_class=0"):
        make_scenes(0)
    with pytest.raises(ValueError, match="size=40"):
        make_scenes(1, size=40)

"""A model and a few images, made once for all tests of shards."""

from pathlib import Path

import pytest

from ddsfl import SceneClassifier
from ddsfl.scale.carried import CarriedModel
from ddsfl.scale.computations import Predictions
from tests.support.tiny import TINY, tiny_scenes, write_scenes


@pytest.fixture(scope="session")
def model_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("shards-model") / "m.safetensors"
    SceneClassifier("quick", changes=TINY, device="cpu", random_state=0).fit(*tiny_scenes()).save(path)
    return path


@pytest.fixture(scope="session")
def predictions(model_file):
    return Predictions(CarriedModel(model_file), "cpu", {})


@pytest.fixture(scope="session")
def paths(tmp_path_factory):
    """Twelve images in class folders, in the order in which folders are listed."""
    return sorted(write_scenes(tmp_path_factory.mktemp("shards-images") / "photos", seed=1))


@pytest.fixture
def photos(tmp_path):
    """A copy of six images that a test may change."""
    return [Path(path) for path in write_scenes(tmp_path / "photos", n_per_class=2, seed=1)]

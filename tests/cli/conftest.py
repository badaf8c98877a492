"""What tests of the program share: a small set of images and a model of it."""

import pytest

from tests.support.program import run_program
from tests.support.tiny import TINY_OPTIONS, write_scenes


@pytest.fixture(scope="module")
def scenes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scenes")
    write_scenes(folder)
    return folder


@pytest.fixture(scope="module")
def model(scenes, tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "m.safetensors"
    assert run_program("train", scenes, "--out", path, *TINY_OPTIONS) == 0
    return path

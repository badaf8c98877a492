"""Fixtures for tests of experiments: methods and image sets small enough to run complete grids of cells."""

import pytest

from ddsfl.datasets.protocols import PROTOCOLS, Protocol
from ddsfl.experiments import methods
from ddsfl.experiments.grid import Grid
from ddsfl.model.presets import preset
from tests.support.tiny import TINY, write_scenes


@pytest.fixture
def tiny_methods(monkeypatch):
    """All methods as small as possible, and random splits of two training images per class."""
    tiny = preset("paper").change(TINY)
    monkeypatch.setattr(methods, "preset", lambda name: tiny)
    monkeypatch.setattr(methods, "LLC", tiny.blocks[0].coding)
    monkeypatch.setitem(PROTOCOLS, "sports8", Protocol("sports8", n_splits=2, n_train=2, n_test=2))


@pytest.fixture
def scenes(tmp_path, tiny_methods):
    write_scenes(tmp_path / "data", n_per_class=4, classes=2)

    def make(*names, n_splits=1, **options):
        places = {"data": tmp_path / "data", "cells": tmp_path / "cells", "scratch": tmp_path / "stages"}
        return Grid("sports8", methods=names, n_splits=n_splits, device="cpu", **places, **options)

    return make

"""Model files: settings, classes and arrays that no training wrote, and paths of files of somebody else."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console

from attacks.model_extremes import write_extreme
from attacks.model_files import Seed, make_seeds, write_mutant
from attacks.mutations import chance, pick
from ddsfl.images.folders import list_images
from ddsfl.model.classifier import SceneClassifier
from ddsfl.model.file import ModelFileError
from ddsfl.model.run_file import file_beside
from ddsfl.report.explanation import as_json, explanations, for_page, word_nouns
from ddsfl.report.inspection import describe_model
from ddsfl.report.learned import learned_part
from ddsfl.report.pages.why import why_page
from ddsfl.report.pictures import draw_model


class Case(NamedTuple):
    """One model file, and what the user says with it."""

    path: Path
    done: str
    sources: dict[str, Path]
    """Networks and tables that the user names."""
    beside: tuple[Path, ...]
    """Files next to the model file."""
    draws: bool


class Domain:
    """Load a mutated model file and use it: predict, explain, inspect."""

    name = "models"

    def prepare(self, folder: Path) -> None:
        """Train the small models."""
        self.seeds, self.images = make_seeds(folder)
        self.secret = folder / "secret.csv"
        self._draw_once(folder)

    def _draw_once(self, folder: Path) -> None:
        """Draw a picture, so that the lists of fonts are made before cases are watched."""
        draw_model(SceneClassifier.load(folder / self.seeds[0].name, device="cpu"), folder / "pictures")

    def case(self, rng: np.random.Generator, folder: Path) -> Case:
        """Return one mutated file; the files of its sources are named, lie next to it, or neither."""
        seed: Seed = pick(rng, self.seeds)
        path = folder / "model.safetensors"
        if chance(rng, 0.1):
            done = write_extreme(rng, seed.tensors, seed.header, path)
        else:
            done = write_mutant(rng, seed, path)
        sources, beside = {}, []
        for file in seed.files:
            way = rng.random()
            if way < 0.4:
                sources["deep"] = file
            elif way < 0.7:
                beside.append(folder / file.name)
                shutil.copyfile(file, beside[-1])
            elif way < 0.85:
                (folder / file.name).symlink_to(self.secret)
        return Case(path, f"{seed.name}: {done}", sources, tuple(beside), chance(rng, 0.1))

    def may_open(self, case: Case) -> list[Path]:
        """Return the model, the images and the files that the user named or that lie next to the model."""
        pictures = case.path.parent / "pictures"
        return [
            case.path,
            file_beside(case.path),
            pictures,
            *self.images,
            *case.sources.values(),
            *case.beside,
        ]

    def attempt(self, case: Case) -> str:
        """Load the model and do with it what the commands do."""
        try:
            model = SceneClassifier.load(case.path, device="cpu", sources=dict(case.sources))
        except ModelFileError as error:
            _check_sentence(str(error))
            return "refused"
        for table in describe_model(model):
            Console(file=io.StringIO(), width=100).print(table)
        learned_part(model)
        if case.draws:
            draw_model(model, case.path.parent / "pictures")
        try:
            model.check_networks()
        except ModelFileError as error:
            _check_sentence(str(error))
            return "refused"
        images = model.settings_.image_list(list_images(self.images).paths)
        try:
            scores = model.decision_function(images)
        except ValueError as error:
            # How long the vectors of a network or table are is known when they are computed.
            if not (model.networks_.files and "gives vectors of another length" in str(error)):
                raise
            return "refused"
        told: list[Any] = [scores.tolist(), model.predict(images).tolist(), model.transform(images).tolist()]
        if hasattr(model, "predict_proba"):
            told.append(model.predict_proba(images).tolist())
        if model.novelty_ is not None:
            told.append(model.novelty(images).tolist())
        names = [str(path) for path in self.images]
        [explanation] = explanations(model, images.subset([0]), names[:1])
        told.append(as_json(explanation))
        if case.draws:
            why_page([for_page(explanation, self.images[0], word_nouns(model))])
        _check_json(told)
        return "accepted"


def _check_sentence(text: str) -> None:
    assert "a secret" not in text, f"an error quotes a file: {text}"
    assert text.endswith("."), f"not a sentence: {text}"
    assert len(text) < 2000, f"not one sentence: {text[:300]}"


def _check_json(told: list[Any]) -> None:
    try:
        json.dumps(told, allow_nan=False)
    except ValueError as error:
        raise AssertionError(f"no valid JSON: {error}") from error

"""A classifier as tensors by name and a header, and back; older file formats are converted."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
import torch

from ddsfl.classify.linear import LinearClassifier
from ddsfl.classify.novelty import Novelty
from ddsfl.coding.base import Coding
from ddsfl.compute.stages import Arrays
from ddsfl.explain.average import AverageEvidence
from ddsfl.explain.patches import WordPatches
from ddsfl.learning.steps import encoded_terms
from ddsfl.model.file import ModelFileError, read_model
from ddsfl.model.networks import NetworkFiles, moved_sources
from ddsfl.model.presets import reproduces
from ddsfl.model.run_file import Run
from ddsfl.model.settings import Settings, plain
from ddsfl.patches.source import Source


class Learned(NamedTuple):
    """The parts of a classifier that learn."""

    sources: dict[str, Any]
    """The descriptors by name."""
    codings: list[Coding | None]
    """The coding of each block."""
    classifier: LinearClassifier
    novelty: Novelty | None
    average: AverageEvidence | None
    """Both are None in models saved before they existed."""
    patches: dict[str, WordPatches] | None
    """Training patches by block; None unless they were asked for."""


def learned_tensors(settings: Settings, learned: Learned) -> Arrays:
    """Return everything that was learned, by name."""
    tensors: Arrays = {}
    for name, source in learned.sources.items():
        if not source.storable:
            raise ModelFileError(
                f"source {name!r} is a Python function, which a model file cannot store; expected a network "
                "in an ONNX file ('onnx') or a table of vectors ('table')."
            )
        tensors |= {f"source.{name}.{part}": array for part, array in source.state().items()}
    for block, coding in zip(settings.blocks, learned.codings):
        if coding is not None:
            tensors |= {f"block.{block.name}.{part}": array for part, array in coding.state().items()}
    if learned.novelty is not None:
        tensors |= {f"novelty.{name}": array for name, array in learned.novelty.state().items()}
    if learned.average is not None:
        tensors |= {f"average.{name}": array for name, array in learned.average.state().items()}
    for name, patches in (learned.patches or {}).items():
        tensors |= {f"patches.{part}.{name}": array for part, array in patches.state().items()}
    return tensors | {f"classifier.{name}": array for name, array in learned.classifier.state().items()}


def model_header(model: Any) -> dict[str, Any]:
    """Return settings, classes and provenance of a fitted `SceneClassifier` as plain values."""
    return {
        "preset": model.settings_.preset,
        "changes": plain(model.settings_.changes),
        "settings": model.settings_.to_json(),
        "classes": model.classes_.tolist(),
        "multilabel": model.multilabel_,
        # The seed as given, for people and get_params; seed_ is the one in use.
        "random_state": int(model.random_state) if isinstance(model.random_state, Integral) else None,
        "seed": model.seed_,
        "training": model.training_,
        "weights": list(model.weights_),
        "networks": model.networks_.files,
        "keeps_patches": model.patches_ is not None,
    }


def restored_model(
    kind: Callable[..., Any],
    path: str | os.PathLike[str],
    device: str | torch.device,
    sources: Mapping[str, str | os.PathLike[str]],
) -> Any:
    """Return the `SceneClassifier` (``kind``) of a file; ``sources`` are new paths of networks and tables."""
    tensors, header = read_model(path)
    try:
        tensors, header = upgraded(tensors, header)
        origin = {"preset": header["preset"], "changes": header["changes"]}
        settings = Settings.from_json({**header["settings"], **origin})
        named = reproduces(header["preset"], header["changes"], settings)
        settings = moved_sources(settings, sources)
        learned = restore_learned(settings, tensors, device)
        model = kind(
            header["preset"] if named else settings,
            changes=header["changes"] or None if named else None,
            device=device,
            random_state=header["random_state"],
        )
        model.settings_, model.seed_ = settings, header["seed"]
        model.classes_, model.multilabel_ = np.array(header["classes"]), header["multilabel"]
        model.training_, model.weights_ = header["training"], tuple(header["weights"])
        model.checksum_ = header.get("checksum")
        sealed = model.checksum_ is not None
        model.run_ = Run.beside(path, model.checksum_) if sealed else Run.of_header(header)
        # New images have their vectors in a new table, so only networks must be the same.
        unchecked = {name for name, source in learned.sources.items() if source.must_match}
        model.networks_ = NetworkFiles(header["networks"], unchecked)
        model.sources_, model.codings_, model.classifier_, model.novelty_ = learned[:4]
        model.average_, model.patches_ = learned[4:]
    except KeyError as error:
        raise ModelFileError(f"{path} is incomplete: {error} is missing.") from error
    except (TypeError, IndexError) as error:
        raise ModelFileError(f"{path} is not a valid SceneClassifier: {error}.") from error
    return model


def restore_learned(settings: Settings, tensors: Arrays, device: str | torch.device) -> Learned:
    """Return the parts that ``tensors`` came from, on any device; a missing part raises KeyError."""
    sources: dict[str, Source] = settings.make_sources(device)
    for name, source in sources.items():
        _restore(source, tensors, f"source.{name}.")
    codings = [block.make_coding(device, seed=0) for block in settings.blocks]
    for block, coding in zip(settings.blocks, codings):
        if coding is not None:
            _restore(coding, tensors, f"block.{block.name}.")
    classifier = LinearClassifier(**{**settings.classifier, "device": device})
    _restore(classifier, tensors, "classifier.")
    novelty = None
    if any(name.startswith("novelty.") for name in tensors):
        novelty = Novelty()
        _restore(novelty, tensors, "novelty.")
    average = None
    if any(name.startswith("average.") for name in tensors):
        names = [f"cells.{block.name}" for block in settings.blocks]
        names += [
            f"words.{block.name}" for block, coding in zip(settings.blocks, codings) if coding is not None
        ]
        average = AverageEvidence.restore({name: tensors[f"average.{name}"] for name in names})
    patches = {}
    if any(name.startswith("patches.") for name in tensors):
        for block, coding in zip(settings.blocks, codings):
            if coding is not None:
                parts = {name: tensors[f"patches.{name}.{block.name}"] for name in WordPatches.parts()}
                patches[block.name] = WordPatches(**parts)
    return Learned(sources, codings, classifier, novelty, average, patches or None)


def upgraded(tensors: Arrays, header: Mapping[str, Any]) -> tuple[Arrays, dict[str, Any]]:
    """Return tensors and header in the current format.

    Format 1 had no descriptors except the learned layers, only numbers as weights and no networks. Up to
    format 2, the tensors of layers had other names, and the names of their terms were in the header.
    """
    values = {"networks": {}, **header}
    if header["format_version"] > 2:
        return tensors, values
    values.setdefault("weights", [block["weight"] for block in header["settings"]["blocks"]])
    layers = {name for name in tensors if name.startswith("layer")}
    renamed = {f"source.stack.{name}" if name in layers else name: array for name, array in tensors.items()}
    for number, terms in enumerate(values.pop("objective_terms"), start=1):
        renamed[f"source.stack.layer{number}.terms"] = encoded_terms(terms)
    return renamed, values


def _within(tensors: Arrays, prefix: str) -> Arrays:
    """Return the tensors whose names begin with ``prefix``, by the rest of their names."""
    return {name.removeprefix(prefix): array for name, array in tensors.items() if name.startswith(prefix)}


def _restore(part: Any, tensors: Arrays, prefix: str) -> None:
    """Restore a part from the tensors whose names begin with ``prefix``; KeyError names a missing one."""
    mine = _within(tensors, prefix)
    try:
        part.restore(mine)
    except KeyError as error:
        raise KeyError(f"{prefix}{error.args[0]}") from error
    except ValueError as error:
        if mine:
            raise
        raise KeyError(f"{prefix}*") from error

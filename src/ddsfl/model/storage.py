"""A classifier as tensors by name and a header, and back; older file formats are converted."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
import torch

from ddsfl.classify.linear import LinearClassifier
from ddsfl.classify.novelty import Novelty
from ddsfl.classify.validation import Validation
from ddsfl.coding.base import Coding
from ddsfl.compute.rules import instance, several, shown
from ddsfl.compute.stages import Arrays
from ddsfl.compute.tensors import Tensors
from ddsfl.encoder.block import Block
from ddsfl.explain.average import AverageEvidence
from ddsfl.explain.patches import WordPatches
from ddsfl.learning.steps import encoded_terms
from ddsfl.model.file import ModelFileError, read_model
from ddsfl.model.header import check_complete, check_header
from ddsfl.model.networks import NetworkFiles, located, with_named, without_folders
from ddsfl.model.presets import reproduces
from ddsfl.model.run_file import Run
from ddsfl.model.settings import Settings, plain
from ddsfl.patches.source import Source

#: What formats 1 and 2 say of the terms of the objective: their names, for each layer.
_TERMS = several(several(instance(str, "text"), 1, 100), 0, 20, "the names of the terms of each layer")


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
    validation: Validation | None
    """None without cross-validation, and in models saved before it was kept."""


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
    if learned.validation is not None:
        tensors |= {f"validation.{name}": array for name, array in learned.validation.state().items()}
    return tensors | {f"classifier.{name}": array for name, array in learned.classifier.state().items()}


def model_header(model: Any) -> dict[str, Any]:
    """Return settings, classes and provenance of a fitted `SceneClassifier` as plain values."""
    return {
        "preset": model.settings_.preset,
        "changes": without_folders(plain(model.settings_.changes)),
        "settings": without_folders(model.settings_.to_json()),
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
    """Return the `SceneClassifier` (``kind``) of a file; ``sources`` are the paths of networks and tables."""
    tensors, header = read_model(path)
    with _refusing(path):
        tensors, header = upgraded(tensors, header)
        origin = {"preset": header["preset"], "changes": header["changes"]}
        networks = header["networks"]
        settings = Settings.from_json({**header["settings"], **origin})
        settings = located(settings, networks, os.path.dirname(os.path.abspath(path)))
    settings = with_named(settings, sources)
    with _refusing(path):
        classes = np.array(header["classes"])
        given = Tensors(tensors)
        learned = restore_learned(settings, given, device, len(classes))
        if given.unread():
            raise ValueError(f"tensor {shown(given.unread()[0])} is unknown")
        _check_agreement(settings, learned, header)
        files = NetworkFiles.of_loaded(networks, learned.sources, sources.keys())
        # Changes have the paths of files that were there at the training, not here.
        replayed = not networks and reproduces(header["preset"], header["changes"], settings)
    model = kind(
        header["preset"] if replayed else settings,
        changes=header["changes"] or None if replayed else None,
        device=device,
        random_state=header["random_state"],
    )
    model.settings_, model.seed_, model.networks_ = settings, header["seed"], files
    model.classes_, model.multilabel_ = classes, header["multilabel"]
    model.training_, model.weights_ = header["training"], tuple(header["weights"])
    model.checksum_ = header.get("checksum")
    sealed = model.checksum_ is not None
    model.run_ = Run.beside(path, model.checksum_) if sealed else Run.of_header(header)
    model.sources_, model.codings_, model.classifier_, model.novelty_ = learned[:4]
    model.average_, model.patches_, model.validation_ = learned[4:]
    model.classifier_.validation_ = model.validation_
    return model


@contextmanager
def _refusing(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn what is wrong with the contents of a model file into ModelFileError."""
    try:
        yield
    except KeyError as error:
        raise ModelFileError(f"{path} is incomplete: {error} is missing.") from error
    except (ValueError, TypeError, IndexError) as error:
        raise ModelFileError(f"{path} is not a valid model: {str(error).rstrip('.')}.") from error


def restore_learned(
    settings: Settings, tensors: Tensors, device: str | torch.device, n_classes: int
) -> Learned:
    """Return the parts that ``tensors`` came from, on any device.

    KeyError or ValueError names one that is missing or wrong.
    """
    sources: dict[str, Source] = settings.make_sources(device)
    for name, source in sources.items():
        _move(source, device).restore(tensors.within(f"source.{name}."))
    codings = [block.make_coding(device, seed=0) for block in settings.blocks]
    coded = list(zip(settings.blocks, codings))
    for block, coding in coded:
        if coding is not None:
            _move(coding, device).restore(tensors.within(f"block.{block.name}."))
    classifier = LinearClassifier(**{**settings.classifier, "device": device})
    classifier.restore(tensors.within("classifier."))
    novelty, average, patches, validation = (
        tensors.within(f"{name}.") for name in ("novelty", "average", "patches", "validation")
    )
    return Learned(
        sources,
        codings,
        classifier,
        Novelty().restore(novelty) if len(novelty) else None,
        AverageEvidence.restore(average, coded, n_classes) if len(average) else None,
        {
            block.name: WordPatches.restore(patches, block.name, coding, n_classes)
            for block, coding in coded
            if coding is not None
        }
        if len(patches)
        else None,
        Validation.restore(
            validation, single=classifier.single_label_, n_classes=n_classes, n_blocks=len(codings)
        )
        if len(validation)
        else None,
    )


def _move(part: Any, device: str | torch.device) -> Any:
    """Return a source or coding on a device, whatever device its settings name: that of the training."""
    if hasattr(part, "device"):
        part.device = device
    return part


def _check_agreement(settings: Settings, learned: Learned, header: Mapping[str, Any]) -> None:
    """Raise ValueError unless all parts of a model are of the same images, classes and widths."""
    n_classes, classifier = len(header["classes"]), learned.classifier
    numbered = classifier.classes_.tolist() == list(range(n_classes))
    if not numbered or classifier.single_label_ is header["multilabel"]:
        raise ValueError("its classifier has other classes than its header")
    if len(header["weights"]) != len(settings.blocks):
        raise ValueError(f"it has {len(header['weights'])} weights; expected {len(settings.blocks)}")
    n_images, validation = header["training"]["n_images"], learned.validation
    if validation is not None and len(validation.folds) != n_images:
        raise ValueError(f"it was validated on {len(validation.folds)} images; expected {n_images}")
    stack = learned.sources.get("stack")
    if stack is not None:
        if stack.n_channels != (1 if settings.colour == "gray" else 3):
            raise ValueError(
                f"its filters have {stack.n_channels} channels; its images are {settings.colour}"
            )
        for sharing, exemplars in zip(stack.sharing_, stack.n_exemplars_):
            if len(sharing) not in (0, n_classes) or len(exemplars) != n_classes:
                raise ValueError(f"its filters are shared by {len(sharing)} classes; expected {n_classes}")
    widths = [
        _width(block, coding, learned.sources[block.source])
        for block, coding in zip(settings.blocks, learned.codings)
    ]
    known, unknown = sum(width or 0 for width in widths), widths.count(None)
    found = classifier.n_features_in_
    if found < known + unknown or (found > known and not unknown):
        raise ValueError(f"its classifier takes {found} values; its blocks have {known}")


def _width(block: Block, coding: Coding | None, source: Source) -> int | None:
    """Return the number of values of a block's vectors; None if only the file of its source can tell."""
    width = source.width_of(block.output)
    if coding is None:
        return width
    if width not in (None, coding.n_features_in_):
        raise ValueError(
            f"the words of block {block.name!r} have {coding.n_features_in_} values; "
            f"its descriptors have {width}"
        )
    return coding.n_values * block.n_cells


def upgraded(tensors: Arrays, header: Mapping[str, Any]) -> tuple[Arrays, dict[str, Any]]:
    """Return tensors and header in the current format.

    Format 1 had no descriptors except the learned layers, only numbers as weights and no networks. Up to
    format 2, the tensors of layers had other names, and the names of their terms were in the header.
    """
    check_header(header)
    check_complete(header)
    values = {"networks": {}, **header}
    if header["format_version"] > 2:
        return tensors, values
    if "weights" not in values:
        blocks = Settings.from_json(header["settings"]).blocks
        values["weights"] = [block.weight for block in blocks]
        check_header(values)
    layers = {name for name in tensors if name.startswith("layer")}
    renamed = {f"source.stack.{name}" if name in layers else name: array for name, array in tensors.items()}
    _TERMS.check(values["objective_terms"], "objective_terms")
    for number, terms in enumerate(values.pop("objective_terms"), start=1):
        renamed[f"source.stack.layer{number}.terms"] = encoded_terms(terms)
    return renamed, values

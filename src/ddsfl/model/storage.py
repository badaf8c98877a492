"""A fitted SceneClassifier as tensors and a header, and back."""

from __future__ import annotations

import os
from collections.abc import Mapping
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ddsfl.classify.linear import LinearClassifier
from ddsfl.compute.device import as_numpy
from ddsfl.compute.stages import Arrays
from ddsfl.descriptors.registry import make_source
from ddsfl.learning.forward import LearnedLayer
from ddsfl.learning.stack import FilterStack
from ddsfl.model.file import ModelFileError
from ddsfl.model.networks import moved_sources
from ddsfl.model.settings import Settings, plain
from ddsfl.patches.normalise import InputSpace

if TYPE_CHECKING:
    from ddsfl.model.classifier import SceneClassifier

#: What is kept of the linear classifier, and of each layer beside its filters and input space.
CLASSIFIER_ARRAYS = (
    "classes",
    "single_label",
    "C",
    "cv_scores",
    "coef",
    "intercept",
    "slopes",
    "offsets",
)
LAYER_ARRAYS = ("sharing", "objective", "n_exemplars", "pixel_filters")


def model_tensors(model: SceneClassifier) -> Arrays:
    """Return everything that a model learned, by name."""
    tensors: Arrays = {}
    for name, source in model.sources_.items():
        if isinstance(source, FilterStack):
            tensors |= _stack_tensors(source)
        elif hasattr(source, "state"):
            tensors |= {f"source.{name}.{part}": array for part, array in source.state().items()}
    for block, coding in zip(model.settings_.blocks, model.codings_):
        if coding is not None:
            tensors |= {f"block.{block.name}.{part}": array for part, array in coding.state().items()}
    tensors |= {f"classifier.{name}": array for name, array in classifier_arrays(model.classifier_).items()}
    return tensors


def _stack_tensors(stack: FilterStack) -> Arrays:
    tensors: Arrays = {}
    for index, learned in enumerate(stack.learned_):
        parts = {"filters": as_numpy(learned.filters)}
        parts |= {name: as_numpy(part) for name, part in zip(learned.space._fields, learned.space)}
        parts |= {name: getattr(stack, f"{name}_")[index] for name in LAYER_ARRAYS}
        tensors |= {f"layer{index + 1}.{name}": array for name, array in parts.items()}
    return tensors


def model_header(model: SceneClassifier) -> dict[str, Any]:
    """Return settings, classes and provenance of a model as plain values."""
    for name in model.sources_:
        if name != "stack" and model.settings_.source(name)["method"] == "callable":
            raise ModelFileError(
                f"source {name!r} is a Python function, which no model file can hold; expected a network in "
                "an ONNX file ('onnx') or a table of vectors ('table')."
            )
    stack = model.sources_.get("stack")
    return {
        "preset": model.preset,
        "changes": plain(model.changes or {}),
        "settings": model.settings_.to_json(),
        "classes": model.classes_.tolist(),
        "multilabel": model.multilabel_,
        # The seed as it was given, for people and for get_params; seed_ is what came of it.
        "random_state": int(model.random_state) if isinstance(model.random_state, Integral) else None,
        "seed": model.seed_,
        "training": model.training_,
        "seconds": model.seconds_,
        "device": model.device_,
        "weights": list(model.weights_),
        "networks": model.networks_,
        "objective_terms": [list(names) for names in stack.objective_terms_] if stack else [],
    }


def restore_model(
    model: SceneClassifier,
    tensors: Arrays,
    header: dict[str, Any],
    moved: Mapping[str, str | os.PathLike[str]],
) -> None:
    """Give ``model`` what another one learned; a missing part raises KeyError.

    ``moved`` says where the files of some sources are now.
    """
    settings = moved_sources(Settings.from_json(header["settings"]), moved)
    model.settings_, model.seed_ = settings, header["seed"]
    model.classes_, model.multilabel_ = np.array(header["classes"]), header["multilabel"]
    model.training_, model.seconds_ = header["training"], header["seconds"]
    model.device_ = header["device"]
    # Files of format 1 knew numbers as weights and no networks.
    model.weights_ = tuple(header.get("weights", [block.weight for block in settings.blocks]))
    model.networks_ = header.get("networks", {})
    model.unchecked_ = {name for name in model.networks_ if settings.source(name)["method"] == "onnx"}
    model.sources_ = {}
    for name in dict.fromkeys(block.source for block in settings.blocks):
        if name == "stack":
            model.sources_[name] = _restored_stack(model, tensors, header)
            continue
        model.sources_[name] = source = make_source(settings.source(name), model.device)
        if hasattr(source, "restore"):
            source.restore(_part_of(tensors, f"source.{name}."))
    model.codings_ = []
    for block in settings.blocks:
        coding = block.make_coding(model.device, seed=0)
        if coding is not None:
            coding.restore(_part_of(tensors, f"block.{block.name}."))
        model.codings_.append(coding)
    classifier = LinearClassifier(**{**settings.classifier, "device": model.device})
    model.classifier_ = restore_classifier(classifier, _part_of(tensors, "classifier."))


def _part_of(tensors: Arrays, prefix: str) -> Arrays:
    """Return the tensors whose names begin with ``prefix``, under the rest of their names."""
    found = {name.removeprefix(prefix): array for name, array in tensors.items() if name.startswith(prefix)}
    if not found:
        raise KeyError(f"{prefix}*")
    return found


def _restored_stack(model: SceneClassifier, tensors: Arrays, header: dict[str, Any]) -> FilterStack:
    layers = model.settings_.layers
    stack = FilterStack(layers, device=model.device)
    stack.classes_ = np.arange(len(model.classes_))
    stack.learned_ = []
    learned = [layer for layer in layers if layer.bank is not None]
    names = [f"layer{index + 1}" for index in range(len(learned))]
    for layer, name in zip(learned, names):
        space = InputSpace(*(torch.from_numpy(tensors[f"{name}.{part}"]) for part in InputSpace._fields))
        filters = torch.from_numpy(tensors[f"{name}.filters"])
        stack.learned_.append(LearnedLayer(layer, space, filters))
    for attribute in LAYER_ARRAYS:
        setattr(stack, f"{attribute}_", [tensors[f"{name}.{attribute}"] for name in names])
    stack.objective_terms_ = [tuple(terms) for terms in header["objective_terms"]]
    return stack


def classifier_arrays(classifier: LinearClassifier) -> Arrays:
    """Return what a linear classifier learned; its classes are numbers here."""
    found = {name: getattr(classifier, f"{name}_", None) for name in CLASSIFIER_ARRAYS}
    return {name: np.asarray(value) for name, value in found.items() if value is not None}


def restore_classifier(classifier: LinearClassifier, arrays: Arrays) -> LinearClassifier:
    """Give ``classifier`` what another one learned, as ``classifier_arrays`` returned it."""
    for name, array in arrays.items():
        setattr(classifier, f"{name}_", array if array.ndim else array.item())
    classifier.n_features_in_ = classifier.coef_.shape[1]
    return classifier

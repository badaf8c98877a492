"""A fitted SceneClassifier as tensors and a header, and back."""

from __future__ import annotations

from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ddsfl.classify.linear import LinearClassifier
from ddsfl.compute.device import as_numpy
from ddsfl.compute.stages import Arrays
from ddsfl.learning.forward import LearnedLayer
from ddsfl.learning.stack import FilterStack
from ddsfl.patches.normalise import InputSpace
from ddsfl.settings import Settings, plain

if TYPE_CHECKING:
    from ddsfl.model import SceneClassifier

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
    for index, learned in enumerate(model.stack_.learned_):
        parts = {"filters": as_numpy(learned.filters)}
        parts |= {name: as_numpy(part) for name, part in zip(learned.space._fields, learned.space)}
        parts |= {name: getattr(model.stack_, f"{name}_")[index] for name in LAYER_ARRAYS}
        tensors |= {f"layer{index + 1}.{name}": array for name, array in parts.items()}
    for block, coding in zip(model.settings_.blocks, model.codings_):
        tensors[f"block.{block.name}.words"] = coding.words_
    tensors |= {f"classifier.{name}": array for name, array in classifier_arrays(model.classifier_).items()}
    return tensors


def model_header(model: SceneClassifier) -> dict[str, Any]:
    """Return settings, classes and provenance of a model as plain values."""
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
        "objective_terms": [list(names) for names in model.stack_.objective_terms_],
    }


def restore_model(model: SceneClassifier, tensors: Arrays, header: dict[str, Any]) -> None:
    """Give ``model`` what another one learned; a missing part raises KeyError."""
    settings = Settings.from_json(header["settings"])
    model.settings_, model.seed_ = settings, header["seed"]
    model.classes_, model.multilabel_ = np.array(header["classes"]), header["multilabel"]
    model.training_, model.seconds_ = header["training"], header["seconds"]
    model.device_ = header["device"]
    model.stack_ = _restored_stack(model, tensors, header)
    model.codings_ = []
    for block in settings.blocks:
        coding = block.make_coding(model.device, seed=0)
        coding.words_ = tensors[f"block.{block.name}.words"]
        coding.n_features_in_ = coding.words_.shape[1]
        model.codings_.append(coding)
    arrays = {
        name.removeprefix("classifier."): array
        for name, array in tensors.items()
        if name.startswith("classifier.")
    }
    classifier = LinearClassifier(**{**settings.classifier, "device": model.device})
    model.classifier_ = restore_classifier(classifier, arrays)


def _restored_stack(model: SceneClassifier, tensors: Arrays, header: dict[str, Any]) -> FilterStack:
    layers = model.settings_.layers
    stack = FilterStack(layers, device=model.device)
    stack.classes_ = np.arange(len(model.classes_))
    stack.learned_ = []
    names = [f"layer{index + 1}" for index in range(len(layers))]
    for layer, name in zip(layers, names):
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

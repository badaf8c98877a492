"""What scikit-learn expects of an estimator, besides learning: parameters, score, names of values, tags."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from ddsfl.classify.crossval import scores_by_class
from ddsfl.classify.linear import LinearClassifier
from ddsfl.classify.metrics import mean_average_precision
from ddsfl.explain.labels import class_numbers
from ddsfl.images.image_list import ImageList
from ddsfl.images.labels import Labels
from ddsfl.learning.stack import FilterStack
from ddsfl.model.presets import preset
from ddsfl.model.settings import Settings

#: How parameters of scikit-learn name a change of the settings: "changes__layers.bank.eta".
PREFIX = "changes__"


def read_labelled(settings: Settings, X: Any, y: Any) -> tuple[ImageList, Labels]:
    """Return images and their labels, of which there must be as many."""
    labels = Labels.read(y)  # first, because images may be files to read
    images = settings.image_list(X)
    if len(labels) != len(images):
        raise ValueError(f"y has {len(labels)} labels; expected one for each of the {len(images)} images.")
    return images, labels


def is_calibrated(model: Any) -> bool:
    """Return True; raise AttributeError if the model has no probabilities."""
    if not model.settings_in_use().classifier.get("calibrate", False):
        raise AttributeError("there are no probabilities; expected a fit with classifier.calibrate=True.")
    return True


class ImageEstimator(ClassifierMixin, TransformerMixin, BaseEstimator, ABC):
    """The manners of an estimator over images; `SceneClassifier` adds what it learns and computes.

    Its parameters include each value of ``changes``, so that searches can address them one by one:

    >>> from ddsfl import SceneClassifier
    >>> model = SceneClassifier("quick", changes={"layers.bank.eta": 0.0})
    >>> model.set_params(**{"changes__max_side": 200}).changes
    {'layers.bank.eta': 0.0, 'max_side': 200}
    >>> model.get_params()["changes__layers.bank.eta"]
    0.0
    """

    preset: str | Settings
    changes: Mapping[str, Any] | None
    settings_: Settings
    sources_: dict[str, Any]
    classes_: np.ndarray[Any, Any]
    multilabel_: bool
    classifier_: LinearClassifier
    training_: dict[str, Any]

    # Progress is for people who wait, not for searches to pass on.
    __metadata_request__decision_function: ClassVar = {"progress": UNUSED}
    __metadata_request__predict: ClassVar = {"progress": UNUSED}
    __metadata_request__predict_proba: ClassVar = {"progress": UNUSED}
    __metadata_request__transform: ClassVar = {"progress": UNUSED}

    @abstractmethod
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from images and their labels."""

    @abstractmethod
    def _joined_vectors(self, images: ImageList) -> np.ndarray[Any, Any]:
        """Return the vectors (n_images, width) of images, as an array."""

    @abstractmethod
    def decision_function(self, X: Any) -> Any:
        """Return the scores of the classes."""

    @abstractmethod
    def block_vectors(self, X: Any, names: Collection[str] | None = None) -> dict[str, Tensor]:
        """Return the vectors (n_images, width) of some blocks, by name."""

    def scores_by_class(self, scores: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return scores (n, C) with one column per class, even for two classes."""
        return scores_by_class(scores)

    def labels_from(self, scores: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return the labels for the scores of ``decision_function``."""
        if self.multilabel_:
            return scores > 0
        return self.classes_[scores_by_class(scores).argmax(axis=1)]

    @available_if(is_calibrated)
    def probabilities_from(self, scores: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return the probabilities (n_images, C) for the scores of ``decision_function``."""
        return self.classifier_.probabilities_from(scores)

    def settings_in_use(self) -> Settings:
        """Return the settings of the fit; before the fit, those of preset and changes."""
        if hasattr(self, "settings_"):
            return self.settings_
        return self.settings_to_fit()

    def settings_to_fit(self) -> Settings:
        """Return the settings of preset and changes, which the next fit uses."""
        return preset(self.preset).change(self.changes or {})

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name; if ``deep``, also each change of the settings."""
        parameters: dict[str, Any] = super().get_params(deep)
        if deep and isinstance(self.changes, Mapping):
            parameters |= {f"{PREFIX}{path}": value for path, value in self.changes.items()}
        return parameters

    def set_params(self, **parameters: Any) -> Self:
        """Set parameters by name. ``changes__PATH`` changes one setting and keeps the other changes.

        A path that does not exist, or a value that it cannot have, is an error here, before any fit.
        """
        changes = {
            name.removeprefix(PREFIX): value for name, value in parameters.items() if name.startswith(PREFIX)
        }
        others = {name: value for name, value in parameters.items() if not name.startswith(PREFIX)}
        if changes:
            # Another estimator may hold the same mapping, so it is replaced.
            changes = {**(others.get("changes", self.changes) or {}), **changes}
            preset(others.get("preset", self.preset)).change(changes)
            others["changes"] = changes
        super().set_params(**others)
        return self

    def fit_transform(self, X: Any, y: Any, **fit_params: Any) -> Any:
        """Fit on images and their labels; return the joined vectors of the images (n_images, width).

        The images are read once, so ``X`` may be an iterator. ``fit_params`` are those of ``fit``.
        """
        images = self.settings_to_fit().image_list(X)
        return self.fit(images, y, **fit_params)._joined_vectors(images)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy; for several labels per image, the mean average precision.

        ``y`` may then be tuples of labels, as in ``fit``, or an indicator matrix in the order of
        ``classes_`` (which scikit-learn's own cross-validation needs).
        """
        check_is_fitted(self, "classifier_")
        images, labels = read_labelled(self.settings_, X, y)
        if not self.multilabel_:
            single = labels.classes[labels.membership.argmax(axis=1)] if labels.single else y
            return float(super().score(images, single, sample_weight))
        shown = labels.membership_in(self.classes_)
        scores = self.decision_function(images)
        return float(mean_average_precision(shown, scores, sample_weight=sample_weight))

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray[Any, Any]:
        """Return a name for each value of ``transform``: that of its block and a number, as in "layer1_0".

        ``input_features`` is not used; scikit-learn's interface has it.
        """
        check_is_fitted(self, "classifier_")
        sources = {block.name: self.sources_[block.source] for block in self.settings_.blocks}
        seen = [name for name, source in sources.items() if source.sees_pixels]
        blank = np.zeros((1, 1), np.uint8)  # which becomes as large as the descriptors need
        widths = {name: rows.shape[1] for name, rows in self.block_vectors([blank], seen).items()}
        widths |= {name: source.width for name, source in sources.items() if name not in widths}
        names = [f"{name}_{number}" for name in sources for number in range(widths[name])]
        return np.array(names, dtype=object)

    @property
    def n_features_in_(self) -> int:
        """Number of columns of ``X``: 1, because images are one column, however many pixels they have."""
        check_is_fitted(self, "classifier_")
        return 1

    @property
    def stack_(self) -> FilterStack:
        """The learned layers."""
        check_is_fitted(self, "classifier_")
        if "stack" not in self.sources_:
            raise AttributeError("this model has no learned layers: no block has source='stack'.")
        stack: FilterStack = self.sources_["stack"]
        return stack

    def training_images(self, X: Any, y: Any) -> tuple[ImageList, np.ndarray[Any, Any]]:
        """Return the images and the number of the class of each, the first of several.

        ValueError if these are not the images that the model was trained with.
        """
        check_is_fitted(self, "classifier_")
        images, labels = read_labelled(self.settings_, X, y)
        if images.fingerprint() != self.training_["fingerprint"]:
            raise ValueError("X holds other images than the model was trained with; expected the same ones.")
        return images, class_numbers(labels, self.classes_)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array, tags.input_tags.string = False, True
        tags.no_validation = True  # images are not a matrix that scikit-learn could check
        tags.classifier_tags.multi_label = True
        tags.target_tags.multi_output = True
        return tags

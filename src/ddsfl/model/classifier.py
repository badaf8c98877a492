"""SceneClassifier: blocks and a linear SVM as one scikit-learn estimator over images."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

import ddsfl
from ddsfl.classify.fusion import join_blocks
from ddsfl.classify.metrics import mean_average_precision
from ddsfl.compute.device import as_numpy, as_tensor, drawn_seed, resolve_device, slices
from ddsfl.compute.stages import Stages
from ddsfl.encoder.blocks import Encoder, unit_vectors
from ddsfl.images.image_list import ImageList
from ddsfl.learning.labels import indicators, read_targets
from ddsfl.learning.stack import FilterStack
from ddsfl.model.file import ModelFileError, read_model, write_model
from ddsfl.model.fit import Fit
from ddsfl.model.keys import StageKeys
from ddsfl.model.networks import check_networks, find_networks
from ddsfl.model.presets import preset
from ddsfl.model.settings import Settings, image_list
from ddsfl.model.storage import model_header, model_tensors, restore_model
from ddsfl.patches.batches import Progress

#: Images whose vectors are joined at once where no block looks at pixels.
JOINED_AT_ONCE = 200

Images = Sequence[Any] | ImageList


def _is_calibrated(model: SceneClassifier) -> bool:
    return bool(model.settings_in_use().classifier.get("calibrate", False))


class SceneClassifier(ClassifierMixin, BaseEstimator):
    """Learn filters, code images over them and classify by a linear SVM.

    Parameters
    ----------
    preset : "quick" (minutes on a laptop), "paper" (the paper's structure and constants) or "best" (the most
        accurate one, meant for a GPU).
    changes : values that differ from the preset, by path: ``{"layers.bank.eta": 0.0}``.
    device : "auto", "cpu" or "cuda".
    random_state : seed of everything that is drawn.

    Attributes
    ----------
    classes_ : names of the classes, sorted.
    sources_ : the descriptors by name; "stack" is the learned FilterStack.
    codings_ : the fitted coding of each block; None where a block takes vectors as they are.
    weights_ : the weight of each block.
    classifier_ : the fitted LinearClassifier.
    seconds_ : time of each stage of the fit.
    training_ : what it was trained on: number of images, images a class, fingerprint of the pixels.

    Examples
    --------
    >>> from ddsfl import SceneClassifier, make_scenes
    >>> images, labels = make_scenes(n_per_class=4, random_state=0)
    >>> small = {"layers.bank.n_filters": 16, "blocks.coding.n_words": 32, "layers.bank.max_iter": 5}
    >>> model = SceneClassifier(changes=small, random_state=0).fit(images, labels)
    >>> model.predict(images[:2]).shape
    (2,)
    """

    def __init__(
        self,
        preset: str = "quick",
        *,
        changes: Mapping[str, Any] | None = None,
        device: str | torch.device = "auto",
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.preset = preset
        self.changes = changes
        self.device = device
        self.random_state = random_state

    def settings_in_use(self) -> Settings:
        """Return the settings: those of the fit, before it those of preset and changes."""
        if hasattr(self, "settings_"):
            return self.settings_
        return preset(self.preset).change(self.changes or {})

    def fit(
        self,
        X: Images,
        y: Sequence[Any] | np.ndarray[Any, Any],
        *,
        checkpoints: str | os.PathLike[str] | None = None,
        report: Callable[[str, bool], None] | None = None,
        progress: Progress | None = None,
    ) -> SceneClassifier:
        """Learn from images and their labels.

        Parameters
        ----------
        X : paths, PIL images or arrays; an ImageList is taken as it is.
        y : a label an image, or several: tuples of labels, or an indicator matrix.
        checkpoints : folder in which the result of each stage is kept; a second call with the same
            images, labels, settings and seed continues there.
        report : called as each stage starts, with its name and whether it was found stored.
        progress : called with (images done, images in all) within the stages.
        """
        settings = preset(self.preset).change(self.changes or {})
        images = self._read(X, settings)
        self.classes_, targets, self.multilabel_ = read_targets(y)
        if len(targets) != len(images):
            raise ValueError(
                f"y has {len(targets)} labels; expected one for each of the {len(images)} images."
            )
        if len(self.classes_) < 2:
            raise ValueError(f"y holds one class only, {str(self.classes_[0])!r}; expected at least two.")
        seed = drawn_seed(self.random_state)
        self.settings_, self.seed_ = settings, seed
        membership = indicators(targets, len(self.classes_))
        self.training_ = {
            "fingerprint": images.fingerprint(),
            "n_images": len(images),
            "images_per_class": membership.sum(axis=0).tolist(),
        }
        class_weight = self._numbered_weights(settings.classifier.get("class_weight"))
        self.networks_, self.unchecked_ = find_networks(settings), set[str]()
        keys = StageKeys(settings, images, targets, seed, self.networks_, ddsfl.__version__)
        stages = Stages(checkpoints, key=keys, report=report)
        fit = Fit(settings, images, targets, membership, seed, self.device, stages, progress)
        self.sources_ = fit.learn_sources()
        self.codings_ = fit.learn_codings(self.sources_)
        vectors = fit.encode(self.sources_, self.codings_)
        self.weights_, self.classifier_ = fit.classify(vectors, class_weight)
        self.seconds_ = dict(stages.seconds)
        self.device_ = str(resolve_device(self.device))
        return self

    @property
    def stack_(self) -> FilterStack:
        """The learned layers."""
        if "stack" not in self.sources_:
            raise AttributeError("this model has no learned layers: no block has source='stack'.")
        stack: FilterStack = self.sources_["stack"]
        return stack

    def transform(self, X: Images, *, progress: Progress | None = None) -> np.ndarray[Any, Any]:
        """Return the joined vectors (n_images, width), which the linear SVM sees."""
        check_is_fitted(self, "classifier_")
        images = self._read(X, self.settings_)
        vectors = np.zeros((len(images), self.classifier_.n_features_in_), dtype=np.float32)
        for numbers, joined in self._joined(images, progress):
            vectors[numbers] = as_numpy(joined)
        return vectors

    def decision_function(self, X: Images, *, progress: Progress | None = None) -> np.ndarray[Any, Any]:
        """Return the scores of all classes (n_images, C); with two classes (n_images,), of the second."""
        return self._for_all(X, "decision_function", progress)

    def predict(self, X: Images, *, progress: Progress | None = None) -> np.ndarray[Any, Any]:
        """Return the label of each image; with several labels an image, the indicator matrix."""
        return self.labels_from(self.decision_function(X, progress=progress))

    def scores_by_class(self, scores: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return scores (n, C) with a column a class, also where there are only two."""
        return np.stack([-scores, scores], axis=1) if scores.ndim == 1 else scores

    def labels_from(self, scores: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return the labels that the scores of ``decision_function`` mean."""
        if self.multilabel_:
            return scores > 0
        return self.classes_[self.scores_by_class(scores).argmax(axis=1)]

    @available_if(_is_calibrated)
    def predict_proba(self, X: Images, *, progress: Progress | None = None) -> np.ndarray[Any, Any]:
        """Return the calibrated probability of each class (n_images, C)."""
        return self._for_all(X, "predict_proba", progress)

    def score(self, X: Images, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy; of images with several labels the mean average precision.

        ``y`` may then be tuples of labels, as in ``fit``, or an indicator matrix in the order of
        ``classes_`` (which is what scikit-learn's own cross-validation understands).
        """
        if not self.multilabel_:
            return float(super().score(X, y, sample_weight))
        if isinstance(next(iter(y), None), tuple | list | set | frozenset):
            y = np.array([[name in labels for name in self.classes_] for labels in y])
        return float(mean_average_precision(np.asarray(y, dtype=bool), self.decision_function(X)))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model into one safetensors file, which appears whole or not at all."""
        check_is_fitted(self, "classifier_")
        write_model(path, model_tensors(self), model_header(self))

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        device: str | torch.device = "auto",
        sources: Mapping[str, str | os.PathLike[str]] | None = None,
    ) -> SceneClassifier:
        """Read a model that ``save`` wrote, onto any device; nothing in the file is executed.

        ``sources`` says where the networks or tables of deep blocks are now, by the name of their source;
        without it they are looked for where they were at training, when images are to be classified.
        """
        tensors, header = read_model(path)
        try:
            model = cls(
                header["preset"],
                changes=header["changes"],
                device=device,
                random_state=header["random_state"],
            )
            restore_model(model, tensors, header, moved=sources or {})
        except (KeyError, TypeError, IndexError) as error:
            raise ModelFileError(f"{path} lacks a part of a SceneClassifier: {error}.") from error
        if sources:
            check_networks(model)
        return model

    def _numbered_weights(self, class_weight: Any) -> Any:
        """Return class weights by class number, as the SVM knows the classes."""
        if not isinstance(class_weight, Mapping):
            return class_weight
        numbers = {str(name): number for number, name in enumerate(self.classes_)}
        unknown = sorted(str(name) for name in class_weight if str(name) not in numbers)
        if unknown:
            raise ValueError(
                f"class_weight names {', '.join(unknown)}; expected some of {', '.join(numbers)}."
            )
        return {numbers[str(name)]: weight for name, weight in class_weight.items()}

    def block_vectors(
        self, X: Images, names: Collection[str] | None = None, *, progress: Progress | None = None
    ) -> dict[str, Tensor]:
        """Return the vectors (n_images, width) of some blocks, all by default, before they are joined.

        Each has unit length and lies on the device of the model.
        """
        check_is_fitted(self, "classifier_")
        images = self._read(X, self.settings_)
        vectors: dict[str, Tensor] = {}
        for numbers, found in self._vectors(images, names, progress):
            for name, part in found.items():
                if name not in vectors:
                    vectors[name] = part.new_empty(len(images), part.shape[1])
                at = torch.tensor(numbers).to(part.device, non_blocking=True)  # does not wait for the GPU
                vectors[name][at] = part
        return vectors

    def _vectors(
        self, images: ImageList, names: Collection[str] | None, progress: Progress | None
    ) -> Iterator[tuple[list[int], dict[str, Tensor]]]:
        """Yield (image numbers, vectors by block) in batches."""
        settings, device = self.settings_, resolve_device(self.device)
        check_networks(self)
        known: dict[str, Tensor] = {}
        coded = []
        for block, coding in zip(settings.blocks, self.codings_):
            if names is not None and block.name not in names:
                continue
            if settings.kind(block) == "deep":
                raw = self.sources_[block.source].vectors(images.sources, progress)
                known[block.name] = unit_vectors(as_tensor(raw, device), block.power)
            else:
                coded.append((block, coding))
        if not coded:  # nothing asks for pixels
            for part in slices(len(images), JOINED_AT_ONCE):
                rows = list(range(part.start, part.stop))
                yield rows, {name: vectors[part] for name, vectors in known.items()}
            return
        blocks, codings = zip(*coded)
        for numbers, parts in Encoder(self.sources_, blocks, codings, device).encode(images, progress):
            found = {block.name: part for block, part in zip(blocks, parts)}
            yield numbers, found | {name: vectors[numbers] for name, vectors in known.items()}

    def _joined(self, images: ImageList, progress: Progress | None) -> Iterator[tuple[list[int], Tensor]]:
        """Yield (image numbers, joined vectors on the device) in batches."""
        for numbers, found in self._vectors(images, None, progress):
            yield numbers, join_blocks([found[block.name] for block in self.settings_.blocks], self.weights_)

    def _for_all(self, X: Images, method: str, progress: Progress | None) -> np.ndarray[Any, Any]:
        """Return what a method of the classifier gives, batch by batch: vectors are not kept."""
        check_is_fitted(self, "classifier_")
        images = self._read(X, self.settings_)
        order: list[int] = []
        outputs: list[Tensor] = []
        for numbers, joined in self._joined(images, progress):
            order += numbers
            outputs.append(getattr(self.classifier_, method)(joined))
        return as_numpy(torch.cat(outputs))[np.argsort(order)]

    @staticmethod
    def _read(X: Images, settings: Settings) -> ImageList:
        if isinstance(X, ImageList):
            if X.colour != settings.colour or X.min_side < settings.min_side:
                raise ValueError(
                    f"X is an ImageList with colour={X.colour!r} and min_side={X.min_side}; expected "
                    f"colour={settings.colour!r} and min_side={settings.min_side} or more."
                )
            return X
        if isinstance(X, str | os.PathLike):
            raise ValueError(f"X={os.fspath(X)!r} is one path; expected a list of images.")
        if len(X) == 0:
            raise ValueError("X is empty; expected at least one image.")
        return image_list(X, settings)

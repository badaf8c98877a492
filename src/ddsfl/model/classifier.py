"""SceneClassifier: blocks and a linear SVM as one scikit-learn estimator over images."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from ddsfl.classify.fusion import join_blocks
from ddsfl.classify.novelty import Novelty, statistics_of
from ddsfl.compute.device import as_numpy, drawn_seed, resolve_device
from ddsfl.encoder.encoder import Encoder
from ddsfl.explain.average import AverageEvidence
from ddsfl.explain.evidence import Evidence
from ddsfl.explain.explainer import Explainer
from ddsfl.explain.patches import WordPatches, collect_patches
from ddsfl.images.image_list import ImageList
from ddsfl.images.labels import Labels
from ddsfl.images.spread import Spread
from ddsfl.model.estimator import ImageEstimator, is_calibrated, read_labelled
from ddsfl.model.file import write_model
from ddsfl.model.fit import Fit, Report
from ddsfl.model.run_file import Run
from ddsfl.model.settings import Settings
from ddsfl.model.storage import Learned, learned_tensors, model_header, restored_model
from ddsfl.patches.batches import Progress

#: Images in any form of `list_of_images`, or an ImageList that fits the settings.
Images = Iterable[Any] | ImageList


class SceneClassifier(ImageEstimator):
    """Learn filters, encode images with them and classify with a linear SVM.

    ``X`` of all methods is a list of images in any form that `ddsfl.images.inputs.list_of_images` accepts:
    paths, open files, bytes, PIL images, arrays, tensors, a column of a data frame, or one array of several
    images. One image alone is an error; give ``[image]``.

    Parameters
    ----------
    preset : "quick" (minutes on a laptop), "paper" (the paper's structure and constants), "best" (the most
        accurate one, meant for a GPU), or `Settings`.
    changes : values that differ from the preset, by path: ``{"layers.bank.eta": 0.0}``. As a parameter of
        scikit-learn each has a name of its own, ``changes__layers.bank.eta``. ``settings_in_use().to_json()``
        shows all settings and their values; ``{"classifier.class_weight": "balanced"}`` is for classes of
        different sizes.
    device : "auto", "cpu" or "cuda".
    random_state : seed of everything that is random.

    Attributes
    ----------
    classes_ : names of the classes, sorted; the columns of ``y`` if it is an indicator matrix.
    multilabel_ : whether images have several labels.
    stack_ : the learned layers: ``sharing_[0]`` (C, D) tells which class uses which filter of layer 1,
        ``pixel_filters_[0]`` (D, channels, side, side) what the filters look for.
    sources_ : the descriptors by name; "stack" is the learned FilterStack.
    codings_ : the fitted coding of each block; None if a block uses vectors unchanged.
    weights_ : the weight of each block.
    classifier_ : the fitted LinearClassifier.
    novelty_ : what tells images that are unlike the training images.
    average_ : what the average training image says for each class.
    patches_ : training patches of the words; None unless `collect_patches` was called.
    validation_ : a `Validation`: decision values (N, T) and membership (N, C) of the training images, from
        SVMs fitted without them, and the score without each block. None without cross-validation, and in
        models saved before it was kept.
    settings_ : the settings in use.
    seed_ : the seed in use; drawn if random_state is None.
    run_ : how the fit ran: device, threads, versions of libraries, time of each stage.
    checksum_ : of the file that the model was loaded from or saved to; None if there is none.
    training_ : the training set: number of images, images per class, fingerprints of pixels and labels.
    networks_ : the files that sources read.

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
        preset: str | Settings = "quick",
        *,
        changes: Mapping[str, Any] | None = None,
        device: str | torch.device = "auto",
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.preset = preset
        self.changes = changes
        self.device = device
        self.random_state = random_state

    def fit(
        self,
        X: Images,
        y: Sequence[Any] | np.ndarray[Any, Any] | Labels,
        sample_weight: Sequence[float] | np.ndarray[Any, Any] | None = None,
        *,
        checkpoints: str | os.PathLike[str] | None = None,
        report: Report | None = None,
        progress: Progress | None = None,
        steps: Progress | None = None,
        spread: Spread | None = None,
    ) -> SceneClassifier:
        """Learn from images and their labels.

        Parameters
        ----------
        X : the images.
        y : one label per image, or several: tuples of labels, an indicator matrix, or `Labels`.
        sample_weight : how much each image counts in the SVM, in the choice of C and of the weights of
            blocks, and in the calibration: weight 2 counts as two equal images. Filters and words are
            learned without it.
        checkpoints : folder in which the result of each stage is kept; a second call with the same
            images, labels, settings and seed resumes there.
        report : called as each stage starts, with its name and whether its result was stored already;
            ``report=print`` shows how far a long fit is.
        progress : called with (images done, images in all) within the stages.
        steps : called with (iterations done, most iterations) within the stages: those of a filter bank, of
            words, of mixtures.
        spread : the workers that passes over the images run on, such as `ddsfl.scale.spread.Spreading`; None
            for this process, or for those of an ImageList that has some. Networks and tables are read here.
        """
        settings = self.settings_to_fit()
        device = str(resolve_device(self.device))
        images, labels = read_labelled(settings, X, y)
        images = images.with_spread(spread) if spread else images
        labels = labels.weighted(sample_weight)
        if len(labels.classes) < 2:
            raise ValueError(f"y contains only one class, {str(labels.classes[0])!r}; expected at least two.")
        seed = drawn_seed(self.random_state)
        training = {
            "fingerprint": images.fingerprint(),  # which reads all images, before any work
            "labels": labels.fingerprint(),
            "n_images": len(images),
            "images_per_class": labels.counts.tolist(),
        }
        fit = Fit(
            settings,
            images,
            labels,
            seed,
            device=self.device,
            checkpoints=checkpoints,
            report=report,
            progress=progress,
            steps=steps,
        )
        fit.learn_sources()
        fit.learn_codings()
        with fit.encode() as vectors:
            weights, classifier, validation = fit.classify(vectors)
            means = vectors.means()
        average = AverageEvidence.of(means, list(zip(settings.blocks, fit.codings)), weights, classifier)
        novelty = fit.learn_novelty()
        # All at the end: an interrupted fit leaves the model as it was.
        self.weights_, self.classifier_, self.validation_ = weights, classifier, validation
        self.novelty_: Novelty | None = novelty
        self.average_: AverageEvidence | None = average
        self.patches_: dict[str, WordPatches] | None = None
        self.classes_, self.multilabel_ = labels.classes, not labels.single
        self.settings_, self.seed_, self.networks_ = settings, seed, fit.networks
        self.sources_, self.codings_ = fit.sources, fit.codings
        self.training_, self.run_ = training, Run.here(device, fit.stages.seconds)
        self.checksum_: str | None = None
        return self

    def transform(self, X: Images, *, progress: Progress | None = None) -> np.ndarray[Any, Any]:
        """Return the joined vectors (n_images, width), which the linear SVM sees."""
        check_is_fitted(self, "classifier_")
        return self._joined_vectors(self.settings_.image_list(X), progress)

    def _joined_vectors(self, images: ImageList, progress: Progress | None = None) -> np.ndarray[Any, Any]:
        """Return the vectors of ``transform`` as an array, whatever ``set_output`` asks for."""
        vectors = np.zeros((len(images), self.classifier_.n_features_in_), dtype=np.float32)
        for numbers, joined in self._joined(images, progress):
            vectors[numbers] = as_numpy(joined)
        return vectors

    def decision_function(self, X: Images, *, progress: Progress | None = None) -> np.ndarray[Any, Any]:
        """Return the scores of all classes (n_images, C); with two classes (n_images,), of the second."""
        return self._for_all(X, "decision_function", progress)

    def predict(self, X: Images, *, progress: Progress | None = None) -> np.ndarray[Any, Any]:
        """Return the label of each image; with several labels per image, the indicator matrix."""
        return self.labels_from(self.decision_function(X, progress=progress))

    @available_if(is_calibrated)
    def predict_proba(self, X: Images, *, progress: Progress | None = None) -> np.ndarray[Any, Any]:
        """Return the calibrated probability of each class (n_images, C)."""
        return self._for_all(X, "predict_proba", progress)

    def novelty(self, X: Images, *, progress: Progress | None = None) -> np.ndarray[Any, Any]:
        """Return how unlike the training images each image is (n_images,); above 1 is unlike them.

        It compares brightness, contrast and gradients, not the labels: noise, empty frames, pages of text and
        images of another kind are found, an unknown kind of scene among photographs is not.
        """
        check_is_fitted(self, "classifier_")
        if self.novelty_ is None:
            raise ValueError("this model was saved by a ddsfl that did not learn novelty; train it again.")
        images = self.settings_.image_list(X)
        return self.novelty_.score(statistics_of(images, resolve_device(self.device), progress))

    def explain(
        self,
        X: Images,
        classes: Sequence[Any] | None = None,
        against: Any = "runner-up",
        *,
        progress: Progress | None = None,
    ) -> Iterator[Evidence]:
        """Yield the evidence of each image: its scores as sums over its places, without approximation.

        Parameters
        ----------
        X : the images.
        classes : which classes to explain; the predicted ones and the runner-up by default.
        against : the class to compare the first of them with: "runner-up", a class, or None.
        progress : called with (images done, images in all).
        """
        check_is_fitted(self, "classifier_")
        explainer = Explainer(
            self._encoder(), self.classifier_, self.weights_, self.classes_, self.average_, self.patches_
        )
        return explainer.explain(self.settings_.image_list(X), classes, against, progress)

    def collect_patches(
        self,
        X: Images,
        y: Sequence[Any] | np.ndarray[Any, Any] | Labels,
        *,
        progress: Progress | None = None,
    ) -> SceneClassifier:
        """Collect patches of the training images that show what words stand for, for `explain`.

        ``X`` and ``y`` must be those of the fit. `save` then writes the patches into the model file: they are
        recognisable parts of training images.
        """
        images, numbers = self.training_images(X, y)
        self.patches_ = collect_patches(self._encoder(), images, numbers.tolist(), progress)
        return self

    def _encoder(self, names: Collection[str] | None = None) -> Encoder:
        """Return the encoder of some blocks, all by default."""
        self.check_networks()
        pairs = [
            pair
            for pair in zip(self.settings_.blocks, self.codings_)
            if names is None or pair[0].name in names
        ]
        return Encoder(self.sources_, pairs, resolve_device(self.device))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one safetensors file, complete or not at all; PATH.run.json next to it holds `run_`."""
        check_is_fitted(self, "classifier_")
        learned = Learned(
            self.sources_, self.codings_, self.classifier_, self.novelty_, self.average_, self.patches_,
            self.validation_,
        )  # fmt: skip
        self.checksum_ = write_model(path, learned_tensors(self.settings_, learned), model_header(self))
        self.run_.write(path, self.checksum_)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        device: str | torch.device = "auto",
        sources: Mapping[str, str | os.PathLike[str]] | None = None,
    ) -> SceneClassifier:
        """Read a model that ``save`` wrote, onto any device; nothing in the file is executed.

        ``sources`` gives the paths of network or table files by the name of their source. Others are looked
        for next to the model file, by name and digest, when images are encoded. Paths in a file are ignored.
        """
        model: SceneClassifier = restored_model(cls, path, device, sources or {})
        model.networks_.check(model.sources_, named=True)
        return model

    def check_networks(self) -> None:
        """Raise ModelFileError unless the networks and tables are there and are those of the training."""
        self.networks_.check(self.sources_)

    def block_vectors(
        self, X: Images, names: Collection[str] | None = None, *, progress: Progress | None = None
    ) -> dict[str, Tensor]:
        """Return the vectors (n_images, width) of some blocks, all by default, before they are joined.

        Each has unit length and is on the device of the model.
        """
        check_is_fitted(self, "classifier_")
        return self._encoder(names).vectors(self.settings_.image_list(X), progress)

    def _joined(self, images: ImageList, progress: Progress | None) -> Iterator[tuple[list[int], Tensor]]:
        """Yield (image numbers, joined vectors on the device) in batches."""
        for numbers, batch in self._encoder().encode(images, progress):
            parts = [batch[block.name] for block in self.settings_.blocks]
            yield numbers, join_blocks(parts, self.weights_, self.classifier_.n_features_in_)

    def _for_all(self, X: Images, method: str, progress: Progress | None) -> np.ndarray[Any, Any]:
        """Return the output of a method of the classifier for all images; vectors are not kept."""
        check_is_fitted(self, "classifier_")
        images = self.settings_.image_list(X)
        order: list[int] = []
        outputs: list[Tensor] = []
        for numbers, joined in self._joined(images, progress):
            order += numbers
            outputs.append(getattr(self.classifier_, method)(joined))
        return as_numpy(torch.cat(outputs))[np.argsort(order)]

"""One-vs-rest linear support vector machine; C is chosen on the training images."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import Tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data
from torch import Tensor

from ddsfl.classify.calibration import Calibration, fit_sigmoids, fit_temperature
from ddsfl.classify.crossval import (
    Choice,
    ClassWeight,
    OneVsRest,
    choose_C,
    folds_for,
    predicted_classes,
)
from ddsfl.classify.rows import GramRows, TrainingRows, VectorRows, are_many
from ddsfl.classify.validation import Validation
from ddsfl.compute.device import as_numpy, as_tensor, resolve_device
from ddsfl.compute.matrices import as_matrix
from ddsfl.compute.parameters import Checked
from ddsfl.compute.products import plus_times, times
from ddsfl.compute.rules import FLAG, NOTHING, Rule, choice, either, real, rules, several, whole
from ddsfl.compute.stages import Arrays
from ddsfl.compute.tensors import SOME, Tensors
from ddsfl.images.labels import Labels

#: Names in files of the parts of a fitted classifier.
LEARNED = ("classes", "single_label", "C", "cv_scores", "coef", "intercept", "slopes", "offsets")


def _are_weights(value: Any) -> bool:
    return isinstance(value, dict) and all(map(real(0, 1e9).accepts, value.values()))


#: What costs, and weights of classes, may be.
COST = real(above=0, most=1e12)
WEIGHTS = Rule("a weight from 0 to 1e9 for each label", _are_weights)


def _calibrates(classifier: LinearClassifier) -> bool:
    return bool(classifier.calibrate)


class LinearClassifier(Checked, ClassifierMixin, BaseEstimator):
    """One linear SVM per class (L2-regularised squared hinge loss, regularised bias, as in LIBLINEAR).

    C is chosen by stratified cross-validation: the training images are cut into folds, and each fold is
    classified by SVMs fitted on the others. The C with the best mean class accuracy over all images wins
    (mean average precision if images have several labels); the smallest C wins ties. The Gram matrix of
    the training images is computed once for all folds and Cs.

    Parameters
    ----------
    C : cost of a violated margin, or "cv" to choose it from ``Cs``.
    Cs : the costs that "cv" tries.
    cv : number of folds, limited to the number of images in the smallest class. With fewer than two
        folds, "cv" uses C = 1 and probabilities are not calibrated (slope 1), with a warning.
    class_weight : None; "balanced" gives all classes the same total weight in every problem (for images
        with several labels: images with and without the label); or a dictionary of label to weight.
    calibrate : also learn probabilities from the out-of-fold decision values: softmax(slope * decision)
        for one label per image, sigmoid(slope * decision + offset) per class for several.
    device : where to compute; "auto" uses CUDA if available.
    random_state : seed of the folds.

    Attributes
    ----------
    classes_ : (C,) the labels; column numbers for an indicator matrix.
    single_label_ : whether every image has one label.
    C_ : the C in use.
    cv_scores_ : score of each of ``Cs``; None without cross-validation.
    coef_ : (T, P) weights, T = 1 for two classes.
    intercept_ : (T,) biases.
    slopes_, offsets_ : (T,) the calibration, if requested.
    validation_ : what cross-validation found out, with the decision values of each image from SVMs fitted
        without it; None without cross-validation. `state` does not contain it.

    Examples
    --------
    >>> X = np.array([[0.0, 1.0], [0.1, 1.0], [1.0, 0.0], [1.0, 0.2]])
    >>> y = ["sea", "sea", "city", "city"]
    >>> machine = LinearClassifier(device="cpu", random_state=0).fit(X, y)
    >>> machine.predict([[0.0, 2.0]])
    array(['sea'], dtype='<U4')
    >>> machine.C_, machine.cv_scores_
    (0.1, array([1., 1., 1., 1.]))
    """

    RULES = rules(
        C=either(choice("cv"), COST),
        Cs=several(COST, 1, 1000),
        cv=whole(0, 1000),
        class_weight=either(NOTHING, choice("balanced"), WEIGHTS),
        calibrate=FLAG,
    )

    n_features_in_: int
    coef_: np.ndarray[Any, Any]
    validation_: Validation | None

    def __init__(
        self,
        C: float | Literal["cv"] = "cv",
        Cs: Sequence[float] = (0.1, 1.0, 10.0, 100.0),
        cv: int = 5,
        class_weight: ClassWeight = None,
        calibrate: bool = False,
        device: str | torch.device | None = "auto",
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.C = C
        self.Cs = Cs
        self.cv = cv
        self.class_weight = class_weight
        self.calibrate = calibrate
        self.device = device
        self.random_state = random_state

    def fit(
        self, X: ArrayLike | Tensor, y: ArrayLike | Tensor | Labels, sample_weight: Any = None
    ) -> LinearClassifier:
        """Fit on vectors ``X`` (N, P); ``y`` is N labels, an indicator matrix (N, C) or `Labels`.

        ``sample_weight`` (N,) multiplies the cost of each image. It also counts in the choice of C, in
        balanced class weights and in the calibration. The folds are drawn without it.
        """
        rows, problems = self._check_training(X, y)
        problems = problems.weighted(sample_weight)
        if are_many(*rows.shape):
            return self._fit(VectorRows(rows), problems)
        self._fit(GramRows(times(rows, rows.T)), problems)
        self.coef_ = as_numpy(times(torch.as_tensor(self.coef_).to(rows), rows))
        return self

    def fit_gram(
        self, gram: ArrayLike | Tensor, y: ArrayLike | Tensor | Labels, sample_weight: Any = None
    ) -> LinearClassifier:
        """Fit on the inner products ``gram`` (N, N) of the training images.

        Afterwards, an image to classify is a row of its N inner products with the training images, and
        ``coef_`` (T, N) holds the coefficients of these: ``coef_ @ X`` are the weights of inputs.
        """
        rows, problems = self._check_training(gram, y)
        problems = problems.weighted(sample_weight)
        if rows.shape[0] != rows.shape[1]:
            raise ValueError(f"gram has shape {tuple(rows.shape)}; expected a square matrix.")
        return self._fit(GramRows(rows), problems)

    def fit_rows(self, rows: TrainingRows, y: ArrayLike | Tensor | Labels) -> LinearClassifier:
        """Fit on rows in any form, also those that are read in passes."""
        self.check()
        self._fit(rows, OneVsRest.of(y))
        self.n_features_in_ = self.coef_.shape[1]
        return self

    def state(self) -> Arrays:
        """Return everything learned, by name; only numeric classes can be stored in a file."""
        check_is_fitted(self)
        learned = {name: getattr(self, f"{name}_", None) for name in LEARNED}
        return {name: np.asarray(value) for name, value in learned.items() if value is not None}

    def restore(self, state: Mapping[str, np.ndarray[Any, Any]]) -> LinearClassifier:
        """Restore everything returned by `state` of another classifier.

        KeyError or ValueError names an array that is missing or wrong.
        """
        tensors = Tensors.of(state)
        self.classes_ = tensors["classes"]
        if self.classes_.ndim != 1 or len(self.classes_) < 2 or self.classes_.dtype.kind not in "biuf":
            found = f"has type {self.classes_.dtype} and shape {self.classes_.shape}"
            raise tensors.wrong("classes", found, "the numbers of at least two classes")
        self.single_label_ = bool(tensors.flags("single_label"))
        n_rows = 1 if self.single_label_ and len(self.classes_) == 2 else len(self.classes_)
        self.coef_ = tensors.real("coef", n_rows, SOME)
        self.intercept_ = tensors.real("intercept", n_rows)
        self.C_ = float(tensors.real("C", least=0))
        self.cv_scores_ = tensors.real("cv_scores", len(self.Cs)) if "cv_scores" in state else None
        if self.calibrate:
            self.slopes_, self.offsets_ = (tensors.real(name, n_rows) for name in ("slopes", "offsets"))
        self.n_features_in_, self.validation_ = self.coef_.shape[1], None
        return self

    def decision_function(self, X: ArrayLike | Tensor) -> Any:
        """Return decision values (N, C), or (N,) for two single-label classes: above 0 is the second."""
        decisions = self._decide(X)
        if self.single_label_ and len(self.classes_) == 2:
            decisions = decisions[:, 0]
        return decisions.to(X.device) if isinstance(X, Tensor) else as_numpy(decisions)

    def rows_of(
        self, numbers: Sequence[int], columns: slice = slice(None)
    ) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """Return weights (R, P) and biases (R,) of some classes by number, in double precision.

        ``columns`` are those of the weights. Of two classes only the weights of the second are learned; those
        of the first are their opposite.

        >>> machine = LinearClassifier(device="cpu").fit(np.array([[0.0], [0.0], [1.0], [1.0]]), [0, 0, 1, 1])
        >>> first, second = machine.rows_of([0, 1])[1]
        >>> bool(first == -second)
        True
        """
        at = np.asarray(numbers, dtype=int)
        signs = np.ones(len(at))
        if len(self.coef_) < len(self.classes_):
            signs, at = np.where(at == 0, -1.0, 1.0), np.zeros_like(at)
        return self.coef_[at, columns].astype(np.float64) * signs[:, None], self.intercept_[at] * signs

    def predict(self, X: ArrayLike | Tensor) -> np.ndarray[Any, Any]:
        """Return labels (N,), or for several labels per image an indicator (N, C) of decisions above 0."""
        decisions = self._decide(X)
        if self.single_label_:
            return self.classes_[predicted_classes(decisions)]
        return as_numpy(decisions > 0).astype(np.int64)

    @available_if(_calibrates)
    def predict_proba(self, X: ArrayLike | Tensor) -> Any:
        """Return the probabilities (N, C); only with ``calibrate=True``.

        With one label per image, the most likely class is the predicted one. With several, a class with
        probability above one half may have a decision value below 0: the offset corrects for rare classes.
        """
        probabilities = self._probabilities(self._decide(X))
        return probabilities.to(X.device) if isinstance(X, Tensor) else as_numpy(probabilities)

    @available_if(_calibrates)
    def probabilities_from(self, decisions: ArrayLike) -> np.ndarray[Any, Any]:
        """Return the probabilities (N, C) for the output of ``decision_function``."""
        given = torch.as_tensor(np.asarray(decisions))
        return as_numpy(self._probabilities(given[:, None] if given.ndim == 1 else given))

    def _probabilities(self, decisions: Tensor) -> Tensor:
        slopes, offsets = (torch.as_tensor(v).to(decisions) for v in (self.slopes_, self.offsets_))
        return Calibration(slopes, offsets).probabilities(decisions, self.single_label_)

    def _fit(self, rows: TrainingRows, problems: OneVsRest) -> LinearClassifier:
        self.classes_ = problems.classes
        self.single_label_ = problems.single
        self.C_, self.cv_scores_ = (1.0, None) if self.C == "cv" else (float(self.C), None)
        choice, self.validation_ = self._validate(rows, problems), None
        if choice is not None:
            self.validation_ = Validation.of(problems, choice)
            self.C_ = choice.C
            self.cv_scores_ = choice.scores if self.C == "cv" else None
        targets = torch.from_numpy(problems.targets).to(rows.like)
        costs = self.C_ * torch.from_numpy(problems.costs(self.class_weight)).to(rows.like)
        weights, biases = rows.fit(targets, costs, None if choice is None else choice.known)
        self.coef_, self.intercept_ = as_numpy(weights), as_numpy(biases)
        if self.calibrate:
            self._calibrate(problems, choice)
        return self

    def _validate(self, rows: TrainingRows, problems: OneVsRest) -> Choice | None:
        """Cross-validate to choose C or calibrate; return None if this is unnecessary or impossible."""
        if self.C != "cv" and not self.calibrate:
            return None
        folds = folds_for(problems, self.cv, self.random_state)
        if folds is None:
            warnings.warn(
                f"the smallest class has {problems.smallest_class} image and cv={self.cv}; two folds are "
                f"needed to choose C or calibrate. C={self.C_} is used, uncalibrated.",
                stacklevel=4,
            )
            return None
        Cs = tuple(self.Cs) if self.C == "cv" else (self.C_,)
        return choose_C(rows, problems, Cs, folds, self.class_weight)

    def _calibrate(self, problems: OneVsRest, choice: Choice | None) -> None:
        if choice is None:
            self.slopes_ = np.ones_like(self.intercept_)
            self.offsets_ = np.zeros_like(self.intercept_)
            return
        membership = torch.from_numpy(problems.membership).to(choice.decisions.device)
        given = problems.labels.weights
        weights = None if given is None else torch.from_numpy(given)
        if problems.single:
            calibration = fit_temperature(choice.decisions, membership.long().argmax(dim=1), weights)
        else:
            calibration = fit_sigmoids(choice.decisions, membership, weights)
        self.slopes_, self.offsets_ = as_numpy(calibration.slopes), as_numpy(calibration.offsets)

    def _decide(self, X: ArrayLike | Tensor) -> Tensor:
        """Return decision values (N, T)."""
        check_is_fitted(self)
        rows = as_matrix(self, X, reset=False, least=0)
        weights, biases = (torch.as_tensor(v).to(rows) for v in (self.coef_, self.intercept_))
        return plus_times(biases, rows, weights.T)

    def _check_training(self, X: ArrayLike | Tensor, y: Any) -> tuple[Tensor, OneVsRest]:
        self.check()
        if isinstance(X, Tensor) or isinstance(y, Labels):
            rows, problems = as_matrix(self, X, reset=True), OneVsRest.of(y)
            check_consistent_length(rows, problems.membership)
            return rows, problems
        y = as_numpy(y) if isinstance(y, Tensor) else y
        X, y = validate_data(self, X, y, dtype=[np.float64, np.float32], multi_output=True)
        return as_tensor(X, resolve_device(self.device)), OneVsRest.of(y)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        tags.target_tags.multi_output = True
        return tags

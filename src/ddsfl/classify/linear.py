"""One-vs-rest linear support vector machine whose C is chosen on the training images."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
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
    Labels,
    TrainingRows,
    choose_C,
    predicted_classes,
    stratified_folds,
)
from ddsfl.compute.device import as_numpy, as_tensor, make_generator, resolve_device
from ddsfl.compute.svm import fit_gram, fit_one_vs_rest


def _calibrates(classifier: LinearClassifier) -> bool:
    return bool(classifier.calibrate)


class LinearClassifier(ClassifierMixin, BaseEstimator):
    """One linear machine a class (L2-regularised squared hinge, regularised bias, as LIBLINEAR).

    C is chosen by stratified cross-validation: the training images are cut into folds, each fold is
    judged by machines fitted on the others, and the C with the best mean class accuracy (mean average
    precision where images have several labels) over all of them wins, the smallest of equal ones. The
    Gram matrix of the training images is computed once for all folds and Cs.

    Parameters
    ----------
    C : cost of a violated margin, or "cv" to choose it from ``Cs``.
    Cs : the costs that "cv" tries.
    cv : number of folds; no more than the smallest class has images. If that leaves fewer than two
        folds, "cv" takes C = 1 and probabilities are not calibrated (slope 1), with a warning.
    class_weight : None; "balanced" makes all classes weigh the same in every problem (of images with
        several labels: those with and those without the label); a dictionary of label to weight.
    calibrate : also learn probabilities from the out-of-fold decision values: one label an image,
        softmax(slope * decision); several labels, sigmoid(slope * decision + offset) a class.
    device : where to compute; "auto" is CUDA where there is one.
    random_state : seed of the folds.

    Attributes
    ----------
    classes_ : (C,) the labels; column numbers for an indicator matrix.
    single_label_ : whether every image has one label.
    C_ : the C in use.
    cv_scores_ : score of each of ``Cs``; None where nothing was validated.
    coef_ : (T, P) weights, T = 1 for two classes.
    intercept_ : (T,) biases.
    slopes_, offsets_ : (T,) the calibration, if asked for.

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

    n_features_in_: int
    coef_: np.ndarray[Any, Any]

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

    def fit(self, X: ArrayLike | Tensor, y: ArrayLike | Tensor) -> LinearClassifier:
        """Fit on vectors ``X`` (N, P) with one label each, or an indicator matrix (N, C), in ``y``."""
        rows, labels = self._check_training(X, y)
        if len(rows) > rows.shape[1]:
            return self._fit(TrainingRows(rows, is_gram=False), labels)
        self._fit(TrainingRows(rows @ rows.T, is_gram=True), labels)
        self.coef_ = as_numpy(torch.as_tensor(self.coef_).to(rows) @ rows)
        return self

    def fit_gram(self, gram: ArrayLike | Tensor, y: ArrayLike | Tensor) -> LinearClassifier:
        """Fit on the inner products ``gram`` (N, N) of the training images.

        From then on an image to classify is a row of its N inner products with the training images,
        and ``coef_`` (T, N) says what each of these counts: ``coef_ @ X`` are the weights of inputs.
        """
        rows, labels = self._check_training(gram, y)
        if rows.shape[0] != rows.shape[1]:
            raise ValueError(f"gram has shape {tuple(rows.shape)}; expected a square matrix.")
        return self._fit(TrainingRows(rows, is_gram=True), labels)

    def decision_function(self, X: ArrayLike | Tensor) -> Any:
        """Return decision values (N, C); (N,) for two classes of single labels, above 0 the second."""
        decisions = self._decide(X)
        if self.single_label_ and len(self.classes_) == 2:
            decisions = decisions[:, 0]
        return decisions.to(X.device) if isinstance(X, Tensor) else as_numpy(decisions)

    def predict(self, X: ArrayLike | Tensor) -> np.ndarray[Any, Any]:
        """Return (N,) labels, or for several labels an image an indicator (N, C): decisions above 0."""
        decisions = self._decide(X)
        if self.single_label_:
            return self.classes_[predicted_classes(decisions)]
        return as_numpy(decisions > 0).astype(np.int64)

    @available_if(_calibrates)
    def predict_proba(self, X: ArrayLike | Tensor) -> Any:
        """Return (N, C) probabilities; only with ``calibrate=True``.

        With one label an image the likeliest class is the predicted one. With several, a class
        above one half need not have a decision value above 0: the offset corrects for rare classes.
        """
        decisions = self._decide(X)
        slopes, offsets = (torch.as_tensor(v).to(decisions) for v in (self.slopes_, self.offsets_))
        found = Calibration(slopes, offsets).probabilities(decisions, self.single_label_)
        return found.to(X.device) if isinstance(X, Tensor) else as_numpy(found)

    def _fit(self, rows: TrainingRows, labels: Labels) -> LinearClassifier:
        self.classes_ = labels.classes
        self.single_label_ = labels.single
        self.C_, self.cv_scores_ = (1.0, None) if self.C == "cv" else (float(self.C), None)
        choice = self._validate(rows, labels)
        if choice is not None:
            self.C_ = choice.C
            self.cv_scores_ = choice.scores if self.C == "cv" else None
        targets = torch.from_numpy(labels.targets).to(rows.matrix)
        costs = self.C_ * torch.from_numpy(labels.costs(self.class_weight)).to(rows.matrix)
        if rows.is_gram:
            solution = fit_gram(rows.matrix, targets, costs)
            weights, biases = solution.coefficients.T, solution.biases
        else:
            weights, biases = fit_one_vs_rest(rows.matrix, targets, costs)
        self.coef_, self.intercept_ = as_numpy(weights), as_numpy(biases)
        if self.calibrate:
            self._calibrate(labels, choice)
        return self

    def _validate(self, rows: TrainingRows, labels: Labels) -> Choice | None:
        """Cross-validate for C or the calibration; None where nothing needs it or nothing can."""
        if self.C != "cv" and not self.calibrate:
            return None
        n_folds = min(self.cv, labels.smallest_class)
        if n_folds < 2:
            warnings.warn(
                f"the smallest class has {labels.smallest_class} image and cv={self.cv}; two folds are "
                f"needed to choose C or calibrate. C={self.C_} is used, uncalibrated.",
                stacklevel=4,
            )
            return None
        generator = make_generator(self.random_state)
        folds = stratified_folds(labels.membership, n_folds, generator)
        Cs = tuple(self.Cs) if self.C == "cv" else (self.C_,)
        return choose_C(rows, labels, Cs, folds, self.class_weight)

    def _calibrate(self, labels: Labels, choice: Choice | None) -> None:
        if choice is None:
            self.slopes_ = np.ones_like(self.intercept_)
            self.offsets_ = np.zeros_like(self.intercept_)
            return
        membership = torch.from_numpy(labels.membership).to(choice.decisions.device)
        if labels.single:
            found = fit_temperature(choice.decisions, membership.long().argmax(dim=1))
        else:
            found = fit_sigmoids(choice.decisions, membership)
        self.slopes_, self.offsets_ = as_numpy(found.slopes), as_numpy(found.offsets)

    def _decide(self, X: ArrayLike | Tensor) -> Tensor:
        """Return decision values (N, T)."""
        check_is_fitted(self)
        rows = self._check(X, reset=False)
        weights, biases = (torch.as_tensor(v).to(rows) for v in (self.coef_, self.intercept_))
        return rows @ weights.T + biases

    def _check_training(self, X: ArrayLike | Tensor, y: Any) -> tuple[Tensor, Labels]:
        if self.C != "cv" and not (isinstance(self.C, int | float) and self.C > 0):
            raise ValueError(f"C={self.C!r}; expected 'cv' or a number above 0.")
        if self.C == "cv" and (len(self.Cs) == 0 or min(self.Cs) <= 0):
            raise ValueError(f"Cs={self.Cs!r}; expected numbers above 0.")
        if isinstance(X, Tensor):
            labels = Labels.read(y)
            rows = self._check(X, reset=True)
            check_consistent_length(rows, labels.membership)
            return rows, labels
        y = as_numpy(y) if isinstance(y, Tensor) else y
        precision = [np.float64, np.float32]
        X, y = validate_data(self, X, y, dtype=precision, multi_output=True)
        return as_tensor(X, resolve_device(self.device)), Labels.read(y)

    def _check(self, X: ArrayLike | Tensor, *, reset: bool) -> Tensor:
        """Return ``X`` as a finite matrix of the right width on the device of this estimator."""
        if not isinstance(X, Tensor):
            X = validate_data(self, X, reset=reset, dtype=[np.float64, np.float32])
        elif X.ndim != 2 or not (reset or X.shape[1] == self.n_features_in_):
            width = "P" if reset else self.n_features_in_
            raise ValueError(f"X has shape {tuple(X.shape)}; expected (N, {width}).")
        elif not torch.isfinite(X).all():
            raise ValueError("X contains NaN or infinity.")
        elif reset:
            self.n_features_in_ = X.shape[1]
        return as_tensor(X, resolve_device(self.device))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        tags.target_tags.multi_output = True
        return tags

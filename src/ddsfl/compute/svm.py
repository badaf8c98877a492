"""Many linear support vector machines at once, solved by exact Newton steps.

Every problem is LIBLINEAR's L2-regularised squared hinge with regularised bias, which is scikit-learn's
``LinearSVC(loss="squared_hinge", intercept_scaling=1)``:

    minimise  0.5 ||w||^2 + 0.5 b^2 + sum_i C_i max(0, 1 - y_i (w.x_i + b))^2.

The objective is quadratic as long as the set of active rows, those with y_i (w.x_i + b) < 1, does
not change. A Newton step solves the quadratic of the current set (Chapelle, "Training a support
vector machine in the primal", 2007); an exact line search makes the number of steps finite from any
start (Keerthi and DeCoste, 2005). The bias is the weight of an additional input that is always 1.

Rows with target 0 or cost 0 are ignored. Problems whose rows all have the same sign are solved as
stated (LinearSVC rejects them); without any rows the weights are 0.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ddsfl.compute.device import rows_within, slices
from ddsfl.compute.gram import Gram
from ddsfl.compute.newton import Own, Shared, newton

#: Number of tensors with one value per row and problem that are in memory at once.
ROW_TENSORS = 12


class GramSolution(NamedTuple):
    """Solutions as weights of the rows: w_t = X' coefficients[:, t]."""

    #: (N, T), zero for rows beyond the margin.
    coefficients: Tensor
    #: (T,)
    biases: Tensor
    #: Newton steps of the slowest problem.
    n_iter: int


class LinearSolution(NamedTuple):
    """Solutions as hyperplanes, one per row: outputs are X @ weights.T + biases."""

    weights: Tensor
    biases: Tensor


def fit_gram(gram: Tensor, targets: Tensor, C: float | Tensor, start: Tensor | None = None) -> GramSolution:
    """Solve T problems over the same N rows, given the rows' inner products.

    Use this if there are fewer rows than inputs. A neighbouring solution as ``start`` makes a path
    over C cheap: ``fit_gram(gram, targets, 2 * C, start=solution.coefficients)``.

    Parameters
    ----------
    gram : (N, N) inner products of the rows, X X'; the bias is added inside.
    targets : (N, T) in {-1, 0, +1}, one problem per column; 0 excludes the row from the problem.
    C : cost of a row: one number for all, (T,) one per problem, or (N, T) one per row and problem.
    start : (N, T) initial coefficients, zeros by default.

    Examples
    --------
    >>> X = torch.tensor([[2.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
    >>> targets = torch.tensor([[1.0], [1.0], [-1.0]])
    >>> solution = fit_gram(X @ X.T, targets, C=1.0)
    >>> bool(((X @ (X.T @ solution.coefficients) + solution.biases) * targets > 0).all())
    True
    """
    if gram.ndim != 2 or gram.shape[0] != gram.shape[1]:
        raise ValueError(f"gram has shape {tuple(gram.shape)}; expected a square matrix.")
    n_rows = len(gram)
    _check_targets(targets, n_rows)
    if start is not None and start.shape != targets.shape:
        raise ValueError(f"start has shape {tuple(start.shape)}; expected {tuple(targets.shape)}.")
    signs = targets.T.to(gram).contiguous()
    coefficients = torch.zeros_like(signs) if start is None else start.T.to(gram).clone()
    costs, form, n_iter = _costs(C, signs), Gram(gram), 0
    for chunk in slices(len(signs), rows_within(ROW_TENSORS * n_rows * gram.element_size())):
        n_iter = max(n_iter, newton(form, signs[chunk], costs[chunk], coefficients[chunk]))
    return GramSolution(coefficients.T.contiguous(), coefficients.sum(1), n_iter)


def fit_one_vs_rest(X: Tensor, targets: Tensor, C: float | Tensor) -> LinearSolution:
    """Solve T problems over the rows of one matrix; return weights (T, P) and biases (T,).

    Parameters
    ----------
    X : (N, P) rows.
    targets, C : as in :func:`fit_gram`.

    Examples
    --------
    >>> X = torch.tensor([[2.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
    >>> weights, biases = fit_one_vs_rest(X, torch.tensor([[1.0], [1.0], [-1.0]]), C=1.0)
    >>> weights.shape, biases.shape
    (torch.Size([1, 2]), torch.Size([1]))
    """
    if X.ndim != 2:
        raise ValueError(f"X has shape {tuple(X.shape)}; expected two dimensions, (rows, inputs).")
    n_rows, n_inputs = X.shape
    _check_targets(targets, n_rows)
    if n_rows <= n_inputs:
        coefficients, biases, _ = fit_gram(X @ X.T, targets, C)
        return LinearSolution(coefficients.T @ X, biases)
    signs = targets.T.to(X).contiguous()
    costs = _costs(C, signs)
    form = Shared(X)
    planes = X.new_zeros(len(signs), n_inputs + 1)
    for chunk in slices(len(signs), rows_within(ROW_TENSORS * n_rows * X.element_size())):
        newton(form, signs[chunk], costs[chunk], planes[chunk])
    return _as_solution(form.turned_back(planes))


def fit_batch(
    X: Tensor, targets: Tensor, C: float | Tensor, negatives: Tensor | None = None
) -> LinearSolution:
    """Solve B small independent problems, each with its own rows; return (B, P) and (B,).

    Parameters
    ----------
    X : (B, n, P) rows of each problem.
    targets : (B, n) in {-1, 0, +1}; 0 marks padding, whose row may contain any finite numbers.
    C : cost of a row: one number for all, (B,) one per problem or, without ``negatives``, (B, n).
    negatives : (M, P) rows with target -1 that are added to every problem; they are stored once, so
        thousands of clusters against the same negatives need little memory.

    Examples
    --------
    >>> X = torch.tensor([[[2.0], [0.0]], [[3.0], [9.0]]])
    >>> targets = torch.tensor([[1.0, -1.0], [1.0, 0.0]])
    >>> weights, biases = fit_batch(X, targets, C=10.0, negatives=torch.tensor([[-1.0], [-2.0]]))
    >>> (weights.flatten() + biases > 0).tolist()
    [True, True]
    """
    if X.ndim != 3:
        raise ValueError(
            f"X has shape {tuple(X.shape)}; expected three dimensions, (problems, rows, inputs)."
        )
    n_problems, n_rows, n_inputs = X.shape
    if targets.shape != X.shape[:2]:
        raise ValueError(f"targets has shape {tuple(targets.shape)}; expected {tuple(X.shape[:2])}.")
    signs = targets.to(X)
    planes = X.new_zeros(n_problems, n_inputs + 1)
    numbers = ROW_TENSORS * n_rows + 2 * n_rows * n_inputs
    if negatives is None:
        numbers += 2 * min(n_rows, n_inputs + 1) ** 2
        costs = _costs(C.T if isinstance(C, Tensor) and C.ndim == 2 else C, signs)
        for chunk in slices(n_problems, rows_within(numbers * X.element_size())):
            newton(Own(X[chunk]), signs[chunk], costs[chunk], planes[chunk])
        return _as_solution(planes)
    if negatives.ndim != 2 or negatives.shape[1] != n_inputs:
        raise ValueError(f"negatives has shape {tuple(negatives.shape)}; expected (rows, {n_inputs}).")
    costs = torch.as_tensor(C).to(X).expand(n_problems)
    numbers += ROW_TENSORS * len(negatives)
    form = Shared(negatives.to(X))
    for chunk in slices(n_problems, rows_within(numbers * X.element_size())):
        rest = signs.new_full((len(signs[chunk]), len(negatives)), -1.0)
        all_signs = torch.cat([signs[chunk], rest], 1)
        all_costs = _costs(costs[chunk], all_signs)
        newton(form.with_own(X[chunk]), all_signs, all_costs, planes[chunk])
    return _as_solution(form.turned_back(planes))


def _as_solution(planes: Tensor) -> LinearSolution:
    """Return planes (B, P + 1) as weights and biases."""
    return LinearSolution(planes[:, :-1].contiguous(), planes[:, -1].contiguous())


def _check_targets(targets: Tensor, n_rows: int) -> None:
    if targets.ndim != 2 or len(targets) != n_rows:
        raise ValueError(
            f"targets has shape {tuple(targets.shape)}; expected ({n_rows}, number of problems)."
        )


def _costs(C: float | Tensor, signs: Tensor) -> Tensor:
    """Return the cost of each row, (B, n), zero for ignored rows."""
    n_problems, n_rows = signs.shape
    costs = torch.as_tensor(C).to(signs)
    shapes = [(), (n_problems,), (n_rows, n_problems)]
    if tuple(costs.shape) not in shapes:
        raise ValueError(f"C has shape {tuple(costs.shape)}; expected a number or one of {shapes[1:]}.")
    if not bool((torch.isfinite(costs) & (costs >= 0)).all()):
        raise ValueError("C must be finite and not negative.")
    if not bool(((signs == 0) | (signs.abs() == 1)).all()):
        raise ValueError("targets must contain only -1, 0 and +1.")
    by_problem = costs.T if costs.ndim == 2 else costs.reshape(-1, 1)
    return by_problem * (signs != 0)

"""Curvature model of L-BFGS: past steps and the changes of the gradient they caused."""

from __future__ import annotations

from collections import deque

import numpy as np
import torch
from torch import Tensor


class Curvature:
    """Past steps s_i and changes y_i of the gradient, which determine the next direction.

    The two-loop recursion (Nocedal and Wright, Algorithm 7.4) only adds multiples of these pairs and of the
    gradient, so it can run on the multiples alone. One matrix product gives the new inner products, the
    recursion runs on a few numbers on the host, and a second product gives the direction. On a GPU this
    takes six kernels instead of about a hundred.

    Parameters
    ----------
    history : maximum number of pairs; the oldest is dropped.

    Examples
    --------
    For a quadratic with Hessian 4, one pair is enough:

    >>> known = Curvature(history=3)
    >>> known.add(torch.tensor([1.0]), torch.tensor([4.0]), curvature=4.0)
    >>> known.direction(torch.tensor([2.0]))
    tensor([-0.5000])
    """

    def __init__(self, history: int) -> None:
        self.history = history
        self.forget()

    def forget(self) -> None:
        """Drop all pairs."""
        self._slots: deque[int] = deque(maxlen=self.history)  # of the pairs, oldest first
        # Steps fill the first rows, changes the last; products are the inner products of all rows.
        self._rows: Tensor | None = None
        self._products = np.zeros((2 * self.history, 2 * self.history))
        self._curvatures = np.ones(self.history)
        self._unknown: list[int] = []  # rows whose products are not computed yet

    def __len__(self) -> int:
        return len(self._slots)

    def add(self, step: Tensor, change: Tensor, curvature: float) -> None:
        """Add a pair; ``curvature`` is its inner product, which must be positive."""
        if self._rows is None:
            self._rows = step.new_zeros(2 * self.history, step.numel())
        slot = self._slots[0] if len(self) == self.history else len(self)
        self._slots.append(slot)
        self._curvatures[slot] = curvature
        for row, vector in ((slot, step), (self.history + slot, change)):
            self._rows[row] = vector.flatten()
            if row not in self._unknown:
                self._unknown.append(row)

    def direction(self, gradient: Tensor) -> Tensor:
        """Return minus the modelled inverse Hessian times the gradient."""
        if self._rows is None:
            return -gradient
        flat = gradient.flatten()
        with_gradient = self._learn_products(flat)
        own, multiples = self._recursion(with_gradient)
        factors = torch.from_numpy(multiples).to(flat.dtype).to(flat.device, non_blocking=True)
        return torch.addmv(own * flat, self._rows.T, factors).view_as(gradient)

    def _learn_products(self, gradient: Tensor) -> np.ndarray:
        """Return the products of all rows with the gradient and store those of new rows, in one transfer."""
        assert self._rows is not None
        # One by one: an index list would be copied to the GPU, which forces a synchronisation.
        columns = torch.stack([gradient, *(self._rows[row] for row in self._unknown)])
        products = np.array((self._rows @ columns.T).tolist())
        for column, row in enumerate(self._unknown, start=1):
            self._products[row] = self._products[:, row] = products[:, column]
        self._unknown = []
        first: np.ndarray = products[:, 0]
        return first

    def _recursion(self, with_gradient: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the multiples of the gradient and of all rows that make up the direction."""
        own, multiples, weights = -1.0, np.zeros(2 * self.history), {}

        def product(row: int) -> float:
            return float(own * with_gradient[row] + self._products[row] @ multiples)

        for slot in reversed(self._slots):
            weights[slot] = product(slot) / self._curvatures[slot]
            multiples[self.history + slot] -= weights[slot]
        last = self._slots[-1]
        change = self.history + last
        scale = self._curvatures[last] / self._products[change, change]
        own, multiples = own * scale, multiples * scale
        for slot in self._slots:
            multiples[slot] += weights[slot] - product(self.history + slot) / self._curvatures[slot]
        return own, multiples

"""What L-BFGS knows of the curvature: past steps, and what they did to the gradient."""

from __future__ import annotations

from collections import deque

import numpy as np
import torch
from torch import Tensor


class Curvature:
    """Past steps s_i and changes y_i of the gradient, from which the next direction is made.

    The two-loop recursion (Nocedal and Wright, Algorithm 7.4) adds nothing but multiples of these pairs and
    of the gradient. So it runs on the multiples alone: one matrix product gives the inner products that are
    new, a few numbers on the host do the recursion, and a second product makes the direction. On a GPU that
    is six kernels instead of some hundred.

    Parameters
    ----------
    history : pairs that are kept at most; the oldest is dropped.

    Examples
    --------
    For a quadratic with the Hessian 4 one pair says all:

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
        self._slots: deque[int] = deque(maxlen=self.history)  # of the pairs, the oldest first
        # Steps stand in the first rows, changes in the last; products are those of rows with each other.
        self._rows: Tensor | None = None
        self._products = np.zeros((2 * self.history, 2 * self.history))
        self._curvatures = np.ones(self.history)
        self._unknown: list[int] = []  # rows whose products are not known yet

    def __len__(self) -> int:
        return len(self._slots)

    def add(self, step: Tensor, change: Tensor, curvature: float) -> None:
        """Add a pair; ``curvature`` is their inner product, above 0."""
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
        """Return minus the gradient times the modelled inverse of the Hessian."""
        if self._rows is None:
            return -gradient
        flat = gradient.flatten()
        with_gradient = self._learn_products(flat)
        own, multiples = self._recursion(with_gradient)
        factors = torch.from_numpy(multiples).to(flat.dtype).to(flat.device, non_blocking=True)
        return torch.addmv(own * flat, self._rows.T, factors).view_as(gradient)

    def _learn_products(self, gradient: Tensor) -> np.ndarray:
        """Return the products of all rows with the gradient; those of new rows are noted, in one transfer."""
        assert self._rows is not None
        # One by one: a list of numbers as an index would travel to a GPU and wait for it.
        columns = torch.stack([gradient, *(self._rows[row] for row in self._unknown)])
        found = np.array((self._rows @ columns.T).tolist())
        for column, row in enumerate(self._unknown, start=1):
            self._products[row] = self._products[:, row] = found[:, column]
        self._unknown = []
        first: np.ndarray = found[:, 0]
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

"""Patches with planted sharing: atoms used by all classes, by two classes or by one class."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

#: Which of four classes uses which of fourteen atoms: two are used by all, four by two each, eight by one.
USES = np.concatenate(
    [
        np.ones((4, 2), dtype=bool),
        np.eye(4, dtype=bool) | np.roll(np.eye(4, dtype=bool), 1, axis=1),
        np.repeat(np.eye(4, dtype=bool), 2, axis=1),
    ],
    axis=1,
)


class Planted(NamedTuple):
    """Patches X (N, P) of unit mean energy, labels y (N,), images (N,), unit atoms (A, P), uses (C, A)."""

    X: np.ndarray
    y: np.ndarray
    groups: np.ndarray
    atoms: np.ndarray
    uses: np.ndarray


def make_planted(
    seed: int, noise: float = 0.1, n_inputs: int = 24, a_class: int = 600, active: int = 3
) -> Planted:
    """Draw patches that are sums of ``active`` atoms of their class with Laplacian weights.

    Atoms are random directions, so any two of them are correlated (0.16 on average at 24 inputs).
    ``noise`` is the root mean square of the noise divided by that of the signal.
    """
    rng = np.random.default_rng(seed)
    n_classes, n_atoms = USES.shape
    atoms = rng.normal(size=(n_atoms, n_inputs))
    atoms /= np.linalg.norm(atoms, axis=1, keepdims=True)
    y = np.repeat(np.arange(n_classes), a_class)
    keys = np.where(USES[y], rng.random((len(y), n_atoms)), -1.0)
    weights = rng.laplace(size=keys.shape) * (keys >= np.sort(keys, axis=1)[:, [-active]])
    signal = weights @ atoms
    level = np.sqrt((signal**2).mean())
    X = signal + noise * level * rng.normal(size=signal.shape)
    X /= np.sqrt((X**2).sum(1).mean())
    return Planted(X, y, np.arange(len(y)) // 5, atoms, USES)


def recovered_uses(filters: np.ndarray, sharing: np.ndarray, atoms: np.ndarray) -> np.ndarray:
    """Return which class uses which atom (C, A), according to filters (D, P) and sharing (C, D).

    A filter represents the atom that it correlates with most. A class uses an atom if it activates
    a filter that represents this atom.
    """
    represented = np.abs(filters @ atoms.T).argmax(1)
    return np.stack([(sharing & (represented == a)).any(1) for a in range(len(atoms))], axis=1)


def f1(recovered: np.ndarray, true: np.ndarray) -> float:
    """Return the F1 score of the bool array ``recovered`` against ``true``."""
    return float(2 * (recovered & true).sum() / max(1, recovered.sum() + true.sum()))

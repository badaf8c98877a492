"""Arrays by name as they come from a file: each is checked before anything is built from it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

#: A length: exactly this, or from the first number to the second.
Length = int | tuple[int, int]
#: Any length except 0.
SOME: Length = (1, 2**40)
#: Real numbers beyond this are never learned. Within it, sums of products of two do not overflow in single
#: precision.
LARGEST = 1e12


class Tensors(Mapping[str, Array]):
    """Arrays by name; a missing one raises KeyError, one that is not as expected ValueError with its name.

    Parameters
    ----------
    arrays : the arrays by their complete names.
    prefix : only arrays whose names begin with it are meant, by the rest of their names.

    Examples
    --------
    >>> tensors = Tensors({"block.edges.words": np.eye(2), "block.edges.labels": np.arange(3)})
    >>> edges = tensors.within("block.edges.")
    >>> edges.real("words", (1, 9), 2).shape, edges.whole("labels", 3, most=2)
    ((2, 2), array([0, 1, 2]))
    >>> edges.real("words", 3, 2)
    Traceback (most recent call last):
    ValueError: tensor 'block.edges.words' has shape (2, 2); expected (3, 2).
    >>> Tensors({"words": np.eye(2)}).unread()
    ['words']
    """

    def __init__(self, arrays: Mapping[str, Array], prefix: str = "") -> None:
        self.arrays, self.prefix = arrays, prefix
        self._read: set[str] = set()

    @classmethod
    def of(cls, state: Mapping[str, Array]) -> Tensors:
        """Return ``state`` as tensors; tensors themselves are returned unchanged."""
        return state if isinstance(state, Tensors) else cls(state)

    def within(self, prefix: str) -> Tensors:
        """Return those whose names go on with ``prefix``."""
        some = Tensors(self.arrays, self.prefix + prefix)
        some._read = self._read
        return some

    def unread(self) -> list[str]:
        """Return the complete names of all arrays that nobody asked for, here or `within`."""
        return sorted(self.arrays.keys() - self._read)

    def __getitem__(self, name: str) -> Array:
        complete = self.prefix + name
        if complete not in self.arrays:
            raise KeyError(complete)
        self._read.add(complete)
        return np.asarray(self.arrays[complete])

    def __contains__(self, name: object) -> bool:
        return f"{self.prefix}{name}" in self.arrays

    def __iter__(self) -> Iterator[str]:
        return (name.removeprefix(self.prefix) for name in self.arrays if name.startswith(self.prefix))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def real(self, name: str, *shape: Length, least: float = -LARGEST, most: float = LARGEST) -> Array:
        """Return an array of single or double precision, all of it finite and from ``least`` to ``most``."""
        return self._checked(name, ("float32", "float64"), shape, least, most)

    def whole(self, name: str, *shape: Length, least: int = 0, most: int = 2**53) -> Array:
        """Return an array of 64-bit integers from ``least`` to ``most``."""
        return self._checked(name, ("int64",), shape, least, most)

    def flags(self, name: str, *shape: Length) -> Array:
        """Return an array of true and false."""
        return self._checked(name, ("bool",), shape)

    def bytes(self, name: str, *shape: Length) -> Array:
        """Return an array of bytes."""
        return self._checked(name, ("uint8",), shape)

    def wrong(self, name: str, found: str, expected: str) -> ValueError:
        """Return the error of a tensor that is not as expected."""
        return ValueError(f"tensor {self.prefix + name!r} {found}; expected {expected}.")

    def _checked(
        self,
        name: str,
        kinds: tuple[str, ...],
        shape: tuple[Length, ...],
        least: float | None = None,
        most: float = 0,
    ) -> Array:
        array = self[name]
        if array.dtype.name not in kinds:
            raise self.wrong(name, f"has type {array.dtype}", " or ".join(kinds))
        fits = array.ndim == len(shape) and all(map(_fits, array.shape, shape))
        if not fits:
            raise self.wrong(name, f"has shape {array.shape}", _shape_words(shape))
        if least is not None and array.size and not _is_small(array, min(-least, most)):
            # Not isfinite, which needs a temporary array; NaN fails both comparisons.
            low, high = array.min(), array.max()
            if not (least <= low and high <= most):
                raise self.wrong(
                    name, f"has values from {low:g} to {high:g}", f"numbers from {least:g} to {most:g}"
                )
        return array


def _is_small(array: Array, most: float) -> bool:
    """Return whether all values surely have magnitudes up to ``most``: the sum of their squares does.

    >>> _is_small(np.ones(3), 2.0), _is_small(np.ones(9), 2.0), _is_small(np.full(3, np.nan), 2.0)
    (True, False, False)
    """
    if array.dtype.kind != "f" or most <= 0:
        return False
    values = array.reshape(-1)
    with np.errstate(all="ignore"):
        return bool(np.dot(values, values) <= most**2)  # one fast pass, and no number hides from it


def _fits(found: int, length: Length) -> bool:
    return found == length if isinstance(length, int) else length[0] <= found <= length[1]


def _shape_words(shape: tuple[Length, ...]) -> str:
    """Return a shape for people.

    >>> _shape_words((SOME, 3)), _shape_words(((0, 9),)), _shape_words(())
    ('(1 or more, 3)', '(0 to 9,)', '()')
    """
    lengths = [_length_words(length) for length in shape]
    return f"({', '.join(lengths)}{',' * (len(lengths) == 1)})"


def _length_words(length: Length) -> str:
    if isinstance(length, int):
        return str(length)
    return f"{length[0]} or more" if length == SOME else f"{length[0]} to {length[1]}"

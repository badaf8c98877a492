"""Rows with positions: the output of every local descriptor, and the base of their codes."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self

import numpy as np
import torch
from torch import Tensor

from ddsfl.compute.device import as_numpy, as_tensor
from ddsfl.patches.sampling import draw_evenly, sampled_images

Matrix = np.ndarray[Any, Any]
if TYPE_CHECKING:
    from typing_extensions import TypeVar  # before Python 3.13, type variables of `typing` have no default

    Array = TypeVar("Array", bound=Tensor | Matrix, default=Tensor)
else:
    from typing import TypeVar

    Array = TypeVar("Array")

#: Arrays of whole numbers; the others are floating point.
INTEGERS = ("images", "shapes", "indices")


#: How far positions may lie outside their image, in pixels: detectors of points round differently.
OVERSHOOT = 1.0


def not_a_matrix(described: Any) -> ValueError:
    """Return the error of whoever takes descriptors or codes for one vector per image."""
    return ValueError(
        f"{type(described).__name__} is not a matrix with one row per image; code and pool it first, for "
        "example with LLC and SpatialPyramid, or with FisherVector. LocalDescriptors have the descriptors "
        "themselves, one per row, as `vectors`."
    )


class LocalRows(Generic[Array]):
    """Rows of several images, each with a position: the common part of descriptors and codes.

    All arrays are tensors on one device, or all are NumPy arrays.
    """

    #: Names of the arrays.
    ARRAYS: ClassVar[tuple[str, ...]]
    positions: Array
    images: Array
    shapes: Array

    def __len__(self) -> int:
        return len(self.images)

    def __repr__(self) -> str:
        # Shapes instead of values: thousands of rows would fill a notebook.
        sizes = (f"{name} {tuple(getattr(self, name).shape)}" for name in self.ARRAYS)
        return f"<{type(self).__name__}: {', '.join(sizes)}>"

    def __array__(self, *_: Any, **__: Any) -> Matrix:
        raise not_a_matrix(self)

    @property
    def n_images(self) -> int:
        """Number of images in the batch, including those without rows."""
        return len(self.shapes)

    def then(self, step: Callable[[Any], Any], device: torch.device | None = None) -> Any:
        """Return what ``step`` makes of the rows: of arrays arrays, of tensors tensors on their device.

        ``step`` gets tensors, on ``device`` if given.
        """
        made = step(self._tensors(device))
        return made.on(self.images.device) if isinstance(self.images, Tensor) else made.numpy()

    def pooled(self, pool: Callable[[Any], Tensor], device: torch.device | None = None) -> Matrix | Tensor:
        """Return the vectors (n_images, width) that ``pool`` makes of the rows; kinds as in `then`."""
        vectors = pool(self._tensors(device))
        return vectors.to(self.images.device) if isinstance(self.images, Tensor) else as_numpy(vectors)

    def on(self, device: torch.device | str) -> Self:
        """Return the rows with all arrays as tensors on a device."""
        return self._each(
            lambda name, array: as_tensor(array, device, torch.int64 if name in INTEGERS else None)
        )

    def numpy(self) -> Any:
        """Return the rows with all arrays as NumPy arrays."""
        return self._each(lambda _, array: as_numpy(array) if isinstance(array, Tensor) else array)

    def _tensors(self, device: torch.device | None) -> Self:
        """Return the rows as tensors with checked values: wrong ones would fail in torch, or silently."""
        here = self.images.device if isinstance(self.images, Tensor) else "cpu"
        rows = self.on(here if device is None else device)
        for name in set(INTEGERS).intersection(self.ARRAYS):
            if not _is_whole(getattr(self, name)):
                raise ValueError(f"{name} has fractions or NaN; expected whole numbers.")
        for name in self.ARRAYS:
            if name not in INTEGERS and not bool(torch.isfinite(getattr(rows, name)).all()):
                raise ValueError(f"{name} contains NaN or infinity; expected finite numbers.")
        for name, (count, why) in self._ranges().items():
            numbers: Any = getattr(rows, name)
            if numbers.numel() and not 0 <= int(numbers.min()) <= int(numbers.max()) < count:
                found = f"{int(numbers.min())} to {int(numbers.max())}"
                raise ValueError(
                    f"{name} has numbers from {found}; expected 0 to {count - 1}, because {why}."
                )
        _warn_outside(rows.positions, rows.shapes[rows.images])
        return rows

    def _ranges(self) -> dict[str, tuple[int, str]]:
        """Return, for arrays of numbers, how many things are numbered, and how that is known."""
        return {"images": (self.n_images, f"shapes has {self.n_images} rows")}

    def _each(self, change: Callable[[str, Any], Any]) -> Any:
        """Return a copy in which every array is ``change`` of its name and its value."""
        arrays = {name: change(name, getattr(self, name)) for name in self.ARRAYS}
        return dataclasses.replace(self, **arrays)  # type: ignore[type-var]

    def _check(self, **widths: int | None) -> None:
        """Raise ValueError for arrays of other shapes; ``widths`` are those of the arrays with one row each.

        This looks only at shapes: it runs for every batch, and values would have to leave the GPU.
        """
        for name in self.ARRAYS:
            if not isinstance(getattr(self, name), Tensor | np.ndarray):
                kind = type(getattr(self, name)).__name__
                raise ValueError(f"{name} is a {kind}; expected an array or a tensor.")
            dtype = getattr(self, name).dtype
            if isinstance(dtype, np.dtype) and dtype.kind not in "biuf":
                raise ValueError(f"{name} has dtype {dtype}; expected numbers.")
        n_rows = self.images.shape[0] if self.images.ndim == 1 else None
        if n_rows is None:
            raise ValueError(f"images has shape {tuple(self.images.shape)}; expected one number per row.")
        for name, width in {**widths, "positions": 2}.items():
            shape = tuple(getattr(self, name).shape)
            if len(shape) != 2 or shape[0] != n_rows or (width is not None and shape[1] != width):
                columns = "columns" if width is None else width
                raise ValueError(
                    f"{name} has shape {shape}; expected ({n_rows}, {columns}), one row for each of images."
                )
        if self.shapes.ndim != 2 or self.shapes.shape[1] != 2:
            raise ValueError(
                f"shapes has shape {tuple(self.shapes.shape)}; expected (n_images, 2), heights and widths."
            )

    @classmethod
    def of_list(cls, X: Any) -> Self | None:
        """Return a list of rows of one or more images each as one; None for anything but such a list."""
        if not isinstance(X, list | tuple):
            return None
        if not X:
            raise ValueError(f"X is empty; expected {cls.__name__} of at least one image.")
        if not any(isinstance(part, LocalRows) for part in X):
            return None
        for number, part in enumerate(X):
            if not isinstance(part, cls):
                kind = type(part).__name__
                raise ValueError(f"X[{number}] is {kind}; expected {cls.__name__}, as for all images.")
        return cls.stacked(X)

    @classmethod
    def stacked(cls, parts: Sequence[Any]) -> Self:
        """Join the rows of different images, in their order; see `LocalDescriptors.joined` for one batch."""
        for name in cls.ARRAYS:
            widths = {tuple(getattr(part, name).shape[1:]) for part in parts}
            if len(widths) > 1:
                found = " and ".join(str(width[0]) for width in sorted(widths))
                raise ValueError(f"X has {name} of {found} values; expected the same number for all images.")
        starts = np.cumsum([0, *(part.n_images for part in parts)])
        on_tensors = isinstance(parts[0].images, Tensor)
        join: Callable[[Any], Any] = torch.cat if on_tensors else np.concatenate
        arrays = {name: join([getattr(part, name) for part in parts]) for name in cls.ARRAYS}
        arrays["images"] = join([part.images + int(start) for part, start in zip(parts, starts)])
        return dataclasses.replace(parts[0], **arrays)

    def renumbered(self, numbers: Sequence[int]) -> Self:
        """Return tensors in which image k has number ``numbers[k]``, sorted by the new numbers."""
        new = torch.tensor(numbers)
        images = new[self.images]
        order = images.argsort(stable=True)
        arrays = {name: getattr(self, name)[order] for name in self.ARRAYS if name != "shapes"}
        arrays |= {"images": images[order], "shapes": self.shapes[new.argsort()]}
        return dataclasses.replace(self, **arrays)  # type: ignore[type-var]


def _warn_outside(positions: Any, sides: Any) -> None:
    """Warn about positions (T, 2) outside their images with ``sides`` (T, 2): often they are (x, y)."""
    outside = ((positions < -OVERSHOOT) | (positions > sides + OVERSHOOT)).any(dim=1)
    if bool(outside.any()):
        row = int(outside.nonzero()[0])
        (y, x), (height, width) = positions[row].tolist(), sides[row].tolist()
        warnings.warn(
            f"{int(outside.sum())} of {len(outside)} positions lie outside their images and count for the "
            f"nearest cell: positions[{row}] is ({y:g}, {x:g}) in an image of height {height} and width "
            f"{width}. Expected (y, x) in pixels, and shapes as (height, width).",
            stacklevel=6,  # past `then` and the `transform` that scikit-learn wraps
        )


def _is_whole(numbers: Any) -> bool:
    """Return whether all numbers of an array or tensor are whole; those of integer types need no look."""
    if isinstance(numbers, Tensor):
        return not numbers.is_floating_point() or bool((numbers == numbers.floor()).all())
    return numbers.dtype.kind != "f" or bool((numbers == np.floor(numbers)).all())


@dataclass(frozen=True, repr=False, eq=False)  # comparing arrays has no single answer
class LocalDescriptors(LocalRows[Array]):
    """The local descriptors of a batch of B images in one flat list.

    Images of different shapes have different numbers of descriptors. A flat list with one image number
    per row needs no padding and is pooled with one scatter. The arrays are tensors, or all of them are NumPy
    arrays. Codings take either and return the same kind.

    Attributes
    ----------
    vectors : (T, d) descriptors.
    positions : (T, 2) centres (y, x) in pixels of the decoded image.
    images : (T,) int64, number of the image in the batch that a row belongs to.
    shapes : (B, 2) int64, height and width of each image.

    Examples
    --------
    >>> two = LocalDescriptors(
    ...     torch.zeros(3, 8), torch.zeros(3, 2), torch.tensor([0, 0, 1]), torch.tensor([[9, 9], [5, 7]])
    ... )
    >>> two.n_images, len(two)
    (2, 3)
    >>> two.numpy().images
    array([0, 0, 1])
    """

    ARRAYS = ("vectors", "positions", "images", "shapes")
    vectors: Array
    positions: Array
    images: Array
    shapes: Array

    def __post_init__(self) -> None:
        """Check the shapes."""
        self._check(vectors=None)

    def numpy(self) -> LocalDescriptors[Matrix]:
        """Return the descriptors with all arrays as NumPy arrays."""
        arrays: LocalDescriptors[Matrix] = super().numpy()
        return arrays

    @property
    def dtype(self) -> torch.dtype:
        """Precision of the vectors as tensors."""
        vectors: Any = self.vectors
        # Not a slice of the array: torch refuses the negative strides that even an empty one can have.
        return as_tensor(vectors[:0] if isinstance(vectors, Tensor) else np.empty(0, vectors.dtype)).dtype

    def mirrored(self: LocalDescriptors) -> LocalDescriptors:
        """Return the same descriptors at their positions in the mirrored images.

        >>> one = LocalDescriptors(
        ...     torch.zeros(1, 8), torch.tensor([[2.0, 1.0]]), torch.tensor([0]), torch.tensor([[9, 5]])
        ... )
        >>> one.mirrored().positions
        tensor([[2., 4.]])
        """
        positions = self.positions.clone()
        positions[:, 1] = self.shapes[self.images, 1] - positions[:, 1]
        return LocalDescriptors(self.vectors, positions, self.images, self.shapes)

    def draw(self, n_samples: int, seed: int) -> Tensor:
        """Return at most ``n_samples`` descriptors, the same number of each image as far as it has them."""
        rows = self._tensors(None)
        chosen = sampled_images(self.n_images)
        return draw_evenly(
            ((number, image, rows) for number, image in enumerate(chosen)), len(chosen), n_samples, seed
        )

    def draw_from(self: LocalDescriptors, image: int, n_samples: int, seed: int) -> Tensor:
        """Return at most ``n_samples`` descriptors of an image in random order.

        Fewer samples are the first of more.
        """
        rows = (self.images == image).nonzero()[:, 0]
        generator = torch.Generator().manual_seed(seed)
        picked = torch.randperm(len(rows), generator=generator)[:n_samples].to(rows.device)
        return self.vectors[rows[picked]]

    @classmethod
    def joined(cls, parts: list[LocalDescriptors], vectors: Tensor | None = None) -> LocalDescriptors:
        """Join parts that describe the same batch, for example at several scales.

        ``vectors`` are those of all parts, if they are already contiguous in memory.
        """
        return LocalDescriptors(
            torch.cat([part.vectors for part in parts]) if vectors is None else vectors,
            torch.cat([part.positions for part in parts]),
            torch.cat([part.images for part in parts]),
            parts[0].shapes,
        )

"""Base of hand-crafted local descriptors: one grid per scale, and images extended beyond their borders."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Sequence
from typing import ClassVar

import torch
from torch import Tensor

from ddsfl.compute.device import resolve_device
from ddsfl.compute.rules import rules, whole
from ddsfl.patches.fields import FieldGrid
from ddsfl.patches.geometry import Batch, centres, grid_cells, grid_counts
from ddsfl.patches.local import LocalDescriptors
from ddsfl.patches.source import LocalSource


class GridDescriptor(LocalSource):
    """Descriptors of patches on a regular grid at several scales; subclasses implement `maps` for one scale.

    Parameters
    ----------
    n_scales : images are described at scales 2^(-i/2), i = 0..n_scales-1.
    device : "auto", "cpu" or "cuda".
    """

    RULES = rules(n_scales=whole(1, 20))

    #: Side of the area that a descriptor covers, and number of its values.
    field: ClassVar[int]
    n_values: ClassVar[int]
    #: Distance between neighbouring descriptors, in pixels of the scaled image.
    step: int
    #: Channels that are described: 1 is gray, or the lightness of L*a*b; None are all.
    channels: ClassVar[int | None] = 1

    def __init__(self, *, n_scales: int = 6, device: str | torch.device = "auto") -> None:
        self.n_scales = n_scales
        self.device = device

    @property
    def min_side(self) -> int:  # type: ignore[override]
        """The side of one field."""
        return self.field

    @property
    def _n_features_out(self) -> int:
        return self.n_values

    def width_of(self, output: int) -> int:
        """Return the number of values of a descriptor."""
        return self.n_values

    def field_grid(self, output: int) -> FieldGrid:
        """Return how the descriptors lie over images."""
        return FieldGrid(self.field, self.step, self.n_scales)

    @abstractmethod
    def maps(self, batch: Batch) -> Tensor:
        """Return the descriptors (B, rows, columns, n_values) of a batch, see `describe_scales`."""

    def describe(
        self, images: Sequence[Tensor], outputs: Collection[int] | None = None
    ) -> list[LocalDescriptors]:
        """Return the one set of descriptors (T, n_values) of uint8 images (channels, height, width)."""
        self.check()
        return [
            describe_scales(
                images,
                self.maps,
                n_values=self.n_values,
                field=self.field,
                step=self.step,
                n_scales=self.n_scales,
                channels=self.channels,
                device=self.device,
            )
        ]


def describe_scales(
    images: Sequence[Tensor],
    maps: Callable[[Batch], Tensor],
    *,
    n_values: int,
    field: int,
    step: int,
    n_scales: int,
    device: str | torch.device,
    channels: int | None = 1,
) -> LocalDescriptors:
    """Describe images with ``maps`` at the scales 2^(-i/2), i = 0..n_scales-1, like the learned layers.

    The first ``channels`` are used: 1 is gray, or the lightness of L*a*b; None are all. A scale is skipped if
    the field does not fit into any image.

    Parameters
    ----------
    images : uint8 images (channels, height, width).
    maps : turns a batch into descriptors (B, rows, columns, n_values). The field of the first is the upper
        left corner of the image; the others are ``step`` pixels apart. Rows and columns of the padding may
        hold arbitrary values.
    field, step : side of the area that a descriptor covers, and distance between neighbouring descriptors,
        in pixels of the scaled image.
    device : "auto", "cpu" or "cuda".

    Examples
    --------
    >>> def means(batch):
    ...     return torch.nn.functional.avg_pool2d(batch.pixels, 4, 2).permute(0, 2, 3, 1)
    >>> image = torch.full((1, 8, 6), 51, dtype=torch.uint8)
    >>> found = describe_scales([image], means, n_values=1, field=4, step=2, n_scales=2, device="cpu")
    >>> found.vectors.flatten().tolist()[:2], found.positions[:2].tolist(), len(found)
    ([0.2..., 0.2...], [[2.0, 2.0], [2.0, 4.0]], 8)
    """
    batch = Batch.of([image[:channels] for image in images], resolve_device(device))
    where = batch.pixels.device
    shapes = batch.shapes.to(where)
    parts = [LocalDescriptors(torch.zeros(0, n_values, device=where), *_nowhere(where), shapes)]
    for scale in range(n_scales):
        scaled = batch.scaled(scale)
        counts = grid_counts(scaled.shapes, field, step)
        if not counts.prod(dim=1).any():
            continue
        cells = grid_cells(counts, where)
        grids = maps(scaled)
        rows = (cells.images * grids.shape[1] + cells.rows) * grids.shape[2] + cells.columns
        positions = centres(
            torch.stack([cells.rows, cells.columns], dim=1) * step,
            field,
            scaled.shapes.to(where)[cells.images],
            shapes[cells.images],
        )
        vectors = grids.flatten(0, 2).index_select(0, rows)
        parts.append(LocalDescriptors(vectors, positions, cells.images, shapes))
    return LocalDescriptors.joined(parts)


def _nowhere(device: torch.device) -> tuple[Tensor, Tensor]:
    """Return empty positions and image numbers."""
    return torch.zeros(0, 2, device=device), torch.zeros(0, dtype=torch.int64, device=device)


def continued(batch: Batch, margin: int) -> Tensor:
    """Return gray pixels (B, H + 2 margin, W + 2 margin), each image extended by its border pixels.

    Zero padding would create an edge at the right and lower border of each image that is smaller than its
    batch. Extended images look the same in every batch.

    >>> image = torch.tensor([[[0, 51], [102, 255]]], dtype=torch.uint8)
    >>> continued(Batch.of([image]), 1)[0, 0]
    tensor([0.0000, 0.0000, 0.2000, 0.2000])
    """
    height, width = batch.pixels.shape[2:]
    last = batch.shapes.to(batch.pixels.device) - 1  # (B, 2)

    def indices(length: int, axis: int) -> Tensor:
        inside = torch.arange(-margin, length + margin, device=last.device).clamp_(min=0)
        return torch.minimum(inside, last[:, axis, None])

    rows, columns = indices(height, 0)[:, :, None], indices(width, 1)[:, None, :]
    gray = batch.pixels[:, 0]
    taller = gray.gather(1, rows.expand(-1, -1, width))
    return taller.gather(2, columns.expand(-1, taller.shape[1], -1))

"""What is drawn to learn from: patches at random positions, with spatial neighbours, and descriptors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ddsfl.compute.device import spawn_seeds
from ddsfl.patches.geometry import grid_counts, scaled_shapes

#: Maximum shift of a spatial neighbour from its patch, as a fraction of the field, and its range of sizes.
NEIGHBOUR_SHIFT = 0.125
NEIGHBOUR_SIZES = (0.84, 1.19)  # a quarter of an octave in either direction
#: Descriptors are drawn from this many images or up to twice as many, every n-th of all.
SAMPLED_IMAGES = 500


class Places(NamedTuple):
    """Fields drawn from a batch of images, with the positions of their spatial neighbours.

    images (N,), scales (N,), corners (N, 2) in pixels of the scaled image, jitter (N, M, 3) uniform
    numbers in [0, 1) that place M neighbours: down, right and size.
    """

    images: Tensor
    scales: Tensor
    corners: Tensor
    jitter: Tensor


def draw_places(
    shapes: Tensor,
    n_per_image: int,
    *,
    field: int,
    n_scales: int,
    step: int,
    n_neighbours: int = 0,
    generators: Sequence[torch.Generator],
) -> Places:
    """Draw ``n_per_image`` fields from each of B images with ``shapes`` (B, 2).

    Every field of every scale is equally likely, as among the dense descriptors; corners are multiples
    of ``step``. Fields are drawn with replacement, so small images give as many as large ones. Each image
    has its own generator, so its fields do not depend on the batch.

    >>> generators = [torch.Generator().manual_seed(0)]
    >>> shapes = torch.tensor([[40, 60]])
    >>> places = draw_places(shapes, 5, field=16, n_scales=2, step=1, generators=generators)
    >>> tuple(places.corners.shape)
    (5, 2)
    """
    counts = torch.stack(
        [grid_counts(scaled_shapes(shapes, scale), field, step) for scale in range(n_scales)], dim=1
    )  # (B, n_scales, 2)
    fields = counts.prod(dim=2)
    small = (fields.sum(dim=1) == 0).nonzero()
    if len(small):
        height, width = shapes[small[0, 0]].tolist()
        raise ValueError(f"image of {height} x {width} pixels is smaller than the field of {field} pixels.")
    chances = fields.to(torch.float64)
    scales, uniform, jitter = (
        torch.cat(parts)
        for parts in zip(
            *(
                (
                    torch.multinomial(chances[row], n_per_image, replacement=True, generator=generator),
                    torch.rand((n_per_image, 2), generator=generator, dtype=torch.float64),
                    torch.rand((n_per_image, n_neighbours, 3), generator=generator),
                )
                for row, generator in enumerate(generators)
            )
        )
    )
    images = torch.arange(len(shapes)).repeat_interleave(n_per_image)
    corners = (uniform * counts[images, scales]).to(torch.int64) * step
    return Places(images, scales, corners, jitter)


def jittered(corners: Tensor, jitter: Tensor, field: int) -> tuple[Tensor, Tensor]:
    """Return corners (N, M, 2) and sides (N, M) of the neighbours given by ``jitter`` (N, M, 3).

    >>> corners, sides = jittered(torch.tensor([[8, 8]]), torch.full((1, 1, 3), 0.5), 16)
    >>> (corners + sides[..., None] / 2).tolist()  # the middle of the range lies on the patch itself
    [[[16.0, 16.0]]]
    """
    low, high = NEIGHBOUR_SIZES
    sides = field * (low + (high - low) * jitter[..., 2])
    shift = (2 * jitter[..., :2] - 1) * NEIGHBOUR_SHIFT * field
    middle = corners[:, None, :] + field / 2 + shift
    return middle - sides[..., None] / 2, sides


def sampled_images(n_images: int) -> range:
    """Return the numbers of the images to draw descriptors from: spread over all.

    >>> sampled_images(1502), sampled_images(7)
    (range(0, 1502, 3), range(0, 7))
    """
    return range(0, n_images, max(1, n_images // SAMPLED_IMAGES))


def draw_evenly(
    described: Iterable[tuple[int, int, Any]], n_images: int, n_samples: int, seed: int
) -> Tensor:
    """Draw at most ``n_samples`` descriptors, the same number of each image as far as it has them.

    Each image has its own seed, so batches do not matter.

    Parameters
    ----------
    described : for each image its number, its number within its batch, and `LocalDescriptors` of the batch.
    n_images : how many images there are.
    """
    seeds = spawn_seeds(seed, n_images)
    share, rest = divmod(n_samples, n_images)
    drawn = {
        number: descriptors.draw_from(row, share + (number < rest), seeds[number])
        for number, row, descriptors in described
    }
    samples = torch.cat([drawn[number] for number in range(n_images)])
    if len(samples) == 0:
        raise ValueError("X has no descriptors; expected images that are larger than the field of one.")
    return samples

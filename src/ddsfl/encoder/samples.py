"""Descriptors drawn from training images, to learn words from."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial

import torch
from torch import Tensor

from ddsfl.compute.device import spawn_seeds
from ddsfl.patches.batches import Batches, Progress, over
from ddsfl.patches.sampling import sampled_images
from ddsfl.patches.source import LocalSource


def sample_descriptors(
    images: Sequence[Tensor],
    source: LocalSource,
    *,
    device: torch.device,
    seed: int,
    n_samples: int,
    outputs: Collection[int] = (0,),
    progress: Progress | None = None,
) -> dict[int, list[Tensor]]:
    """Draw about ``n_samples`` descriptors of some outputs of ``source`` from images spread over all.

    Each image gives the same number and has its own seed, so batches do not matter. Returns, for each
    output, the descriptors of each image in random order: the `first_samples` of them are the ones that
    fewer samples would have given.
    """
    chosen = sampled_images(len(images))
    n_per_image = -(-n_samples // len(chosen))
    seeds = spawn_seeds(seed, len(chosen))
    work = partial(_draw, source.on(device), tuple(outputs), n_per_image, dict(zip(chosen, seeds)))
    drawn: dict[int, dict[int, Tensor]] = {output: {} for output in outputs}
    for output, number, descriptors in over(images, work, device, progress, every=chosen.step):
        drawn[output][number] = descriptors.to(device)
    return {output: [parts[number] for number in chosen] for output, parts in drawn.items()}


def _draw(
    source: LocalSource,
    outputs: Collection[int],
    n_per_image: int,
    seeds: Mapping[int, int],
    batches: Batches,
) -> Iterator[tuple[int, int, Tensor]]:
    """Yield the output, the number of the image, and the descriptors drawn from it."""
    for numbers, batch in batches:
        for output, descriptors in source.describe_outputs(batch, outputs).items():
            for row, number in enumerate(numbers):
                yield output, number, descriptors.draw_from(row, n_per_image, seeds[number] + output)


def first_samples(drawn: Sequence[Tensor], n_samples: int) -> Tensor:
    """Join about ``n_samples`` of the descriptors drawn from each image, the same number of each.

    >>> first_samples([torch.zeros(3, 2), torch.ones(3, 2)], 3)[:, 0]
    tensor([0., 0., 1., 1.])
    """
    n_per_image = -(-n_samples // len(drawn))
    return torch.cat([part[:n_per_image] for part in drawn])

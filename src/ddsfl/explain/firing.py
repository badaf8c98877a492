"""Where in the training images learned filters respond most.

Shapes: F filters of a layer; B images that are searched; H x W places of one scale, D responses each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ddsfl.compute.device import as_numpy, resolve_device
from ddsfl.explain.patches import cut_patches, searched_images
from ddsfl.images.image_list import ImageList
from ddsfl.learning.forward import ForwardPass
from ddsfl.learning.layer import LearnedLayer
from ddsfl.learning.stack import FilterStack
from ddsfl.patches.batches import Progress, read_ahead
from ddsfl.patches.geometry import Batch

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Firing:
    """A place where a filter responds strongly.

    Attributes
    ----------
    image : the number of the image in the list.
    box : top, left, bottom and right of the field, as parts of the image's sides.
    response : |w x|, the magnitude of the response.
    label : the number of the class of the image; the first of several.
    pixels : (SIDE, SIDE) or (SIDE, SIDE, 3) uint8, what the filter sees there.
    """

    image: int
    box: tuple[float, float, float, float]
    response: float
    label: int
    pixels: Array


def strongest_places(
    stack: FilterStack,
    images: ImageList,
    class_numbers: Sequence[int],
    layer: int,
    filters: Sequence[int],
    n: int = 4,
    progress: Progress | None = None,
) -> list[tuple[Firing, ...]]:
    """Return for each filter the ``n`` places where |w x| is largest, at most one per image, largest first.

    All scales are searched. Filters of upper layers see larger fields.

    Parameters
    ----------
    stack : the learned layers.
    images, class_numbers : the training images and the number of the class of each; at most N_IMAGES of them,
        spread over the list, are searched.
    layer, filters : which filters of which layer, both counted from 0; the layer must have filters.
    progress : called with (images done, images in all).

    Examples
    --------
    >>> from ddsfl import SceneClassifier, make_scenes
    >>> images, labels = make_scenes(n_per_class=3, random_state=0, size=64)
    >>> small = {"layers.bank.n_filters": 16, "blocks.coding.n_words": 32, "layers.bank.max_iter": 5}
    >>> model = SceneClassifier(changes=small, random_state=0, device="cpu").fit(images, labels)
    >>> listed, numbers = model.training_images(images, labels)
    >>> [places] = strongest_places(model.stack_, listed, numbers, layer=1, filters=[3], n=2)
    >>> places[0].response >= places[1].response, places[0].pixels.shape
    (True, (32, 32))
    """
    if not (0 <= layer < len(stack.learned_)):
        raise ValueError(
            f"layer={layer}; expected a layer with filters, from 0 to {len(stack.learned_) - 1}."
        )
    chosen = searched_images(len(images))
    some, device = images.subset(chosen.tolist()), resolve_device(stack.device)
    learned = [one.to(device) for one in stack.learned_]
    wanted = torch.as_tensor(list(filters), dtype=torch.int64, device=device)
    best = torch.full((len(some), len(wanted)), -torch.inf)
    boxes = torch.zeros(len(some), len(wanted), 4, dtype=torch.float64)
    for number, [pixels] in enumerate(read_ahead(some, 1)):
        found = _strongest(stack, learned, Batch.of([pixels], device), layer, wanted)
        if found is not None:
            best[number], boxes[number] = found
        if progress is not None:
            progress(number + 1, len(some))
    order = np.argsort(-as_numpy(best), axis=0, kind="stable")[:n].T  # (F, n)
    places = [
        (number, column)
        for column, numbers in enumerate(order.tolist())
        for number in numbers
        if best[number, column] > -torch.inf
    ]
    cut = cut_patches(some, [number for number, _ in places], [boxes[at].tolist() for at in places])
    fired: list[list[Firing]] = [[] for _ in filters]
    for (number, column), patch in zip(places, cut):
        image = int(chosen[number])
        top, left, bottom, right = boxes[number, column].tolist()
        response = float(best[number, column])
        label = int(class_numbers[image])
        fired[column].append(Firing(image, (top, left, bottom, right), response, label, patch))
    return [tuple(firings) for firings in fired]


def _strongest(
    stack: FilterStack, learned: Sequence[LearnedLayer], batch: Batch, layer: int, filters: Tensor
) -> tuple[Tensor, Tensor] | None:
    """Return the largest responses (F,) within one image and their fields (F, 4); None if none fits."""
    [shape] = batch.shapes.tolist()
    grid = stack.field_grid(layer)
    responses = []
    for scale in range(grid.n_scales):
        forward = ForwardPass(stack.layers, learned, batch.scaled(scale))
        maps = forward.responses(layer, grid.step)  # (1, H, W, D), row by row as the fields lie
        responses.append(maps.flatten(0, 2).index_select(1, filters))
    every = torch.cat(responses)
    if not len(every):
        return None
    values, rows = every.float().cpu().max(dim=0)
    return values, grid.fields((shape[0], shape[1])).boxes((1, 1))[rows]

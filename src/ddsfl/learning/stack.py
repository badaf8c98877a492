"""FilterStack: layers of filter banks, each learned on the pooled responses of the one below."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted
from torch import Tensor
from torch.nn import functional

from ddsfl.compute.device import as_numpy, resolve_device, spawn_seeds
from ddsfl.compute.stages import Arrays, Stages
from ddsfl.learning.bank import FilterBank
from ddsfl.learning.exemplars import SELECTORS
from ddsfl.learning.forward import ForwardPass, Layer, LearnedLayer, spanned_field
from ddsfl.learning.inputs import DrawnInputs, InputDrawer
from ddsfl.learning.labels import class_membership
from ddsfl.learning.pictures import average_of_strongest, patterns_of_filters
from ddsfl.patches.batches import Progress
from ddsfl.patches.geometry import Batch, centres, grid_counts, make_batch, resize, scaled_shapes
from ddsfl.patches.local import LocalDescriptors
from ddsfl.patches.normalise import InputSpace


class FilterStack(BaseEstimator):
    """Layers of filter banks over whole images (Fig. DDSFL_structure of the paper).

    Each layer draws inputs from the training images, chooses exemplars and learns a bank by Algorithm 1.

    Parameters
    ----------
    layers : settings of each layer, first layer first.
    max_patches : the most inputs one layer learns from; with more images each gives fewer. This bounds
        the memory of learning: about 3 * max_patches * n_components * 4 bytes.
    device : "auto", "cpu" or "cuda".
    random_state : seed of drawing and of the banks.

    Attributes
    ----------
    learned_ : the learned layers (input space and filters).
    sharing_ : for each layer (C, D) bool, which classes use which filter, in the order of ``classes_``.
    objective_, objective_terms_ : for each layer the trace of its bank.
    n_exemplars_ : for each layer, how many exemplars each class has.
    pixel_filters_ : for each layer pictures (D, channels, field, field) of its filters.

    Examples
    --------
    >>> images = [torch.randint(0, 256, (1, 32, 40), dtype=torch.uint8) for _ in range(4)]
    >>> layer = Layer(n_scales=2, n_components=30, patches_per_image=40, bank={"n_filters": 8, "max_iter": 5})
    >>> stack = FilterStack([layer], random_state=0, device="cpu").fit(images, [0, 0, 1, 1])
    >>> stack.describe(images)[0].vectors.shape[1]
    8
    """

    def __init__(
        self,
        layers: Sequence[Layer] = (Layer(),),
        *,
        max_patches: int = 600_000,
        device: str | torch.device = "auto",
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.layers = layers
        self.max_patches = max_patches
        self.device = device
        self.random_state = random_state

    def fit(
        self,
        images: Sequence[Tensor],
        y: ArrayLike,
        *,
        stages: Stages | None = None,
        progress: Progress | None = None,
    ) -> FilterStack:
        """Learn all layers.

        Parameters
        ----------
        images : uint8 images (channels, height, width), each at least as large as the largest field;
            decoded lazily if the sequence does so.
        y : one label an image, or an indicator matrix (n_images, C).
        stages : stores the result of each step and finds it again.
        progress : called with (images done, images in all) during each pass over the images.
        """
        if len(images) == 0:
            raise ValueError("images is empty; expected at least one image.")
        self.classes_, membership = class_membership(y)
        if len(membership) != len(images):
            raise ValueError(
                f"y has {len(membership)} rows; expected one for each of the {len(images)} images."
            )
        device = resolve_device(self.device)
        stages = stages or Stages()
        self.learned_: list[LearnedLayer] = []
        self.sharing_: list[np.ndarray[Any, Any]] = []
        self.objective_: list[np.ndarray[Any, Any]] = []
        self.objective_terms_: list[tuple[str, ...]] = []
        self.n_exemplars_: list[np.ndarray[Any, Any]] = []
        self.pixel_filters_: list[np.ndarray[Any, Any]] = []
        for index, seed in enumerate(spawn_seeds(self.random_state, len(self.layers))):
            if self.layers[index].bank is not None:
                self._fit_layer(index, images, membership, device, seed, stages, progress)
        return self

    def _fit_layer(
        self,
        index: int,
        images: Sequence[Tensor],
        membership: np.ndarray[Any, Any],
        device: torch.device,
        seed: int,
        stages: Stages,
        progress: Progress | None,
    ) -> None:
        layer, name = self.layers[index], f"layer{index + 1}"
        parameters = dict(layer.bank or {})
        below = [learned.to(device) for learned in self.learned_]
        drawer = InputDrawer(images, self.layers, below, device=device, seed=seed)
        n_per_image = min(layer.patches_per_image, max(1, self.max_patches // len(images)))

        learned_space = stages.run(f"{name}.space", lambda: _space_arrays(drawer.learn_space(progress)))
        space = InputSpace(*(torch.from_numpy(learned_space[part]) for part in InputSpace._fields))

        @cache  # drawn once, and only if a step that needs it was not found stored
        def drawn() -> DrawnInputs:
            neighbours = layer.n_spatial if parameters.get("xi", 0) else 0
            return drawer.draw(space, n_per_image, neighbours=neighbours, progress=progress)

        def choose() -> Arrays:
            bank = FilterBank(**parameters)
            if bank.gamma == 0 and bank.eta == 0:  # no term asks for classes, so nobody is chosen
                return {"support": np.zeros((0, membership.shape[1]), dtype=bool)}
            return {"support": select_exemplars(layer, drawn(), membership, self.device, seed)}

        def learn() -> Arrays:
            return learn_bank(index, layer, drawn(), space, support, self.device, seed)

        support = stages.run(f"{name}.exemplars", choose)["support"]
        bank = stages.run(f"{name}.bank", learn)
        self.learned_.append(LearnedLayer(layer, space, torch.from_numpy(bank["filters"])))
        self.sharing_.append(bank["sharing"])
        self.objective_.append(bank["objective"])
        self.objective_terms_.append(tuple(bytes(bank["terms"]).decode().split()))
        self.pixel_filters_.append(bank["pictures"])
        self.n_exemplars_.append(support.sum(axis=0))

    def describe(
        self, images: Sequence[Tensor], outputs: Collection[int] | None = None
    ) -> list[LocalDescriptors]:
        """Return the dense descriptors of a batch of images, one set for each layer.

        Responses of filters have unit length, pooled responses are as they are. With ``outputs`` only
        these layers, counted from 0, are described, in rising order.
        """
        check_is_fitted(self, "learned_")
        wanted = sorted(range(len(self.layers)) if outputs is None else set(outputs))
        device = resolve_device(self.device)
        learned = self._learned_on(device)
        batch = make_batch(images, device)
        shapes = batch.shapes.to(device, non_blocking=True)
        parts: dict[int, list[LocalDescriptors]] = {index: [] for index in wanted}
        rooms = {index: self._room(index, batch) for index in wanted}
        for scale in range(max(self.layers[index].n_scales for index in wanted)):
            scaled = resize(batch, scaled_shapes(batch.shapes, scale))
            forward = ForwardPass(self.layers, learned, scaled)
            for index in wanted:
                if scale < self.layers[index].n_scales:
                    room = rooms[index][sum(map(len, parts[index])) :]
                    parts[index].append(self._at_scale(forward, index, shapes, room))
        return [LocalDescriptors.joined(parts[index], rooms[index]) for index in wanted]

    def _room(self, index: int, batch: Batch) -> Tensor:
        """Return room for the descriptors of a layer at all scales, so that they need not be joined."""
        layer, field = self.layers[index], spanned_field(self.layers, index)
        scaled = [scaled_shapes(batch.shapes, scale) for scale in range(layer.n_scales)]
        count = sum(int(grid_counts(shapes, field, layer.step).prod(dim=1).sum()) for shapes in scaled)
        if layer.bank is None:
            width = 4 * len(self.learned_[index - 1].filters)
        else:
            width = len(self.learned_[index].filters) * (2 if layer.signs else 1)
        return batch.pixels.new_empty(count, width)

    def _learned_on(self, device: torch.device) -> list[LearnedLayer]:
        """Return the learned layers on a device, moved there once."""
        known = getattr(self, "_moved", None)
        if known is None or known[:2] != (device, tuple(map(id, self.learned_))):
            moved = [layer.to(device) for layer in self.learned_]
            self._moved = known = (device, tuple(map(id, self.learned_)), moved)
        return known[2]

    def __getstate__(self) -> dict[str, Any]:
        """Leave the copies on a device behind: they are made again where they are needed."""
        return {name: value for name, value in super().__getstate__().items() if name != "_moved"}

    def _at_scale(self, forward: ForwardPass, index: int, original: Tensor, room: Tensor) -> LocalDescriptors:
        """Return the descriptors of one layer at the scale of ``forward``, at the beginning of ``room``."""
        device, step = forward.batch.pixels.device, self.layers[index].step
        vectors, cells = forward.descriptors(index, step, room)
        positions = centres(
            torch.stack([cells.rows, cells.columns], dim=1) * step,
            spanned_field(self.layers, index),
            forward.batch.shapes.to(device, non_blocking=True)[cells.images],
            original[cells.images],
        )
        return LocalDescriptors(vectors, positions, cells.images, original)


def select_exemplars(
    layer: Layer, inputs: DrawnInputs, membership: np.ndarray[Any, Any], device: Any, seed: int
) -> np.ndarray[Any, Any]:
    """Return which inputs take part in the class terms of which class (N, C)."""
    labels = membership[as_numpy(inputs.images)]
    if layer.exemplars is None:
        return labels
    parameters = {**layer.exemplars, "device": device}
    method = parameters.pop("method")
    if method not in SELECTORS:
        raise ValueError(f"exemplars method={method!r} is unknown; expected one of {sorted(SELECTORS)}.")
    selector = SELECTORS[method](**parameters)
    if "random_state" in selector.get_params():
        selector.set_params(random_state=seed)
    return selector.fit(inputs.projected, labels, groups=inputs.images).support_


def learn_bank(
    index: int,
    layer: Layer,
    inputs: DrawnInputs,
    space: InputSpace,
    support: np.ndarray[Any, Any],
    device: Any,
    seed: int,
) -> Arrays:
    """Learn one bank in its input space; everything a stack keeps of it, as arrays."""
    space = space.to(inputs.projected.device)

    def enter(projected: Tensor) -> Tensor:
        whitened = space.whiten(projected)
        return functional.normalize(whitened, dim=-1) if index else whitened

    bank = FilterBank(**{**(layer.bank or {}), "device": device, "random_state": seed})
    entered = enter(inputs.projected)
    neighbours = None if inputs.neighbours is None else enter(inputs.neighbours)
    labels = support if len(support) else None
    bank.fit(entered, labels, groups=inputs.images, spatial_neighbors=neighbours)
    filters = torch.from_numpy(bank.filters_).to(entered)
    if index == 0:
        side = layer.field
        pictures = patterns_of_filters(space, filters).unflatten(1, (-1, side, side))
    else:
        responses = (entered[inputs.pictured] @ filters.T).abs()
        pictures = average_of_strongest(responses.cpu(), inputs.pictures)
    return {
        "filters": bank.filters_.astype(np.float32),
        "sharing": bank.sharing_,
        "objective": bank.objective_,
        "terms": np.frombuffer(" ".join(bank.objective_terms_).encode(), dtype=np.uint8),
        "pictures": as_numpy(pictures).astype(np.float32),
    }


def _space_arrays(space: InputSpace) -> Arrays:
    return {name: as_numpy(part).astype(np.float32) for name, part in zip(space._fields, space)}

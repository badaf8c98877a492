"""FilterStack: layers of filter banks, each learned on the pooled responses of the one below."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from ddsfl.compute.device import as_numpy, has_kernels, resolve_device, spawn_seeds
from ddsfl.compute.rules import instance, rules, several, whole
from ddsfl.compute.stages import Arrays, Stages
from ddsfl.images.image_list import ImageList
from ddsfl.images.labels import UNLABELLED, Labels
from ddsfl.learning.bank import FilterBank
from ddsfl.learning.forward import ForwardPass
from ddsfl.learning.inputs import DrawnInputs, InputDrawer
from ddsfl.learning.layer import Layer, LearnedLayer, check_layers, spanned_field
from ddsfl.learning.steps import encoded_terms, learn_bank, select_exemplars, space_arrays, space_of
from ddsfl.learning.stored import KEPT, stored_layers, term_names
from ddsfl.patches.batches import Progress
from ddsfl.patches.described import DescribedImages
from ddsfl.patches.fields import FieldGrid
from ddsfl.patches.geometry import Batch
from ddsfl.patches.given import Images, images_given
from ddsfl.patches.local import LocalDescriptors
from ddsfl.patches.source import LocalSource


class FilterStack(LocalSource):
    """Layers of filter banks over entire images (Fig. DDSFL_structure of the paper).

    Each layer draws inputs from the training images, chooses exemplars and learns a bank with Algorithm 1.

    Parameters
    ----------
    layers : settings of the layers, starting with the first.
    max_patches : maximum number of inputs that a layer learns from; with more images, fewer inputs are
        drawn per image. This limits the memory of learning to about 3 * max_patches * n_components * 4 bytes.
    device : "auto", "cpu" or "cuda".
    random_state : seed for drawing inputs and for the banks.

    Attributes
    ----------
    learned_ : the learned layers (input space and filters).
    sharing_ : for each layer (C, D) bool, which classes use which filter, in the order of ``classes_``.
    objective_, objective_terms_ : for each layer, the trace of its bank.
    n_exemplars_ : for each layer, the number of exemplars of each class.
    pixel_filters_ : for each layer, pictures (D, channels, field, field) of its filters.

    Examples
    --------
    >>> images = [torch.randint(0, 256, (1, 32, 40), dtype=torch.uint8) for _ in range(4)]
    >>> layer = Layer(n_scales=2, n_components=30, patches_per_image=40, bank={"n_filters": 8, "max_iter": 5})
    >>> stack = FilterStack([layer], random_state=0, device="cpu").fit(images, [0, 0, 1, 1])
    >>> described = stack.transform(images)  # of the last layer
    >>> described[0].vectors.shape[1]
    8
    """

    RULES = rules(layers=several(instance(Layer, "a Layer"), 1, 20), max_patches=whole(1, 10**9))

    uses_labels = True
    sharing_: list[np.ndarray[Any, Any]]
    objective_: list[np.ndarray[Any, Any]]
    n_exemplars_: list[np.ndarray[Any, Any]]
    pixel_filters_: list[np.ndarray[Any, Any]]

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

    @property
    def min_side(self) -> int:  # type: ignore[override]
        """The largest field that a layer spans."""
        return max(spanned_field(self.layers, index) for index in range(len(self.layers)))

    @property
    def n_outputs(self) -> int:  # type: ignore[override]
        """One set of descriptors per layer."""
        return len(self.layers)

    def check(self) -> None:
        """Raise ValueError if a parameter has a wrong value or the layers are incompatible."""
        super().check()
        check_layers(self.layers)

    def identity(self, output: int) -> Any:
        """Return the layers up to an output; ``signs`` of the lower layers do not affect it and are 0."""
        below = [dataclasses.replace(layer, signs=0.0) for layer in self.layers[:output]]
        return [*below, self.layers[output]]

    def learn(
        self, images: ImageList, labels: Labels, stages: Stages, name: str, progress: Progress | None
    ) -> None:
        """Learn all layers in stages."""
        self.fit(images, labels, stages=stages, progress=progress)

    def fit(
        self,
        images: Images,
        y: ArrayLike | Labels | None = None,
        *,
        stages: Stages | None = None,
        progress: Progress | None = None,
    ) -> FilterStack:
        """Learn all layers.

        Parameters
        ----------
        images : as for `transform`. Tensors and images of an `ImageList` must be at least as large as the
            largest field; others are enlarged to it.
        y : one label per image, an indicator matrix (n_images, C) or `Labels`.
        stages : stores the result of each step for later runs.
        progress : called with (images done, total images) during each pass over the images.
        """
        self.check()
        if not (isinstance(images, ImageList) and len(images)):
            images = images_given(images, self.min_side)
        if y is None:
            raise ValueError("y is None; expected one label per image.")
        labels = Labels.read(y, unlabelled=UNLABELLED, collections=False)
        self.classes_, membership = labels.classes, labels.membership
        if len(membership) != len(images):
            raise ValueError(
                f"y has {len(membership)} rows; expected one for each of the {len(images)} images."
            )
        device = resolve_device(self.device)
        stages = stages or Stages()
        self._forget()
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

        learned_space = stages.run(f"{name}.space", lambda: space_arrays(drawer.learn_space(progress)))
        space = space_of(learned_space)

        @cache  # drawn once, and only if the result of a step that needs it is not stored
        def drawn() -> DrawnInputs:
            neighbours = layer.n_spatial if parameters.get("xi", 0) else 0
            return drawer.draw(space, n_per_image, neighbours=neighbours, progress=progress)

        def choose() -> Arrays:
            bank = FilterBank(**parameters)
            if bank.gamma == 0 and bank.eta == 0:  # no term uses classes, so no exemplars are needed
                return {"support": np.zeros((0, membership.shape[1]), dtype=bool)}
            return {"support": select_exemplars(layer, drawn(), membership, self.device, seed)}

        def learn() -> Arrays:
            return learn_bank(index, layer, drawn(), space, support, self.device, seed)

        support = stages.run(f"{name}.exemplars", choose)["support"]
        bank = stages.run(f"{name}.bank", learn)
        self._keep(layer, {**learned_space, **bank, "n_exemplars": support.sum(axis=0)})

    def _forget(self) -> None:
        self.learned_: list[LearnedLayer] = []
        self.objective_terms_: list[tuple[str, ...]] = []
        for name in KEPT:
            setattr(self, f"{name}_", [])

    def _keep(self, layer: Layer, arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
        """Add the learned arrays of one layer."""
        self.learned_.append(LearnedLayer(layer, space_of(arrays), torch.from_numpy(arrays["filters"])))
        self.objective_terms_.append(term_names(arrays["terms"]))
        for name in KEPT:
            getattr(self, f"{name}_").append(arrays[name])

    def state(self) -> Arrays:
        """Return all learned arrays by name: layer1.filters and so on."""
        check_is_fitted(self, "learned_")
        arrays: Arrays = {}
        for index, learned in enumerate(self.learned_):
            parts = {"filters": as_numpy(learned.filters), **space_arrays(learned.space)}
            parts |= {name: getattr(self, f"{name}_")[index] for name in KEPT}
            parts["terms"] = encoded_terms(self.objective_terms_[index])
            arrays |= {f"layer{index + 1}.{name}": array for name, array in parts.items()}
        return arrays

    def restore(self, state: Mapping[str, np.ndarray[Any, Any]]) -> FilterStack:
        """Restore the arrays of a stack with the same layers; KeyError or ValueError names a wrong one."""
        self._forget()
        for layer_and_arrays in stored_layers(self.layers, state):
            self._keep(*layer_and_arrays)
        self.classes_ = np.arange(len(self.sharing_[0]))
        return self

    def transform(self, images: Images, *, output: int = -1) -> DescribedImages[LocalDescriptors]:
        """Return the descriptors of each image, computed batch by batch when they are used.

        Parameters
        ----------
        images : paths, PIL images or arrays (H, W) or (H, W, 3), which become gray and at most 300 pixels
            large; or an `ImageList` or uint8 tensors (channels, H, W), which are used unchanged.
        output : the layer, counted from 0; -1 is the last.
        """
        self._check_learned()
        if not -self.n_outputs <= output < self.n_outputs:
            raise ValueError(f"output={output}; expected from 0 to {self.n_outputs - 1}, or -1 for the last.")
        return self._described(images, output % self.n_outputs)

    def describe(
        self, images: Sequence[Tensor], outputs: Collection[int] | None = None
    ) -> list[LocalDescriptors]:
        """Return the dense descriptors of a batch of images, one set per layer.

        Filter responses have unit length; pooled responses are not scaled. ``outputs`` restricts the result
        to these layers, counted from 0, in ascending order.
        """
        return self.describe_in_halves(images, range(len(self.layers)) if outputs is None else outputs, ())

    def describe_in_halves(
        self, images: Sequence[Tensor], outputs: Collection[int], halves: Collection[int]
    ) -> list[LocalDescriptors]:
        """Return what `describe` does; with kernels, the outputs in ``halves`` are in half precision."""
        self._check_learned()
        wanted = sorted(set(outputs))
        device = resolve_device(self.device)
        batch = Batch.of(images, device)
        self._check_channels(batch.pixels.shape[1])
        parts: dict[int, list[LocalDescriptors]] = {index: [] for index in wanted}
        shapes = batch.shapes.to(device, non_blocking=True)
        # The descriptors of all scales are written into one room, so they need not be concatenated.
        sizes = {
            index: (batch.count_fields(*self.field_grid(index)), self.width_of(index)) for index in wanted
        }
        half = torch.float16 if has_kernels(batch.pixels) else batch.pixels.dtype
        rooms = {
            index: batch.pixels.new_empty(size, dtype=half if index in halves else None)
            for index, size in sizes.items()
        }
        for scale in range(max(self.layers[index].n_scales for index in wanted)):
            forward = ForwardPass(self.layers, self._learned_on(device), batch.scaled(scale))
            for index in wanted:
                if scale < self.layers[index].n_scales:
                    room = rooms[index][sum(map(len, parts[index])) :]
                    step = self.layers[index].step
                    vectors, placed = forward.descriptors(index, step, batch.shapes, room)
                    parts[index].append(LocalDescriptors(vectors, placed.positions, placed.images, shapes))
        return [LocalDescriptors.joined(parts[index], rooms[index]) for index in wanted]

    def _check_learned(self) -> None:
        """Raise an error if nothing was learned, or if ``layers`` now need something else."""
        check_is_fitted(self, "learned_")
        fitted = [learned.layer.field for learned in self.learned_]
        if fitted != [layer.field for layer in self.layers if layer.bank is not None]:
            raise ValueError("layers have changed in number or field since fit; call fit again.")

    @property
    def n_channels(self) -> int:
        """Number of channels of the images that the first layer was learned from."""
        return len(self.learned_[0].space.mean) // self.layers[0].field ** 2

    def _check_channels(self, found: int) -> None:
        """Raise ValueError if the first layer was learned from images with another number of channels."""
        if found != self.n_channels:
            raise ValueError(
                f"images have {found} channel{'s'[: found > 1]}; expected {self.n_channels}, as in fit. For "
                'colour, fit and transform an ImageList(images, colour="lab"); other images become gray.'
            )

    def field_grid(self, output: int) -> FieldGrid:
        """Return how the descriptors of a layer lie over images."""
        layer = self.layers[output]
        return FieldGrid(spanned_field(self.layers, output), layer.step, layer.n_scales)

    def width_of(self, output: int) -> int:
        """Return the number of values of the descriptors of a layer."""
        if self.layers[output].bank is None:
            return 4 * len(self.learned_[output - 1].filters)
        return len(self.learned_[output].filters) * (2 if self.layers[output].signs else 1)

    @property
    def _n_features_out(self) -> int:
        self._check_learned()
        return self.width_of(self.n_outputs - 1)

    def _learned_on(self, device: torch.device) -> list[LearnedLayer]:
        """Return the learned layers on a device; they are moved only once."""
        known = getattr(self, "_moved", None)
        if known is None or known[:2] != (device, tuple(map(id, self.learned_))):
            moved = [layer.to(device) for layer in self.learned_]
            self._moved = known = (device, tuple(map(id, self.learned_)), moved)
        return known[2]

    def __getstate__(self) -> dict[str, Any]:
        """Exclude the copies on a device: they are created again when needed."""
        return {name: value for name, value in super().__getstate__().items() if name != "_moved"}

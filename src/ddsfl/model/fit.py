"""The fit of a classifier: sources, words, vectors, weights and the SVM, as named and stored stages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ddsfl.classify.fusion import choose_weights, fit_blocks, gram_of
from ddsfl.classify.linear import LinearClassifier
from ddsfl.compute.device import as_numpy, as_tensor, resolve_device, slices, spawn_seeds
from ddsfl.compute.stages import Arrays, Stages
from ddsfl.descriptors.registry import make_source
from ddsfl.encoder.blocks import (
    Block,
    Coding,
    Encoder,
    first_samples,
    learn_coding,
    sample_descriptors,
    samples_wanted,
    unit_vectors,
)
from ddsfl.images.image_list import ImageList
from ddsfl.learning.stack import FilterStack
from ddsfl.model.keys import ENCODED_AT_ONCE
from ddsfl.model.settings import Settings
from ddsfl.model.storage import classifier_arrays, restore_classifier
from ddsfl.patches.batches import Progress


@dataclass
class Fit:
    """One fit: what it is given, and a method for each kind of stage.

    Attributes
    ----------
    targets, membership : class numbers (N,) or an indicator, and always as an indicator (N, C).
    stages : store the result of each stage.
    progress : called with (images done, images in all) within the stages.
    """

    settings: Settings
    images: ImageList
    targets: np.ndarray[Any, Any]
    membership: np.ndarray[Any, Any]
    seed: int
    device: str | torch.device
    stages: Stages
    progress: Progress | None = None

    def __post_init__(self) -> None:
        self.where = resolve_device(self.device)
        self.stack_seed, self.words_seed, self.svm_seed = spawn_seeds(self.seed, 3)

    def learn_sources(self) -> dict[str, Any]:
        """Return all sources of the blocks, by name; those that learn have learned."""
        sources: dict[str, Any] = {}
        for name in dict.fromkeys(block.source for block in self.settings.blocks):
            if name == "stack":
                stack = FilterStack(self.settings.layers, device=self.device, random_state=self.stack_seed)
                stack.fit(self.images, self.membership, stages=self.stages, progress=self.progress)
                sources[name] = stack
                continue
            sources[name] = source = make_source(self.settings.source(name), self.device)
            if hasattr(source, "fit"):

                def learn(source: Any = source) -> Arrays:
                    state: Arrays = source.fit(self.images, progress=self.progress).state()
                    return state

                source.restore(self.stages.run(f"{name}.source", learn))
        return sources

    def learn_codings(self, sources: Mapping[str, Any]) -> list[Coding | None]:
        """Return the fitted coding of each block; descriptors are drawn in one pass a source."""
        # A block's seed depends on which descriptors it codes, not on the other blocks.
        n_outputs = 1 + max(block.output for block in self.settings.blocks)
        seeds = spawn_seeds(self.words_seed, n_outputs)
        blocks = self.settings.blocks
        codings = [block.make_coding(self.device, seeds[block.output]) for block in blocks]

        @cache  # drawn once, and only if the words of some block were not found stored
        def drawn(source: str) -> dict[int, list[Tensor]]:
            mine = [(b, c) for b, c in zip(blocks, codings) if c and b.source == source]
            return sample_descriptors(
                self.images,
                sources[source],
                device=self.where,
                seed=self.words_seed,
                n_samples=max(samples_wanted(coding) for _, coding in mine),
                outputs={block.output for block, _ in mine},
                progress=self.progress,
            )

        for block, coding in zip(blocks, codings):
            if coding is None:
                continue

            def learn(block: Block = block, coding: Coding = coding) -> Arrays:
                samples = first_samples(drawn(block.source)[block.output], samples_wanted(coding))
                return learn_coding(coding, samples).state()

            coding.restore(self.stages.run(f"{block.name}.words", learn))
        return codings

    def encode(self, sources: Mapping[str, Any], codings: Sequence[Coding | None]) -> list[Tensor]:
        """Return the vectors (N, width) of the training images, each of unit length, one matrix a block.

        They lie on the device where there is room for them, else in host memory.
        """
        vectors: dict[str, Tensor] = {}
        for block in self.settings.blocks:
            if self.settings.kind(block) == "deep":

                def compute(block: Block = block) -> Arrays:
                    return {"vectors": sources[block.source].vectors(self.images.sources, self.progress)}

                raw = self.stages.run(f"{block.name}.vectors", compute)["vectors"]
                vectors[block.name] = unit_vectors(as_tensor(raw, self.where), block.power)
        coded = [
            (block, coding)
            for block, coding in zip(self.settings.blocks, codings)
            if self.settings.kind(block) != "deep"
        ]
        for number, part in enumerate(slices(len(self.images), ENCODED_AT_ONCE), start=1):
            for block, rows in self._part(sources, coded, number, part):
                if block.name not in vectors:
                    vectors[block.name] = self._empty(len(self.images), rows.shape[1])
                vectors[block.name][part] = torch.from_numpy(rows).to(vectors[block.name].device)
        return [vectors[block.name] for block in self.settings.blocks]

    def _part(
        self,
        sources: Mapping[str, Any],
        coded: Sequence[tuple[Block, Coding | None]],
        number: int,
        part: slice,
    ) -> Iterator[tuple[Block, np.ndarray[Any, Any]]]:
        """Yield each block with its vectors of a part of the images, all not found stored by one pass."""
        encoded: dict[str, np.ndarray[Any, Any]] = {}

        def shifted(done: int, _: int) -> None:
            if self.progress is not None:
                self.progress(part.start + done, len(self.images))

        for block, _ in coded:

            def encode(name: str = block.name) -> Arrays:
                if not encoded:
                    missing = [
                        pair for pair in coded if not self.stages.is_stored(f"{pair[0].name}.vectors{number}")
                    ]
                    blocks, codings = zip(*missing)
                    encoder = Encoder(sources, blocks, codings, self.where)
                    encoded.update(encode_all(encoder, self.images[part], shifted))
                return {"vectors": encoded.pop(name)}

            yield block, self.stages.run(f"{block.name}.vectors{number}", encode)["vectors"]

    def _empty(self, n_rows: int, width: int) -> Tensor:
        """Return room for vectors, on the device if that leaves half of its memory for the work."""
        device = torch.device("cpu")
        if self.where.type == "cuda" and 8 * n_rows * width < torch.cuda.mem_get_info(self.where)[0]:
            device = self.where
        return torch.empty(n_rows, width, device=device)

    def classify(
        self, vectors: Sequence[Tensor], class_weight: Any
    ) -> tuple[tuple[float, ...], LinearClassifier]:
        """Return the weights of the blocks and the classifier, fitted on their vectors."""
        parameters = {**self.settings.classifier, "class_weight": class_weight}
        classifier = LinearClassifier(**{**parameters, "device": self.device, "random_state": self.svm_seed})
        given = [None if block.weight == "cv" else block.weight for block in self.settings.blocks]
        grams: list[Tensor] = []
        weights = tuple(1.0 if weight is None else float(weight) for weight in given)
        if None in given and len(given) > 1:

            def choose() -> Arrays:
                grams.extend(gram_of(block, self.where) for block in vectors)
                choice = choose_weights(
                    grams,
                    self.targets,
                    given=given,
                    Cs=classifier.Cs if classifier.C == "cv" else (classifier.C,),
                    cv=classifier.cv,
                    class_weight=class_weight,
                    random_state=self.svm_seed,
                )
                return {"weights": np.array(choice.weights)}

            weights = tuple(self.stages.run("weights", choose)["weights"].tolist())

        def fit() -> Arrays:
            return classifier_arrays(fit_blocks(classifier, vectors, self.targets, weights, grams or None))

        return weights, restore_classifier(classifier, self.stages.run("classifier", fit))


def encode_all(
    encoder: Encoder, images: Sequence[Tensor], progress: Progress | None
) -> dict[str, np.ndarray[Any, Any]]:
    """Return the vectors of all images by block; they leave the device at the end, all at once."""
    collected: list[Tensor] = []
    for numbers, vectors in encoder.encode(images, progress):
        if not collected:
            collected = [block.new_empty(len(images), block.shape[1]) for block in vectors]
        at = torch.tensor(numbers).to(encoder.device, non_blocking=True)  # does not wait for the GPU
        for rows, block in zip(collected, vectors):
            rows[at] = block
    return {block.name: as_numpy(rows) for block, rows in zip(encoder.blocks, collected)}

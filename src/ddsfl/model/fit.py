"""The fit of a classifier: sources, words, vectors, weights and the SVM, as named and stored stages."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ddsfl.classify.linear import LinearClassifier
from ddsfl.classify.novelty import Novelty, statistics_of
from ddsfl.classify.validation import Validation
from ddsfl.coding.base import Coding
from ddsfl.compute.device import resolve_device, slices, spawn_seeds
from ddsfl.compute.stages import Arrays, Stages, fingerprint, stored_rows
from ddsfl.compute.tensors import Tensors
from ddsfl.encoder.block import Block
from ddsfl.encoder.encoder import Encoder, encode_part
from ddsfl.encoder.samples import first_samples, sample_descriptors
from ddsfl.images.image_list import ImageList
from ddsfl.images.labels import Labels
from ddsfl.images.spread import Spread
from ddsfl.model.keys import ENCODED_AT_ONCE, StageKeys
from ddsfl.model.networks import NetworkFiles
from ddsfl.model.settings import Settings
from ddsfl.model.vectors import MOST_HELD, HeldVectors, StoredPart, StoredVectors, TrainingVectors
from ddsfl.patches.batches import Progress

Report = Callable[[str, bool], None]


class Fit:
    """One fit: a method for each kind of stage, to be called in this order.

    Parameters
    ----------
    settings : settings of the classifier.
    images, labels : the training images; passes over them run where their ``spread`` says.
    seed : seed of everything that is random.
    device : "auto", "cpu" or "cuda".
    checkpoints : folder in which the result of each stage is kept; None keeps nothing.
    report : called as each stage starts, with its name and whether its result was stored already.
    progress : called with (images done, images in all) within the stages.
    steps : called with (iterations done, most iterations) within the stages.

    Attributes
    ----------
    sources : the descriptors by name; `learn_sources` fits them.
    codings : the coding of each block; `learn_codings` fits them.
    networks : the files that sources read.
    stages : the stages that ran, with their times.
    """

    def __init__(
        self,
        settings: Settings,
        images: ImageList,
        labels: Labels,
        seed: int,
        *,
        device: str | torch.device = "auto",
        checkpoints: str | os.PathLike[str] | None = None,
        report: Report | None = None,
        progress: Progress | None = None,
        steps: Progress | None = None,
    ) -> None:
        self.settings, self.images, self.labels, self.progress = settings, images, labels.numbered, progress
        self.device, self.where = device, resolve_device(device)
        stack_seed, self.words_seed, self.svm_seed = spawn_seeds(seed, 3)
        self.sources: dict[str, Any] = dict(settings.make_sources(device, stack_seed))
        self.networks = NetworkFiles.of(self.sources)
        self.class_weight = _class_weight(settings.classifier.get("class_weight"), labels)
        self.codings: list[Coding | None] = []
        keys = StageKeys(settings, self.sources, self.networks, images, labels, seed, self.where)
        self.stages = Stages(checkpoints, key=keys, report=report, steps=steps)
        self._key_of = keys

    def vector_keys(self) -> dict[str, str]:
        """Return a digest of what the vectors of each block depend on, by block."""
        blocks = self.settings.blocks
        return {block.name: fingerprint(self._key_of(f"{block.name}.vectors")) for block in blocks}

    def learn_sources(self) -> None:
        """Fit the sources that learn."""
        for name, source in self.sources.items():
            source.learn(self.images, self.labels, self.stages, name, self.progress)

    def learn_codings(self) -> None:
        """Fit the coding of each block; descriptors are drawn in one pass per source."""
        # A block's seed depends on which descriptors it codes, not on the other blocks.
        n_outputs = 1 + max(block.output for block in self.settings.blocks)
        seeds = spawn_seeds(self.words_seed, n_outputs)
        blocks = self.settings.blocks
        codings = [block.make_coding(self.device, seeds[block.output]) for block in blocks]

        @cache  # drawn once, and only if the words of some block are not stored
        def drawn(source: str) -> dict[int, list[Tensor]]:
            mine = [(b, c) for b, c in zip(blocks, codings) if c and b.source == source]
            return sample_descriptors(
                self.images,
                self.sources[source],
                device=self.where,
                seed=self.words_seed,
                n_samples=max(coding.n_samples_wanted for _, coding in mine),
                outputs={block.output for block, _ in mine},
                progress=self.progress,
            )

        for block, coding in zip(blocks, codings):
            if coding is None:
                continue

            def learn(block: Block = block, coding: Coding = coding) -> Arrays:
                samples = first_samples(drawn(block.source)[block.output], coding.n_samples_wanted)
                return coding.fit_to_samples(samples).state()

            coding.restore(self.stages.run(f"{block.name}.words", learn))
        self.codings = codings

    def encode(self) -> TrainingVectors:
        """Return the vectors of the training images, one matrix per block, each vector of unit length.

        Beyond `MOST_HELD` images they stay in the files of their stages, in a temporary folder if there is
        none for stages. Otherwise they are on the device if there is room, else in host memory.
        """
        if len(self.images) <= MOST_HELD:
            return self._held()
        if self.stages.folder is not None:
            return self._stored(None)
        folder = tempfile.TemporaryDirectory(prefix="ddsfl-vectors-")
        self.stages.folder = Path(folder.name)
        try:
            return self._stored(folder)
        except BaseException:
            folder.cleanup()
            raise
        finally:
            self.stages.folder = None  # nothing else is kept

    def _held(self) -> HeldVectors:
        vectors: dict[str, Tensor] = {}
        for name, _, part, rows in self._rows():
            if name not in vectors:
                vectors[name] = self._empty(len(self.images), rows.shape[1])
            vectors[name][part] = torch.from_numpy(rows).to(vectors[name].device)
        blocks = [vectors[block.name] for block in self.settings.blocks]
        return HeldVectors(blocks, self.where, self._chooses)

    def _stored(self, folder: tempfile.TemporaryDirectory[str] | None) -> StoredVectors:
        names = [block.name for block in self.settings.blocks]
        widths: dict[str, int] = {}
        parts: dict[str, list[StoredPart]] = {name: [] for name in names}
        for name, number, part, rows in self._rows():
            widths[name] = rows.shape[1]
            read = partial(stored_rows, self.stages.path(f"{name}.vectors{number}"), "vectors")
            parts[name].append(StoredPart(part, read))
        ordered = [sorted(parts[name], key=lambda part: part.images.start) for name in names]
        return StoredVectors(ordered, [widths[name] for name in names], self.where, folder)

    def _rows(self) -> Iterator[tuple[str, int, slice, np.ndarray[Any, Any]]]:
        """Yield block, number of the part, which images, and their vectors, for all parts of all blocks."""
        every = list(zip(self.settings.blocks, self.codings))
        # Networks and tables see the complete list of images; pixels are encoded in parts, which are stored.
        for sees_pixels, at_once in ((False, len(self.images)), (True, ENCODED_AT_ONCE)):
            pairs = [pair for pair in every if self.sources[pair[0].source].sees_pixels == sees_pixels]
            parts = list(slices(len(self.images), at_once))
            for number, encoded in self._encoded(pairs, parts, self.images.spread if sees_pixels else None):
                part = parts[number - 1]
                for name, rows in self._part(pairs, number, part, encoded):
                    yield name, number, part, rows

    def _encoded(
        self, pairs: Sequence[tuple[Block, Coding | None]], parts: Sequence[slice], spread: Spread | None
    ) -> Iterator[tuple[int, Arrays]]:
        """Yield the number of each part of the images, with vectors by block where workers encode.

        What is not stored is encoded by the workers and comes first, part by part as they end.
        """
        there: list[int] = []
        if spread is not None:
            names = [block.name for block, _ in pairs]
            there = [
                number
                for number in range(1, len(parts) + 1)
                if not all(self.stages.is_stored(f"{name}.vectors{number}") for name in names)
            ]
            sources = {
                name: source.on(self.where) for name, source in self.sources.items() if source.sees_pixels
            }
            missing = self.images.subset(
                at for number in there for at in range(len(self.images))[parts[number - 1]]
            )
            work = partial(encode_part, Encoder(sources, pairs, self.where))
            for first, encoded in spread.over(missing, work, ENCODED_AT_ONCE, self.progress):
                yield there[first // ENCODED_AT_ONCE], encoded
        yield from ((number, {}) for number in sorted(set(range(1, len(parts) + 1)) - set(there)))

    def _part(
        self, pairs: Sequence[tuple[Block, Coding | None]], number: int, part: slice, encoded: Arrays
    ) -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
        """Yield each block's name and vectors for a part of the images; one pass computes all not stored.

        ``encoded`` may have vectors of all blocks already.
        """

        def shifted(done: int, _: int) -> None:
            if self.progress is not None:
                self.progress(part.start + done, len(self.images))

        for block, _ in pairs:

            def encode(name: str = block.name) -> Arrays:
                if name not in encoded:
                    # A stored result that turns out to be damaged is asked for, too.
                    missing = [
                        pair
                        for pair in pairs
                        if pair[0].name == name
                        or not self.stages.is_stored(f"{pair[0].name}.vectors{number}")
                    ]
                    encoder = Encoder(self.sources, missing, self.where)
                    encoded.update(encoder.encode_all(self.images[part], shifted))
                return {"vectors": encoded.pop(name)}

            yield block.name, self.stages.run(f"{block.name}.vectors{number}", encode)["vectors"]

    def _empty(self, n_rows: int, width: int) -> Tensor:
        """Return room for vectors, on the device if that leaves half of its memory for the work."""
        device = torch.device("cpu")
        if self.where.type == "cuda" and 8 * n_rows * width < torch.cuda.mem_get_info(self.where)[0]:
            device = self.where
        return torch.empty(n_rows, width, device=device)

    @property
    def _chooses(self) -> bool:
        """Whether weights of blocks are chosen: of a single block there is nothing to choose."""
        return len(self.settings.blocks) > 1 and any(block.weight == "cv" for block in self.settings.blocks)

    def classify(
        self, vectors: TrainingVectors
    ) -> tuple[tuple[float, ...], LinearClassifier, Validation | None]:
        """Return the weights of the blocks, the classifier fitted on their vectors, and its validation."""
        parameters = {**self.settings.classifier, "class_weight": self.class_weight}
        classifier = LinearClassifier(**{**parameters, "device": self.device, "random_state": self.svm_seed})
        given = [None if block.weight == "cv" else block.weight for block in self.settings.blocks]
        weights = tuple(1.0 if weight is None else float(weight) for weight in given)
        if self._chooses:

            def choose() -> Arrays:
                chosen = vectors.choose_weights(classifier, self.labels, given, self.svm_seed)
                return {"weights": np.array(chosen)}

            weights = tuple(self.stages.run("weights", choose)["weights"].tolist())

        def fit() -> Arrays:
            vectors.fit(classifier, self.labels, weights)
            found = classifier.validation_
            validated = {} if found is None else found.state()
            return classifier.state() | {f"validation.{name}": array for name, array in validated.items()}

        fitted = self.stages.run("classifier", fit)
        validated = Tensors(fitted).within("validation.")
        classifier.restore(fitted)
        if not len(validated):
            return weights, classifier, None
        validation = Validation.restore(
            validated,
            single=classifier.single_label_,
            n_classes=len(classifier.classes_),
            n_blocks=len(self.settings.blocks),
        )
        classifier.validation_ = validation
        if len(self.settings.blocks) > 1:

            def leave_out() -> Arrays:
                return {"scores": vectors.without(classifier, self.labels, weights)}

            validation = validation.with_blocks(self.stages.run("without", leave_out)["scores"])
        return weights, classifier, validation

    def learn_novelty(self) -> Novelty:
        """Return what tells images that are unlike the training images; it depends on nothing else."""

        def learn() -> Arrays:
            statistics = statistics_of(self.images, self.where, self.progress)
            return Novelty().fit(statistics, self.labels).state()

        return Novelty().restore(self.stages.run("novelty", learn))


def _class_weight(class_weight: Any, labels: Labels) -> Any:
    """Return class weights by class number, as the SVM names the classes."""
    if not isinstance(class_weight, Mapping):
        return class_weight
    if not labels.single:
        raise ValueError(
            f"class_weight={class_weight!r}; expected None or 'balanced', because images have several labels."
        )
    numbers = {str(name): number for number, name in enumerate(labels.classes)}
    unknown = sorted(str(name) for name in class_weight if str(name) not in numbers)
    if unknown:
        raise ValueError(f"class_weight names {', '.join(unknown)}; expected some of {', '.join(numbers)}.")
    return {numbers[str(name)]: weight for name, weight in class_weight.items()}

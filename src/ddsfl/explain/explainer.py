"""From images to their evidence, with a fitted encoder and classifier.

Shapes: C classes, of which R are explained; T descriptors of one image in one block; P values of its vector.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ddsfl.classify.crossval import scores_by_class
from ddsfl.classify.fusion import join_blocks
from ddsfl.classify.linear import LinearClassifier
from ddsfl.coding.sharing import Sharing
from ddsfl.compute.device import as_numpy
from ddsfl.encoder.block import Block
from ddsfl.encoder.encoder import Encoder, unit_vectors
from ddsfl.explain.average import AverageEvidence
from ddsfl.explain.block_evidence import AverageBlock, BlockEvidence
from ddsfl.explain.evidence import Evidence
from ddsfl.explain.labels import Chosen, chosen_classes
from ddsfl.explain.patches import WordPatches
from ddsfl.images.image_list import ImageList
from ddsfl.patches.batches import Progress, read_ahead
from ddsfl.patches.fields import Fields
from ddsfl.patches.source import Reading


class _Read(NamedTuple):
    """One block of one image: its unit vector, and where it came from (None for blocks without places)."""

    unit: Tensor
    sharing: Sharing | None
    fields: Fields | None


class Explainer:
    """Takes the scores of images apart.

    Parameters
    ----------
    encoder : turns images into vectors.
    classifier : the linear SVM over the joined vectors.
    weights : the weight of each block.
    labels : (C,) the names of the classes.
    average : what the average training image says; None if not known.
    patches : training patches of the words, by block.
    """

    def __init__(
        self,
        encoder: Encoder,
        classifier: LinearClassifier,
        weights: Sequence[float],
        labels: np.ndarray[Any, Any],
        average: AverageEvidence | None,
        patches: Mapping[str, WordPatches] | None = None,
    ) -> None:
        self.encoder, self.classifier, self.weights = encoder, classifier, weights
        self.labels, self.average, self.patches = labels, average, patches or {}
        like = torch.empty(0, device=encoder.device)
        self._sharers = {
            block.name: coding.sharer(like, block.levels, block.pooling)
            for block, coding in zip(encoder.blocks, encoder.codings)
            if coding is not None
        }

    def explain(
        self,
        images: ImageList,
        classes: Sequence[Any] | None = None,
        against: Any = "runner-up",
        progress: Progress | None = None,
    ) -> Iterator[Evidence]:
        """Return the evidence of each image, computed when it is asked for; see `SceneClassifier.explain`."""
        chosen = Chosen.check(self.labels, self.classifier.single_label_, classes, against)
        return self._explain_all(images, chosen, progress)

    def _explain_all(
        self, images: ImageList, chosen: Chosen, progress: Progress | None
    ) -> Iterator[Evidence]:
        listed = self.encoder.encode_lists(images, None)
        for number, [pixels] in enumerate(read_ahead(images, 1)):
            rows = {name: vectors[number] for name, vectors in listed.items()}
            yield self._explain_one(pixels, rows, images.given_shape(number), chosen)
            if progress is not None:
                progress(number + 1, len(images))

    def _explain_one(
        self, pixels: Tensor, listed: Mapping[str, Tensor], shape: tuple[int, int], chosen: Chosen
    ) -> Evidence:
        read = self._read(pixels, listed)
        blocks = self.encoder.blocks
        units = [read[block.name].unit[None] for block in blocks]
        joined = join_blocks(units, self.weights, self.classifier.n_features_in_)
        decisions = as_numpy(self.classifier.decision_function(joined))
        scores = scores_by_class(decisions)[0].astype(np.float64)
        numbers, against = chosen_classes(chosen, scores)
        parts, first = [], 0
        for block, weight in zip(blocks, self.weights):
            width = len(read[block.name].unit)
            coef, _ = self.classifier.rows_of(numbers, slice(first, first + width))
            parts.append(self._block(block, read.pop(block.name), torch.from_numpy(coef * weight), numbers))
            first += width
        _, biases = self.classifier.rows_of(range(len(self.labels)), slice(0))
        return Evidence(
            labels=self.labels,
            scores_by_class=scores,
            bias_by_class=biases,
            single_label=self.classifier.single_label_,
            numbers=tuple(numbers),
            against_number=against,
            parts=tuple(parts),
            shape=shape,
        )

    def _read(self, pixels: Tensor, listed: Mapping[str, Tensor]) -> dict[str, _Read]:
        """Return the vector of each block, one pass over the pixels per source."""
        read: dict[str, _Read] = {}
        every = zip(self.encoder.blocks, self.encoder.codings)
        halves = {block.name for block, coding in every if coding is not None and coding.takes_halves}
        for name, source in self.encoder.sources.items():
            mine = [block for block in self.encoder.blocks if block.source == name]
            readings = [Reading(block.output, block.mirrored, None, block.name in halves) for block in mine]
            if not source.sees_pixels:
                read |= {block.name: _Read(listed[block.name], None, None) for block in mine}
            elif not source.is_local:
                for block, vectors in zip(mine, source.encode([pixels], readings)):
                    read[block.name] = _Read(unit_vectors(vectors, block.power)[0], None, None)
            else:
                shape = (int(pixels.shape[1]), int(pixels.shape[2]))
                for block, reading, described in zip(mine, readings, source.read([pixels], readings)):
                    sharing = self._sharers[block.name](described)
                    unit = unit_vectors(sharing.vector[None], block.power)[0]
                    read[block.name] = _Read(unit, sharing, source.fields(shape, reading))
        return read

    def _block(self, block: Block, read: _Read, coef: Tensor, numbers: Sequence[int]) -> BlockEvidence:
        """Return what one block says for the chosen classes; ``coef`` are its weights (R, P)."""
        told = coef.to(read.unit.device) * read.unit.double()
        average = None
        if self.average is not None:
            cells, words = self.average.cells[block.name], self.average.words.get(block.name)
            some = list(numbers)
            average = AverageBlock(cells[some].T, None if words is None else words[some].T)
        if read.sharing is None or read.fields is None:
            return BlockEvidence(block, as_numpy(told.sum(dim=1)), average)
        shares = read.sharing.share(told)
        library, echoes = self.patches.get(block.name), None
        if library is not None:
            known = (torch.from_numpy(part).to(told.device) for part in (library.words, library.features))
            echoes = as_numpy(read.sharing.echoes(told, *known)).astype(np.float64)
        return BlockEvidence(
            block,
            as_numpy(shares.by_descriptor.sum(dim=0)),
            average,
            fields=read.fields,
            by_descriptor=shares.by_descriptor.cpu(),
            by_word=as_numpy(shares.by_word),
            voices=type(shares.voices)(*(part.cpu() for part in shares.voices)),
            library=library,
            echoes=echoes,
        )

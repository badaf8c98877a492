"""Positive and negative nearest neighbours of labelled patches, and the sums over them.

Shapes: N labelled patches, D filters, C classes, K neighbours, E anchors. An anchor is a patch
together with one of its classes: a patch with two labels gives two anchors.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from ddsfl.compute.neighbours.cuda import can_fuse, fused_nearest
from ddsfl.compute.neighbours.exact import nearest

#: Entries of a column of B that are summed one after the other on a GPU.
PART_LENGTH = 32


class Parts(NamedTuple):
    """Parts of the columns of B, of at most ``PART_LENGTH`` entries each.

    Attributes
    ----------
    patches, firsts, pasts : (parts,) the column of each part, and its first and last entry (exclusive).
    offsets, counts : (N,) the first part of each column, and how many it has.
    """

    patches: Tensor
    firsts: Tensor
    pasts: Tensor
    offsets: Tensor
    counts: Tensor


@dataclass(frozen=True)
class Triplets:
    """Anchors with their positive and negative neighbours, indexed both ways; fixed while W changes.

    The difference of the two mean squared distances needs neighbours only through the signed sums
    B f and B f^2, where the row of an anchor in B has 1/K at its positive and -1/K at its negative
    neighbours. B is stored by rows (anchor to neighbours) and by columns (neighbour to anchors).
    Value and gradient are then sums in a fixed order, identical on every run, on a GPU too.

    Attributes
    ----------
    anchors, classes : (E,) int64, the patch and the class of each anchor; ordered by class.
    weights : (E,) weight of each anchor in the mean over its class and then over the classes.
    neighbours, signs : (E, 2K) the rows of B; a missing neighbour is any patch with sign 0.
    sources, source_signs, source_offsets : the N columns of B, concatenated, and where each starts.
    own, own_offsets : the anchors of each patch (one per label), concatenated, and where each patch starts.
    """

    anchors: Tensor
    classes: Tensor
    weights: Tensor
    neighbours: Tensor
    signs: Tensor
    sources: Tensor
    source_signs: Tensor
    source_offsets: Tensor
    own: Tensor
    own_offsets: Tensor

    @cached_property
    def parts(self) -> Parts:
        """The columns of B in parts: some patches are neighbours of thousands of anchors."""
        past = torch.cat([self.source_offsets[1:], self.source_offsets.new_full((1,), len(self.sources))])
        counts = -(-(past - self.source_offsets) // PART_LENGTH)
        offsets = counts.cumsum(0) - counts
        patches = torch.arange(len(counts), device=counts.device).repeat_interleave(counts)
        place = torch.arange(len(patches), device=counts.device) - offsets[patches]
        firsts = self.source_offsets[patches] + PART_LENGTH * place
        return Parts(patches, firsts, torch.minimum(firsts + PART_LENGTH, past[patches]), offsets, counts)

    def gather(self, rows: Tensor) -> Tensor:
        """Return B rows: (N, d) to (E, d)."""
        return embedding_bag(self.neighbours, rows, per_sample_weights=self.signs, mode="sum")

    def scatter(self, rows: Tensor) -> Tensor:
        """Return B' rows: (E, d) to (N, d)."""
        return embedding_bag(
            self.sources,
            rows,
            self.source_offsets,
            per_sample_weights=self.source_signs,
            mode="sum",
        )

    def scatter_own(self, rows: Tensor) -> Tensor:
        """Return the sum of the rows (E, d) over the anchors of each patch: (N, d)."""
        return embedding_bag(self.own, rows, self.own_offsets, mode="sum")


def make_triplets(
    anchors: Tensor, classes: Tensor, weights: Tensor, positives: Tensor, negatives: Tensor, N: int
) -> Triplets:
    """Return the triplets of E anchors among N patches; neighbours are (E, K), -1 where missing.

    Anchors without any positive or without any negative neighbour are left out. ``weights`` sets the
    dtype; ``classes`` must be in ascending order.
    """

    def mean_weights(neighbours: Tensor) -> Tensor:
        present = (neighbours >= 0).to(weights.dtype)
        return present / present.sum(1, keepdim=True).clamp_min(1)

    complete = (positives >= 0).any(1) & (negatives >= 0).any(1)
    anchors, classes, weights = anchors[complete], classes[complete], weights[complete]
    positives, negatives = positives[complete], negatives[complete]
    neighbours = torch.cat([positives, negatives], 1)
    signs = torch.cat([mean_weights(positives), -mean_weights(negatives)], 1)
    present = neighbours >= 0
    targets, order = neighbours[present].sort(stable=True)
    owners, own = anchors.sort(stable=True)
    every = torch.arange(N, device=anchors.device)
    return Triplets(
        anchors=anchors,
        classes=classes,
        weights=weights,
        neighbours=neighbours.clamp_min(0),
        signs=signs,
        sources=present.nonzero()[:, 0][order],
        source_signs=signs[present][order],
        source_offsets=torch.searchsorted(targets, every),
        own=own,
        own_offsets=torch.searchsorted(owners, every),
    )


def search_triplets(
    features: Tensor, membership: Tensor, groups: Tensor, K: int, sharing: Tensor | None = None
) -> Triplets:
    """Return the K positive and K negative nearest neighbours of every labelled patch.

    Parameters
    ----------
    features : (N, D) responses |W x| of the labelled patches.
    membership : (N, C) bool. Positives have the class of the anchor, negatives do not.
    groups : (N,) int64, the image of each patch; patches of the same image are never neighbours.
    sharing : (C, D) bool, the filters used for the distances of each class; None uses all filters.
    """
    N, C = membership.shape
    anchors, classes, weights = [], [], []
    sides: tuple[list[Tensor], list[Tensor]] = ([], [])
    for c, member in enumerate(membership.T):
        rows = member.nonzero()[:, 0]
        own = features if sharing is None else features[:, sharing[c]]
        for side, points in zip(sides, (rows, (~member).nonzero()[:, 0])):
            if len(rows) == 0 or len(points) == 0:
                side.append(rows.new_full((len(rows), K), -1))
                continue
            search = fused_nearest if can_fuse(own, K) else nearest
            near = search(own[rows], own[points], K, query_groups=groups[rows], point_groups=groups[points])[
                1
            ]
            side.append(torch.where(near >= 0, points[near.clamp_min(0)], near))
        anchors.append(rows)
        classes.append(torch.full_like(rows, c))
        weights.append(features.new_full(rows.shape, 1 / (C * max(1, len(rows)))))
    positives, negatives = (torch.cat(side) for side in sides)
    return make_triplets(torch.cat(anchors), torch.cat(classes), torch.cat(weights), positives, negatives, N)

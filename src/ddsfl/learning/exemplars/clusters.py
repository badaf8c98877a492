"""Clusters of patches that a linear SVM separates from other classes (the paper's SVM exemplars).

N patches, P inputs, C classes, S clusters, at most M members per cluster. A cluster belongs to one
class; its members are rows of the patches. Each round trains one SVM per cluster on one half of the
patches and tests it on the other half, where the cluster gets new members or is removed.
"""

from __future__ import annotations

from numbers import Integral
from typing import NamedTuple

import torch
from torch import Tensor

from ddsfl.compute.device import DEFAULT_BUDGET_BYTES, rows_within, slices
from ddsfl.compute.kmeans import kmeans
from ddsfl.compute.svm import LinearSolution, fit_batch

#: An SVM fires on patches that score above this value (a footnote of the paper).
FIRING = -1.0


class Clusters(NamedTuple):
    """S clusters, each of one class.

    Attributes
    ----------
    members : (S, M) int64, rows of the patches, -1 where a cluster has fewer than M members.
    labels : (S,) int64, the class of each cluster.
    """

    members: Tensor
    labels: Tensor

    def where(self, which: Tensor) -> Clusters:
        """Return the clusters selected by ``which`` (S,), bool."""
        return Clusters(self.members[which], self.labels[which])


class Firing(NamedTuple):
    """Held-out patches that the SVMs of S clusters fire on.

    Attributes
    ----------
    counts : (S, C) int64, how many held-out patches of each class the SVM fires on.
    sizes : (C,) int64, how many held-out patches each class has.
    best : (S, M) int64, the patches of the cluster's own class with the highest scores, best first,
        whether the SVM fires on them or not; -1 where the class has fewer.
    """

    counts: Tensor
    sizes: Tensor
    best: Tensor


def split_halves(membership: Tensor, groups: Tensor | None, generator: torch.Generator) -> Tensor:
    """Return which patches (N,) are in the first half; classes are halved, images are not split.

    An image counts for its rarest class, so each class is split as evenly as its images allow. A class
    that still lies in one half (it may have only one image) is split by patch.
    """
    n_patches, n_classes = membership.shape
    if groups is None:
        images = torch.arange(n_patches, device=membership.device)
    else:
        images = torch.unique(groups, return_inverse=True)[1]
    n_images = int(images.max()) + 1
    carried = torch.zeros(n_images, n_classes, dtype=torch.int64, device=membership.device)
    carried = carried.index_add_(0, images, membership.to(torch.int64)) > 0
    rarest = torch.where(carried, carried.sum(0), n_images + 1).argmin(1)
    order = torch.randperm(n_images, generator=generator).to(membership.device)
    is_first = torch.empty(n_images, dtype=torch.bool, device=membership.device)
    is_first[order] = _ranks(rarest[order]) % 2 == 0
    half = is_first[images]
    for label in range(n_classes):
        own = membership[:, label].nonzero().squeeze(1)
        if bool(half[own].all()) or not bool(half[own].any()):
            half[own] = torch.arange(len(own), device=half.device) % 2 == 0
    return half


def start_clusters(
    patches: Tensor,
    membership: Tensor,
    half: Tensor,
    n_clusters: int | None,
    min_members: int,
    max_members: int,
    generator: torch.Generator,
) -> Clusters:
    """Cluster each class by k-means within ``half`` (N,), bool; members are nearest to the centre.

    ``n_clusters`` is per class; None means one per 50 patches of the class. Clusters of fewer than
    ``min_members`` are left out if the class has a larger one.
    """
    members, labels = [], []
    for label in range(membership.shape[1]):
        own = (membership[:, label] & half).nonzero().squeeze(1)
        wanted = n_clusters or max(1, round(int(membership[:, label].sum()) / 50))
        means = kmeans(patches[own], min(wanted, len(own)), generator=generator)
        near_first = (patches[own] - means.centres[means.labels]).square().sum(1).argsort(stable=True)
        cluster = means.labels[near_first]
        rank = _ranks(cluster)
        chosen = own.new_full((len(means.centres), max_members), -1)
        close = rank < max_members
        chosen[cluster[close], rank[close]] = own[near_first[close]]
        sizes = torch.bincount(cluster, minlength=len(chosen))
        chosen = chosen[sizes >= sizes.max().clamp(max=min_members)]
        members.append(chosen)
        labels.append(chosen.new_full((len(chosen),), label))
    return Clusters(torch.cat(members), torch.cat(labels))


def train(
    patches: Tensor,
    membership: Tensor,
    half: Tensor,
    clusters: Clusters,
    C: float,
    n_negatives: int,
    generator: torch.Generator,
) -> LinearSolution:
    """Train one SVM per cluster: its members against random patches of ``half`` without its class.

    Negatives are drawn once per class and round; all clusters of the class use the same ones.
    """
    weights = patches.new_zeros(len(clusters.labels), patches.shape[1])
    biases = patches.new_zeros(len(weights))
    for label in range(membership.shape[1]):
        mine = (clusters.labels == label).nonzero().squeeze(1)
        lacking = ~membership[:, label]
        pool = (lacking & half).nonzero().squeeze(1)
        if len(pool) == 0:  # every other class has one patch, and it is in the other half
            pool = lacking.nonzero().squeeze(1)
        if len(pool) > n_negatives:
            pool = pool[torch.randperm(len(pool), generator=generator)[:n_negatives].to(pool.device)]
        members = clusters.members[mine]
        solution = fit_batch(patches[members.clamp(min=0)], (members >= 0).to(patches), C, patches[pool])
        weights[mine], biases[mine] = solution
    return LinearSolution(weights, biases)


def fire(
    patches: Tensor,
    membership: Tensor,
    held_out: Tensor,
    planes: LinearSolution,
    labels: Tensor,
    max_members: int,
    budget_bytes: int = DEFAULT_BUDGET_BYTES,
) -> Firing:
    """Test the SVMs on the patches ``held_out`` (N,), bool."""
    rows = held_out.nonzero().squeeze(1)
    tested, carried = patches[rows], membership[rows]
    weights, biases = planes
    counts = patches.new_zeros(len(labels), membership.shape[1])
    best = rows.new_full((len(labels), max_members), -1)
    depth = min(max_members, len(rows))
    for chunk in slices(len(labels), rows_within(24 * len(rows), budget_bytes)):
        scores = torch.addmm(biases[chunk, None], weights[chunk], tested.T)
        counts[chunk] = (scores > FIRING).to(patches) @ carried.to(patches)
        own = scores.masked_fill_(~carried.T[labels[chunk]], -torch.inf).topk(depth)
        best[chunk, :depth] = torch.where(own.values > -torch.inf, rows[own.indices], -1)
    return Firing(counts.to(torch.int64), carried.sum(0), best)


def is_discriminative(firing: Firing, labels: Tensor, min_members: int, many: int | float) -> Tensor:
    """Return which clusters (S,) to keep.

    A cluster is removed if it fires on fewer than ``min_members`` patches of its own class, or on many
    patches of more than half of all classes. "Many" means ``many`` patches if it is an integer,
    otherwise ``many`` times the share of the cluster's own class that it fires on.

    >>> firing = Firing(torch.tensor([[6, 1, 0], [6, 5, 4], [2, 0, 0]]), torch.tensor([9] * 3), None)
    >>> is_discriminative(firing, torch.tensor([0, 0, 0]), 3, 0.5)
    tensor([ True, False, False])
    """
    own = firing.counts.gather(1, labels[:, None])
    if isinstance(many, Integral):
        fires_many = firing.counts >= many
    else:
        shares = firing.counts / firing.sizes.clamp(min=1)
        fires_many = shares >= many * shares.gather(1, labels[:, None])
    is_common = 2 * fires_many.sum(1) > firing.counts.shape[1]
    return (own.squeeze(1) >= min_members) & ~is_common


def refine(
    patches: Tensor,
    membership: Tensor,
    half: Tensor,
    clusters: Clusters,
    *,
    C: float,
    n_negatives: int,
    min_members: int,
    max_members: int,
    many: int | float,
    max_rounds: int,
    generator: torch.Generator,
) -> tuple[Clusters, int, Tensor]:
    """Train on one half, test on the other, swap; until nothing changes or for ``max_rounds`` rounds.

    A class that would lose all its clusters keeps its best one, so that learning can continue.

    Returns
    -------
    clusters : the remaining clusters with their final members.
    n_rounds : number of rounds.
    rescued : (C,) bool, which classes kept a cluster that should have been removed.
    """
    rescued = torch.zeros(membership.shape[1], dtype=torch.bool, device=patches.device)
    previous = None  # the members before the last round, which lie in the half that is tested now
    for n_rounds in range(1, max_rounds + 1):  # noqa: B007
        planes = train(patches, membership, half, clusters, C, n_negatives, generator)
        firing = fire(patches, membership, ~half, planes, clusters.labels, max_members)
        stays = is_discriminative(firing, clusters.labels, min_members, many)
        spared = _best_of_lost_classes(firing, clusters.labels, stays, min_members)
        rescued[clusters.labels[spared]] = True
        stays[spared] = True

        fired = firing.counts.gather(1, clusters.labels[:, None])
        fired[spared] = fired[spared].clamp(min=min_members)
        is_fired = torch.arange(max_members, device=fired.device) < fired
        members = torch.where(is_fired, firing.best, -1)
        members = torch.where((members >= 0).any(1, keepdim=True), members, clusters.members)
        settled = bool(stays.all()) and previous is not None and torch.equal(members, previous)
        previous = clusters.members[stays]
        clusters, half = Clusters(members, clusters.labels).where(stays), ~half
        if settled:
            break
    return clusters, n_rounds, rescued


def nearest_to_centre(patches: Tensor, clusters: Clusters) -> Tensor:
    """Return the member (S,) of each cluster that is nearest to the mean of its members."""
    is_member = clusters.members >= 0
    members = patches[clusters.members.clamp(min=0)]
    weights = is_member.to(patches)[:, :, None]
    centres = (members * weights).sum(1, keepdim=True) / weights.sum(1, keepdim=True)
    lengths = (members - centres).square().sum(2).masked_fill(~is_member, torch.inf)
    return clusters.members.gather(1, lengths.argmin(1, keepdim=True)).squeeze(1)


def _best_of_lost_classes(firing: Firing, labels: Tensor, stays: Tensor, min_members: int) -> Tensor:
    """Return the most specific cluster of each class that would lose all its clusters."""
    shares = firing.counts / firing.sizes.clamp(min=1)
    own = shares.gather(1, labels[:, None]).squeeze(1)
    merit = own / shares.mean(1).clamp(min=1e-12)  # between 0 and C
    enough = firing.counts.gather(1, labels[:, None]).squeeze(1) >= min_members
    merit = merit + enough * shares.shape[1]
    merit = torch.where(labels == torch.arange(shares.shape[1], device=labels.device)[:, None], merit, -1)
    held = torch.zeros(shares.shape[1], dtype=torch.bool, device=labels.device)
    held[labels[stays]] = True
    return merit.argmax(1)[~held]


def _ranks(values: Tensor) -> Tensor:
    """Return, for each small integer in ``values``, how many equal ones come before it.

    >>> _ranks(torch.tensor([4, 2, 4, 4, 2]))
    tensor([0, 0, 1, 2, 1])
    """
    order = torch.argsort(values, stable=True)
    sizes = torch.bincount(values)
    starts = (sizes.cumsum(0) - sizes)[values[order]]
    ranks = torch.empty_like(order)
    ranks[order] = torch.arange(len(values), device=values.device) - starts
    return ranks

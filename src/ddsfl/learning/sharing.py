"""Greedy choice of the filters of each class, for all classes and filters at once."""

from __future__ import annotations

import torch
from torch import Tensor

from ddsfl.compute.device import DEFAULT_BUDGET_BYTES, has_kernels, rows_within, slices
from ddsfl.compute.graphs import recorded
from ddsfl.learning.fused import hinge_means
from ddsfl.learning.triplets import Triplets

#: Filters that are added on a GPU before the host asks whether it goes on.
REPEATED = 16


class Hinges:
    """Mean hinge of each class, with the filters chosen so far or with one more.

    Squared distances of features add up filter by filter, and an unselected filter adds 0. Let ``q``
    (E, D) be the result of :func:`ddsfl.learning.terms.contrasts`, and r the margin plus the sum of
    q over the chosen filters. Adding filter d gives an anchor the hinge max(0, r + q_d).
    """

    def __init__(
        self,
        q: Tensor,
        triplets: Triplets,
        margin: float,
        n_classes: int,
        budget_bytes: int = DEFAULT_BUDGET_BYTES,
    ) -> None:
        self.q = q
        self.classes = triplets.classes
        # (C, E): each row averages over the anchors of one class.
        weights = triplets.weights * n_classes
        self.means = weights * (self.classes == torch.arange(n_classes, device=q.device)[:, None])
        self.reach = q.new_full((len(q),), margin)
        self.step = rows_within(2 * max(1, len(q)) * q.element_size(), budget_bytes, least=8)
        self.weights = weights
        self.starts = torch.searchsorted(self.classes, torch.arange(n_classes + 1, device=q.device))

    def now(self) -> Tensor:
        """Return the mean hinge (C,) with the filters chosen so far."""
        return self._mean(self.reach[:, None].clamp_min(0))[:, 0]

    def with_one_more(self) -> Tensor:
        """Return the mean hinge (C, D) with one more filter, for every filter."""
        if has_kernels(self.q):
            return hinge_means(self.q, self.reach, self.weights, self.starts)
        blocks = slices(self.q.shape[1], self.step)
        hinges = ((self.reach[:, None] + self.q[:, block]).clamp_min_(0) for block in blocks)
        return torch.cat([self._mean(block) for block in hinges], 1)

    def add(self, filters: Tensor, go: Tensor) -> None:
        """Add to each class in ``go`` (C,), bool, its filter in ``filters`` (C,)."""
        added = self.q.gather(1, filters[self.classes][:, None])[:, 0]
        self.reach += torch.where(go[self.classes], added, 0)

    def _mean(self, hinges: Tensor) -> Tensor:
        """Return the mean (C, d) over the anchors of each class."""
        return self.means @ hinges


def choose_filters(
    W: Tensor,
    S: Tensor,
    *,
    lambda2: float,
    gamma: float = 1.0,
    eta: float = 0.0,
    tau: float = 0.0,
    hinges: Hinges | None = None,
) -> Tensor:
    """Return which filters each class activates, (C, D) bool (psudo_obj_fun_2).

    Each class starts without filters. In each step it adds the filter that most lowers

        gamma * (L_sha^c + lambda2 * |a_c|) + eta * L_dis^c

    (the lowest index if several do), until no filter lowers it or L_sha^c is below ``tau`` times the
    energy tr(S_c). The changes are exact: with R = I - sum of the chosen w w', adding w_d changes
    L_sha^c by -2 t_d + G_dd H_dd, where t_d = w_d' S_c R w_d, G = W W' and H = W S_c W'; adding w_m
    changes t_d by -H_dm G_md. A step therefore costs O(D) per class.

    Parameters
    ----------
    W : (D, P) filters.
    S : (C, P, P) second moments of the classes.
    hinges : the discriminative part, modified in place; needed if ``eta`` is above 0.
    """
    W, S = W.double(), S.double()  # sums of up to D updates decide near ties
    C, D = len(S), len(W)
    G, H = W @ W.T, W @ S @ W.T
    t = H.diagonal(dim1=1, dim2=2).clone()
    own = G.diagonal() * t
    loss = S.diagonal(dim1=1, dim2=2).sum(1)
    enough = tau * loss
    sharing = torch.zeros(C, D, dtype=torch.bool, device=W.device)
    every = torch.arange(C, device=W.device)
    goes_on = torch.ones((), dtype=torch.bool, device=W.device)

    def add() -> None:
        """Add a filter to each class that gains by it; nothing changes once none does."""
        reconstruction = own - 2 * t
        change = gamma * (reconstruction + lambda2)
        if eta > 0 and hinges is not None:
            change += eta * (hinges.with_one_more() - hinges.now()[:, None])
        best = change.masked_fill_(sharing, torch.inf).argmin(1)
        go = (change[every, best] < 0) & (loss >= enough)
        sharing.scatter_(1, best[:, None], (go | sharing[every, best])[:, None])
        loss.add_(torch.where(go, reconstruction[every, best], 0))
        t.sub_(torch.where(go[:, None], H[every, best] * G[best], 0))
        if eta > 0 and hinges is not None:
            hinges.add(best, go)
        goes_on.copy_(go.any())

    add()
    repeat, at_once = (recorded(add, W.device), REPEATED) if W.is_cuda else (add, 1)
    for step in range(1, D):
        if step % at_once == 0 and not bool(goes_on):
            break
        repeat()
    return sharing

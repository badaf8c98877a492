"""Places: how many workers a cluster has room for, and what each of them gets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ddsfl.compute.words import counted

#: GPUs that are fractions are added up; so much is rounding.
_ROUNDING = 1e-6


@dataclass(frozen=True)
class Node:
    """The processors of one machine of a cluster."""

    cpus: float
    gpus: float = 0.0


@dataclass(frozen=True)
class Places:
    """So many workers, each with its own CPUs and its share of a GPU.

    >>> Places.on([Node(4), Node(2)])
    Places(n_workers=6, cpus=1, gpus=0.0)
    >>> Places.on([Node(8, 2)])
    Places(n_workers=2, cpus=4, gpus=1.0)
    >>> Places.on([Node(8, 1)], gpus_per_worker=0.5)
    Places(n_workers=2, cpus=4, gpus=0.5)
    """

    n_workers: int
    cpus: int
    gpus: float

    @classmethod
    def on(
        cls, nodes: Sequence[Node], workers: int | None = None, gpus_per_worker: float | None = None
    ) -> Places:
        """Return the places for ``workers``; ValueError says what is missing.

        By default each GPU gets a worker, or each CPU if there are no GPUs. Workers share the CPUs. More
        workers than GPUs may share these or do without: the caller has to say which.
        """
        gpus = gpus_per_worker
        if gpus is None:
            gpus = 1.0 if any(node.gpus >= 1 for node in nodes) else 0.0
            if gpus and workers is not None and _room(nodes, 1, 1.0) < workers:
                n_gpus = int(sum(node.gpus for node in nodes))
                raise ValueError(
                    f"--workers {workers}, but the cluster has {counted(n_gpus, 'GPU')}; expected also "
                    f"--gpus-per-worker, such as {_share(n_gpus, workers)} to share them or 0 to use none."
                )
        n_workers = workers if workers is not None else _room(nodes, 1, gpus)
        if n_workers < 1 or _room(nodes, 1, gpus) < n_workers:
            needed = f"{counted(max(1, n_workers), 'worker')} with 1 CPU" + f" and {gpus:g} GPU" * bool(gpus)
            total = f"{sum(node.cpus for node in nodes):g} CPUs and {sum(node.gpus for node in nodes):g} GPUs"
            raise ValueError(
                f"the cluster has {total} on {counted(len(nodes), 'node')}; {needed} do not fit."
            )
        share = int(sum(node.cpus for node in nodes)) // n_workers
        cpus = next(each for each in range(max(1, share), 0, -1) if _room(nodes, each, gpus) >= n_workers)
        return cls(n_workers, cpus, gpus)


def _share(gpus: int, workers: int) -> str:
    """Return the share of a GPU of each worker, rounded down.

    >>> _share(1, 3), _share(2, 3)
    ('0.33', '0.5')
    """
    return f"{max(1, 100 // -(-workers // gpus)) / 100:g}"


def _room(nodes: Sequence[Node], cpus: int, gpus: float) -> int:
    """Return how many workers fit; each is on one node, and its share of a GPU on one GPU."""
    return sum(min(int(node.cpus // cpus), _room_on_gpus(node.gpus, gpus, int(node.cpus))) for node in nodes)


def _room_on_gpus(gpus: float, each: float, enough: int) -> int:
    if not each:
        return enough
    if each >= 1:
        return int((gpus + _ROUNDING) // each)
    return int(gpus + _ROUNDING) * int((1 + _ROUNDING) // each)

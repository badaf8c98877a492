"""A Ray cluster of three nodes on this machine, of which some are killed."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any


class ThreeNodes:
    """Three nodes with one CPU each; the first is the head, which may have none."""

    def __init__(self, head_cpus: int = 1, environment: Mapping[str, str] | None = None) -> None:
        from ray.cluster_utils import Cluster

        self._few: dict[str, Any] = {"num_cpus": 1, "object_store_memory": 80 * 2**20}
        self._environment = dict(environment or {})
        head = {**self._few, "num_cpus": head_cpus, "include_dashboard": False}
        with _added(self._environment):
            self._cluster = Cluster(initialize_head=True, head_node_args=head)
            self._others: list[Any] = [self._cluster.add_node(**self._few, wait=False) for _ in range(2)]
            self._cluster.wait_for_nodes(60)
        self.address: str = self._cluster.address

    def kill_node(self, raylet: int | None = None) -> str:
        """Kill a raylet with SIGKILL, one that is not the head's; return the id of its node."""
        node = next(node for node in reversed(self._others) if raylet in (None, _raylet(node).pid))
        self._others.remove(node)
        _raylet(node).kill()
        _raylet(node).wait()  # its workers would take a dead process that nobody waited for as alive
        return str(node.node_id)

    def replace_node(self) -> None:
        """Start a node in the place of a killed one."""
        with _added(self._environment):
            self._others.append(self._cluster.add_node(**self._few))

    def end(self) -> None:
        """End all nodes."""
        self._cluster.shutdown()


@contextmanager
def _added(environment: Mapping[str, str]) -> Iterator[None]:
    """Add to the environment of the processes that are started meanwhile; workers get that of their node."""
    before = {name: os.environ.get(name) for name in environment}
    os.environ.update(environment)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _raylet(node: Any) -> Any:
    return node.all_processes["raylet"][0].process

"""Ray for tests: skipped where it is not installed, and a cluster of three nodes on this machine."""

import os

import pytest


def require_ray():
    """Skip without Ray, unless DDSFL_REQUIRE_RAY says that it must be there."""
    try:
        from ddsfl.scale.ray_cluster import import_ray

        return import_ray()
    except ImportError:
        if os.environ.get("DDSFL_REQUIRE_RAY"):
            raise
        pytest.skip("Ray is not installed")


class ThreeNodes:
    """Three nodes with one CPU each; the first is the head."""

    def __init__(self):
        from ray.cluster_utils import Cluster

        few = {"num_cpus": 1, "object_store_memory": 80 * 2**20, "include_dashboard": False}
        self._cluster = Cluster(initialize_head=True, head_node_args=few)
        del few["include_dashboard"]
        self._others = [self._cluster.add_node(**few, wait=False) for _ in range(2)]
        self._cluster.wait_for_nodes(60)
        self.address = self._cluster.address

    def kill_node(self):
        """Kill the raylet of one node with SIGKILL; return the node's name."""
        node = self._others.pop()
        node.all_processes["raylet"][0].process.kill()
        return node.node_id

    def end(self):
        """End all nodes."""
        self._cluster.shutdown()

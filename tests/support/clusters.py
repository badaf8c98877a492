"""Ray for tests: skipped where it is not installed."""

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

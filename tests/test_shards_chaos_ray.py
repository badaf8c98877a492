"""One kill of each kind on a Ray cluster of three nodes: the command, an actor, a node."""

import pytest

from tests.support.chaos import run_cases
from tests.support.clusters import require_ray


@pytest.mark.slow
def test_one_kill_of_each_kind_with_ray():
    require_ray()
    assert "3 cases, 0 wrong" in run_cases("--places", "cluster", "--kinds", "kill")

"""One kill of each kind for runs of shards on Ray, in a file of its own: it takes a minute of waiting."""

import pytest

from tests.support.chaos import run_cases
from tests.support.clusters import require_ray


@pytest.mark.slow
def test_one_kill_of_each_kind_with_ray():
    require_ray()
    assert "4 cases, 0 wrong" in run_cases("--places", "ray", "cluster", "--kinds", "kill")

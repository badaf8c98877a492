"""How many workers fit on a cluster, and what each gets."""

import pytest

from ddsfl.scale.places import Node, Places


@pytest.mark.parametrize(
    ("nodes", "workers", "gpus", "expected"),
    [
        ([Node(4), Node(2)], None, None, Places(6, 1, 0)),
        ([Node(4), Node(2)], 2, None, Places(2, 2, 0)),  # 3 CPUs each would fit on one node only
        ([Node(8)], 3, None, Places(3, 2, 0)),
        ([Node(8, 2), Node(8)], None, None, Places(2, 4, 1)),  # CPUs are where the GPUs are
        ([Node(8, 2)], 2, None, Places(2, 4, 1)),
        ([Node(8, 2)], 4, 0, Places(4, 2, 0)),
        ([Node(8, 2)], 4, 0.5, Places(4, 2, 0.5)),
        ([Node(8, 2)], None, 0, Places(8, 1, 0)),
        ([Node(8, 2)], None, 0.3, Places(6, 1, 0.3)),  # three on each GPU, not six and two thirds
        ([Node(8, 3)], None, 2, Places(1, 8, 2)),
    ],
)
def test_workers_share_what_there_is(nodes, workers, gpus, expected):
    assert Places.on(nodes, workers, gpus) == expected


@pytest.mark.parametrize(
    ("workers", "gpus", "missing"),
    [
        (4, 0, "the cluster has 3 CPUs and 1 GPUs on 2 nodes; 4 workers with 1 CPU do not fit"),
        (2, 1, "2 workers with 1 CPU and 1 GPU do not fit"),
        (None, 2, "1 worker with 1 CPU and 2 GPU do not fit"),
    ],
)
def test_what_does_not_fit_is_named(workers, gpus, missing):
    with pytest.raises(ValueError, match=missing):
        Places.on([Node(2, 1), Node(1)], workers, gpus)


@pytest.mark.parametrize(("workers", "share"), [(3, 0.5), (4, 0.5), (7, 0.25), (5000, 0.01)])
def test_more_workers_than_gpus_have_to_say_whether_they_share_them(workers, share):
    nodes = [Node(5000, 2)]
    message = f"but the cluster has 2 GPUs; expected also --gpus-per-worker, such as {share} to share them"
    with pytest.raises(ValueError, match=message):
        Places.on(nodes, workers)
    if share > 0.01:
        assert Places.on(nodes, workers, share).n_workers == workers

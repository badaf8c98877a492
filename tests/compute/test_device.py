import numpy as np
import pytest
import torch

from ddsfl.compute import device as device_module
from ddsfl.compute.device import (
    as_numpy,
    as_tensor,
    has_nvidia_gpu,
    make_generator,
    resolve_device,
    rows_within,
    slices,
    spawn_seeds,
    unused_gpu,
)


def test_auto_is_cuda_where_there_is_one(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert resolve_device("auto").type == "cuda"
    assert resolve_device(None).type == "cuda"
    assert resolve_device("cpu").type == "cpu"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert resolve_device("auto").type == "cpu"
    assert resolve_device(torch.device("cpu")).type == "cpu"


def test_devices_that_are_not_here_are_named(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ValueError, match=r"device='cuda:0' cannot be used: "):
        resolve_device("cuda:0")
    with pytest.raises(ValueError, match="device='toaster' is not a device"):
        resolve_device("toaster")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(ValueError, match=r"device='cuda:1' does not exist; found 1 GPU, numbered from 0\."):
        resolve_device("cuda:1")


@pytest.mark.parametrize("device", [{}, ["cpu"], 2**70, 1.5, np.array(["auto", "cpu"])])
def test_devices_of_other_types_are_named(device):
    with pytest.raises(ValueError, match=r"^device=.* is not a device; expected 'auto', 'cpu' or 'cuda'\.$"):
        resolve_device(device)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (np.float64, torch.float64),
        (np.float32, torch.float32),
        (np.float16, torch.float32),
        (np.uint8, torch.float32),
        (np.int64, torch.float32),
        (bool, torch.float32),
    ],
)
def test_precision_is_kept_and_the_rest_becomes_single(given, expected):
    array = np.array([[0, 1, 1]]).astype(given)
    tensor = as_tensor(array)
    assert tensor.dtype == expected
    assert tensor.tolist() == [[0.0, 1.0, 1.0]]
    assert as_tensor(torch.from_numpy(array)).dtype == expected


def test_dtype_asked_for_wins():
    assert as_tensor(np.arange(3), dtype=torch.float64).dtype == torch.float64
    assert as_tensor(np.arange(3.0), dtype=torch.float32).dtype == torch.float32


def test_views_become_contiguous():
    array = np.arange(12.0).reshape(3, 4)
    for view in (array.T, array[::-1], array[:, ::2]):
        tensor = as_tensor(view)
        assert tensor.is_contiguous()
        np.testing.assert_array_equal(as_numpy(tensor), view)
    assert as_tensor(torch.from_numpy(array).T).is_contiguous()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64])
def test_read_only_arrays_are_copied_without_a_warning(dtype):
    array = np.arange(6).astype(dtype).reshape(2, 3)
    array.flags.writeable = False
    tensor = as_tensor(array)
    tensor += 1
    np.testing.assert_array_equal(as_numpy(tensor), np.arange(1, 7).reshape(2, 3))
    np.testing.assert_array_equal(array, np.arange(6).reshape(2, 3))


def test_writable_arrays_are_not_copied():
    array = np.arange(3.0)
    assert np.shares_memory(as_numpy(as_tensor(array)), array)


def test_numpy_of_a_tensor_with_gradient():
    assert as_numpy(torch.ones(2, requires_grad=True)).tolist() == [1.0, 1.0]


def test_generator_follows_random_state():
    def draw(random_state):
        return torch.rand(5, generator=make_generator(random_state)).tolist()

    assert draw(3) == draw(3)
    assert draw(3) != draw(4)
    state = np.random.RandomState(3)
    first, second = draw(state), draw(state)
    assert first == draw(3)
    assert second != first
    assert draw(None) != draw(None)
    assert make_generator(0).device.type == "cpu"


def test_spawned_seeds_differ_and_repeat():
    seeds = spawn_seeds(0, 50)
    assert len(set(seeds)) == 50
    assert all(type(seed) is int for seed in seeds)
    assert seeds == spawn_seeds(0, 50)
    assert seeds[:7] == spawn_seeds(0, 7)
    assert seeds != spawn_seeds(1, 50)


@pytest.mark.parametrize("seed", [-1, 2**32, 1.5, "lucky", [1, 2], float("nan")])
def test_what_is_no_seed_is_named(seed):
    with pytest.raises(
        ValueError, match=r"^random_state=.* is no seed; expected None, a whole number from 0 "
    ):
        spawn_seeds(seed, 1)


@pytest.mark.parametrize(
    ("bytes_a_row", "budget", "least", "expected"),
    [(1000, 10_999, 1, 10), (1000, 999, 1, 1), (1000, 999, 7, 7), (0, 5, 1, 5), (0.25, 5, 1, 5)],
)
def test_rows_within_a_budget(bytes_a_row, budget, least, expected):
    assert rows_within(bytes_a_row, budget, least) == expected


@pytest.mark.parametrize(("length", "step"), [(0, 3), (1, 3), (6, 3), (7, 3), (7, 100), (7, 1)])
def test_slices_cover_everything_once(length, step):
    covered = [i for part in slices(length, step) for i in range(length)[part]]
    assert covered == list(range(length))
    assert all(0 < part.stop - part.start <= step for part in slices(length, step))
    assert all(part.stop <= length for part in slices(length, step))


def test_devices_that_nobody_tested_are_refused():
    with pytest.raises(ValueError, match="device='mps' is not supported; expected 'auto', 'cpu' or 'cuda'"):
        resolve_device("mps")


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """A machine without CUDA: a function that sets the build of torch, the driver and what it says."""

    def make(*, build="12.8", gpu=True, says=None):
        def init():
            if says:
                raise RuntimeError(says)

        file = tmp_path / "version"
        file.touch() if gpu else file.unlink(missing_ok=True)
        monkeypatch.setattr(device_module, "DRIVER_FILES", (str(file),))
        monkeypatch.setenv("PATH", str(tmp_path))
        monkeypatch.setattr(torch.version, "cuda", build)
        monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
        monkeypatch.setattr(torch.cuda, "init", init)

    return make


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"build": None}, "is a CPU build, a GPU was found; see docs/install.md"),
        ({"build": None, "gpu": False}, "is a CPU build, no NVIDIA driver was found either"),
        ({"gpu": False}, "built for CUDA 12.8, but no NVIDIA driver was found"),
        ({"says": "The NVIDIA driver on your system is too old (found version 11040)."}, "driver is too old"),
        ({"says": "CUDA unknown error - nobody knows.\nMore."}, "CUDA unknown error - nobody knows; see"),
        ({}, "CUDA_VISIBLE_DEVICES"),
    ],
)
def test_the_reason_why_cuda_cannot_be_used_is_named(machine, parts, words):
    machine(**parts)
    with pytest.raises(ValueError) as error:
        resolve_device("cuda")
    assert str(error.value).startswith("device='cuda' cannot be used: ")
    assert words in str(error.value)


def test_a_gpu_that_stays_unused_is_named(machine, monkeypatch):
    machine(build=None)
    assert "is a CPU build: the CPU is used" in unused_gpu("auto")
    assert unused_gpu("cpu") is None  # as the user wishes
    machine(says="The NVIDIA driver on your system is too old (found version 11040).")
    assert "A GPU was found, but the CPU is used: the NVIDIA driver is too old" in unused_gpu("auto")
    machine(build=None, gpu=False)
    assert unused_gpu("auto") is None
    machine(build=None)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert unused_gpu("auto") is None


def test_the_program_of_the_driver_also_shows_a_gpu(machine, tmp_path):
    machine(gpu=False)
    assert not has_nvidia_gpu()
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\nexit 9\n")  # is not started
    program.chmod(0o755)
    assert has_nvidia_gpu()

"""Device and precision of arrays, random numbers, and the division of work into chunks."""

from __future__ import annotations

import importlib.util
import os
import shutil
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state
from torch import Tensor

from ddsfl.compute.allocation import keep_freed_memory
from ddsfl.compute.rules import shown
from ddsfl.compute.words import counted

#: Default working memory of a blocked computation.
DEFAULT_BUDGET_BYTES = 256 * 2**20
#: Working memory of steps on a CPU that read what the step before wrote: it is then still in the cache.
CACHED_BYTES = 2 * 2**20

#: Files that exist where a driver of NVIDIA is loaded.
DRIVER_FILES = ("/proc/driver/nvidia/version", "/dev/nvidia0")


# All computations come through this module.
keep_freed_memory()


def resolve_device(device: str | torch.device | None = "auto") -> torch.device:
    """Return the torch device for ``device``; "auto" is CUDA if available.

    >>> resolve_device("cpu")
    device(type='cpu')
    """
    resolved = device_named(device)
    if resolved.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device={device!r} cannot be used: {why_no_cuda()}")
    if resolved.type == "cuda" and (resolved.index or -1) >= torch.cuda.device_count():
        found = counted(torch.cuda.device_count(), "GPU")
        raise ValueError(f"device={device!r} does not exist; found {found}, numbered from 0.")
    return resolved


def device_named(device: str | torch.device | None) -> torch.device:
    """Return the torch device for ``device``, which this machine need not have.

    >>> device_named("cuda:1")
    device(type='cuda', index=1)
    """
    if device is None or (isinstance(device, str) and device == "auto"):
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        named = torch.device(device)
    except (RuntimeError, TypeError, ValueError) as error:
        found = f"device={shown(device)} is not a device"
        raise ValueError(f"{found}; expected 'auto', 'cpu' or 'cuda'.") from error
    if named.type not in ("cpu", "cuda"):
        raise ValueError(f"device={device!r} is not supported; expected 'auto', 'cpu' or 'cuda'.")
    return named


def has_nvidia_gpu() -> bool:
    """Return whether a driver of NVIDIA shows itself; looks at files only, so it takes no time."""
    return any(map(os.path.exists, DRIVER_FILES)) or shutil.which("nvidia-smi") is not None


def why_no_cuda() -> str:
    """Return in a sentence why torch cannot use CUDA on this machine; only for machines where it cannot."""
    if torch.version.cuda is None:
        found = "a GPU was found" if has_nvidia_gpu() else "no NVIDIA driver was found either"
        return f"this torch ({torch.__version__}) is a CPU build, {found}; see docs/install.md."
    if not has_nvidia_gpu():
        return (
            f"torch is built for CUDA {torch.version.cuda}, but no NVIDIA driver was found; "
            "see docs/install.md."
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.cuda.init()
    except (RuntimeError, AssertionError) as error:
        if "too old" in str(error):
            return (
                f"the NVIDIA driver is too old for this torch, which is built for CUDA {torch.version.cuda}; "
                "expected a newer driver, or a torch for an older CUDA (docs/install.md)."
            )
        return f"CUDA does not start: {str(error).strip().splitlines()[0].rstrip('.')}; see docs/install.md."
    return "the NVIDIA driver shows no GPU, perhaps because CUDA_VISIBLE_DEVICES hides it."


def unused_gpu(device: str) -> str | None:
    """Return a sentence if ``device`` is "auto", there is a GPU and torch cannot use it; None otherwise.

    >>> unused_gpu("cpu") is None
    True
    """
    if device != "auto" or torch.cuda.is_available() or not has_nvidia_gpu():
        return None
    if torch.version.cuda is None:
        return (
            f"A GPU was found, but this torch ({torch.__version__}) is a CPU build: the CPU is used. "
            "See docs/install.md."
        )
    return f"A GPU was found, but the CPU is used: {why_no_cuda()}"


def as_tensor(
    array: ArrayLike | Tensor, device: torch.device | str = "cpu", dtype: torch.dtype | None = None
) -> Tensor:
    """Return ``array`` as a contiguous floating-point tensor on ``device``.

    float32 and float64 keep their precision; everything else becomes float32. ``dtype`` overrides this.

    >>> as_tensor([[1, 2]]).dtype
    torch.float32
    """
    if not isinstance(array, Tensor):
        # "W" copies read-only arrays: torch warns about tensors that could write to one.
        array = torch.from_numpy(np.require(np.ascontiguousarray(array), requirements="W"))
    if dtype is None:
        dtype = array.dtype if array.dtype in (torch.float32, torch.float64) else torch.float32
    return array.to(device=device, dtype=dtype).contiguous()


def as_numpy(tensor: Tensor) -> np.ndarray[Any, Any]:
    """Return ``tensor`` as a NumPy array in host memory."""
    return tensor.detach().cpu().numpy()


def make_generator(random_state: int | np.random.RandomState | None) -> torch.Generator:
    """Return a CPU generator for ``random_state``, interpreted as in scikit-learn.

    Random numbers are always drawn on the CPU and then moved, so a seed gives the same numbers on every
    device.

    >>> a, b = (torch.rand(3, generator=make_generator(7)) for _ in range(2))
    >>> bool((a == b).all())
    True
    """
    return torch.Generator().manual_seed(drawn_seed(random_state))


def drawn_seed(random_state: int | np.random.RandomState | None) -> int:
    """Return one integer seed drawn from ``random_state``.

    >>> drawn_seed(0) == spawn_seeds(0, 1)[0]
    True
    """
    return spawn_seeds(random_state, 1)[0]


def spawn_seeds(random_state: int | np.random.RandomState | None, count: int) -> list[int]:
    """Return ``count`` independent integer seeds drawn from ``random_state``.

    >>> spawn_seeds(0, 2) == spawn_seeds(0, 2)
    True
    """
    try:
        state = check_random_state(random_state)
    except ValueError as error:
        found = f"random_state={shown(random_state)} is no seed"
        raise ValueError(
            f"{found}; expected None, a whole number from 0 to {2**32 - 1:,}, or a RandomState."
        ) from error
    draws = state.randint(np.iinfo(np.int32).max, size=count)
    return [int(draw) for draw in draws]


def rows_within(bytes_a_row: float, budget_bytes: int = DEFAULT_BUDGET_BYTES, least: int = 1) -> int:
    """Return how many rows of ``bytes_a_row`` fit into the budget, but at least ``least``.

    >>> rows_within(1000, 10_500)
    10
    """
    return max(least, int(budget_bytes // max(1.0, bytes_a_row)))


def slices(length: int, step: int) -> Iterator[slice]:
    """Cut ``range(length)`` into slices of at most ``step``.

    >>> [s.stop - s.start for s in slices(7, 3)]
    [3, 3, 1]
    """
    for start in range(0, length, step):
        yield slice(start, min(start + step, length))


@cache
def has_triton() -> bool:
    """Return whether this machine can compile kernels."""
    return torch.cuda.is_available() and importlib.util.find_spec("triton") is not None


_allowed = True


@contextmanager
def plain_path() -> Iterator[None]:
    """Use plain torch in full precision within the context, for comparison.

    >>> with plain_path():
    ...     has_kernels(torch.zeros(1, 1))
    False
    """
    global _allowed
    before, _allowed = _allowed, False
    try:
        yield
    finally:
        _allowed = before


def has_kernels(tensor: Tensor) -> bool:
    """Return whether kernels and tensor cores support tensors like this one: float32, on CUDA."""
    return _allowed and tensor.is_cuda and tensor.dtype == torch.float32 and has_triton()

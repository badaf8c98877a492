"""Which tensors the kernels support, tested without a GPU: stand-ins have only a device and a dtype."""

from types import SimpleNamespace

import pytest
import torch

from ddsfl.compute import device
from ddsfl.compute.device import has_kernels, plain_path
from ddsfl.compute.neighbours.cuda import can_fuse

ON_CUDA = SimpleNamespace(is_cuda=True, dtype=torch.float32)


@pytest.fixture
def triton(monkeypatch):
    monkeypatch.setattr(device, "has_triton", lambda: True)


def test_kernels_support_only_float32_on_cuda(triton):
    assert has_kernels(ON_CUDA)
    assert can_fuse(ON_CUDA, 32)
    assert not can_fuse(ON_CUDA, 33)
    for other in (
        SimpleNamespace(is_cuda=False, dtype=torch.float32),
        SimpleNamespace(is_cuda=True, dtype=torch.float64),
        SimpleNamespace(is_cuda=True, dtype=torch.float16),
    ):
        assert not has_kernels(other)
        assert not can_fuse(other, 1)


def test_no_kernels_without_a_compiler_or_on_the_plain_path(triton, monkeypatch):
    with plain_path():
        with plain_path():
            assert not has_kernels(ON_CUDA)
        assert not has_kernels(ON_CUDA)  # the outer context is still active
        assert not can_fuse(ON_CUDA, 1)
    assert has_kernels(ON_CUDA)
    monkeypatch.setattr(device, "has_triton", lambda: False)
    assert not has_kernels(ON_CUDA)
    assert not can_fuse(ON_CUDA, 1)

"""Settings of all tests: one thread, and skips for missing devices and data."""

import os
from pathlib import Path

import pytest
import torch

# On problems this small, threads cost more than they gain, especially on a busy machine; also in the programs
# that tests start.
torch.set_num_threads(1)
os.environ.setdefault("OMP_NUM_THREADS", "1")

TESTS = Path(__file__).resolve().parent
SHARED = TESTS.parents[1] / "shared"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # Tests of entire programs take longest: begun last, one of several processes would run them alone.
    items.sort(key=lambda item: item.path.parent != TESTS)
    for item in items:
        if item.get_closest_marker("cuda") and not torch.cuda.is_available():
            item.add_marker(pytest.mark.skip(reason="no CUDA device"))
        if item.get_closest_marker("data") and not (SHARED / "data").is_dir():
            item.add_marker(pytest.mark.skip(reason="no ../shared/data"))


@pytest.fixture
def ddsfl(capsys, monkeypatch):
    """The program on a wide screen: a function of its arguments that returns exit code, output and errors."""
    from tests.support.program import run_program  # here, because it imports the complete library

    monkeypatch.setenv("COLUMNS", "400")

    def run(*arguments):
        code = run_program(*arguments)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder with real image sets and networks; tests that use it are marked ``data``."""
    return SHARED

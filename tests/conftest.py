"""What all tests share: few threads (the machines have two cores) and the skips for what is not here."""

from pathlib import Path

import pytest
import torch

# Threads that wait for each other on a busy machine cost more than they bring on problems this small.
torch.set_num_threads(1)

SHARED = Path(__file__).resolve().parents[2] / "shared"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("cuda") and not torch.cuda.is_available():
            item.add_marker(pytest.mark.skip(reason="no CUDA device"))
        if item.get_closest_marker("data") and not (SHARED / "data").is_dir():
            item.add_marker(pytest.mark.skip(reason="no ../shared/data"))


@pytest.fixture
def ddsfl(capsys, monkeypatch):
    """The program on a wide screen: called with arguments, it returns exit code, output and errors."""
    from tests.support.program import run_program  # which loads all of the library: only where it is run

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

"""The program, run in this process."""

import sys

import pytest

from ddsfl.cli import main as cli


def run_program(*arguments) -> int:
    """Run `ddsfl` with these arguments; return its exit code."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["ddsfl", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            cli.main()
    return end.value.code or 0

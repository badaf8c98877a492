"""Cases of `make chaos` that tests run."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run_cases(*options: str) -> str:
    """Run one case of each kind of `attacks.shards` and return its table; AssertionError if it failed."""
    command = [sys.executable, "-m", "attacks.shards", "--each", "1", *options]
    environment = {**os.environ, "COLUMNS": "250"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, env=environment)
    assert done.returncode == 0, done.stderr[-5000:]
    return done.stdout

"""The programs in the documentation run as printed."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
PROGRAMS = [
    program
    for page in ("blocks.md", "python.md")
    for program in re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), flags=re.DOTALL)
]
assert PROGRAMS  # otherwise pytest would skip the test below


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_programs_of_the_pages_run(program, tmp_path):
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()

"""The programs in the documentation run as printed."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[1] / "docs" / "blocks.md").read_text()
PROGRAMS = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
assert PROGRAMS  # otherwise pytest would skip the test below


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_programs_about_blocks_run(program, tmp_path):
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()

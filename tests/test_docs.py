"""The programs that the documentation prints run as printed."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[1] / "docs" / "blocks.md").read_text()


@pytest.mark.parametrize("program", re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL))
def test_the_programs_about_blocks_run(program, tmp_path):
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()

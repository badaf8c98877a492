"""The programs in the documentation run as printed; pages that are drawn agree with their cells."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from studies import faithfulness, novelty

DOCS = Path(__file__).parents[1] / "docs"
PAGES = {
    name: (DOCS / name).read_text() for name in ("blocks.md", "components.md", "explain.md", "python.md")
}
PROGRAMS = [
    pytest.param(program, id=f"{name}-{number}")
    for name, page in PAGES.items()
    for number, program in enumerate(re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL))
]
assert len(PROGRAMS) > len(PAGES)  # otherwise pytest would skip the test below


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_programs_of_the_pages_run(program, tmp_path):
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def test_the_page_on_novelty_is_drawn_from_its_cells():
    assert novelty.draw(json.loads(novelty.CELLS.read_text())) == novelty.PAGE.read_text()


def test_the_table_of_faithfulness_is_drawn_from_its_cells():
    assert f"\n{faithfulness.draw(faithfulness.read_cells())}\n" in faithfulness.PAGE.read_text()

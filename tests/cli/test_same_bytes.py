"""Equal trainings give equal files, whatever the process."""

import os
import subprocess
import sys

from ddsfl.model.run_file import file_beside
from tests.support.tiny import TINY_OPTIONS, write_scenes


def trained_by_a_process(paths, out, hash_seed):
    """Train in a process of its own on files that were made in this order; return the model file."""
    images = out.parent / "images"
    for path in paths:
        copy = images / path.parent.name / path.name
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(path.read_bytes())
    subprocess.run(
        [sys.executable, "-m", "ddsfl", "train", images, "--out", out, *TINY_OPTIONS],
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "OMP_NUM_THREADS": "1"},
        check=True,
        capture_output=True,
    )
    return out


def test_neither_the_process_nor_hashes_nor_the_order_of_a_folder_matter(tmp_path):
    paths = write_scenes(tmp_path / "scenes")
    one, other = (
        trained_by_a_process(given, tmp_path / name / "m", hash_seed)
        for name, given, hash_seed in (("a", paths, "1"), ("b", paths[::-1], "2"))
    )
    assert one.read_bytes() == other.read_bytes()
    assert file_beside(one).read_bytes() != file_beside(other).read_bytes()

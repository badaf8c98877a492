"""Two versions side by side on CPU cores: the rows of `benchmarks.goals` that compare with an earlier one.

    git worktree add /tmp/before 1f98eb8
    python -m benchmarks.laptop /tmp/before --scenes SCENE15 [--only best]

`quick` is trained on 100 images of each class of Scene 15, `best` on 30 images of ten classes. Encoding is
measured by each version's own `benchmarks.encoding`. It takes half an hour on two cores, which must be idle.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.goals import ROOT, record
from benchmarks.versions import measure

#: Classes and images per class for each preset, and what is measured.
SIZES = {"quick": (15, 100), "best": (10, 30)}
JOBS = {"quick": ("train",), "best": ("train", "predict")}


def chosen(scenes: Path, folder: Path, n_classes: int, n_images: int) -> None:
    """Link the first images of the first classes into a folder of their own."""
    for source in sorted(path for path in scenes.iterdir() if path.is_dir())[:n_classes]:
        (folder / source.name).mkdir(parents=True)
        for image in sorted(source.iterdir())[:n_images]:
            (folder / source.name / image.name).symlink_to(image.resolve())


def preset_ratios(before: Path, scenes: Path, preset: str) -> dict[str, float]:
    """Return how many times faster this version trains and predicts."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        chosen(scenes, place / "images", *SIZES[preset])
        taken = []
        for name, source in (("before", before / "src"), ("now", ROOT / "src")):
            (place / name).mkdir()
            taken.append(measure(str(source), str(place / "images"), preset, place / name, JOBS[preset]))
            print(f"  {name}: {taken[-1]}", flush=True)
    return {job: taken[0][job] / taken[1][job] for job in JOBS[preset]}


def encoding(tree: Path) -> dict[str, float]:
    """Return images per second at layer 1 of `paper`, and the ratio to OpenCV + faiss + NumPy."""
    environment = {**os.environ, "PYTHONPATH": f"{tree}:{tree / 'src'}"}
    command = [sys.executable, "-m", "benchmarks.encoding"]
    done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, check=True)
    print(done.stdout, flush=True)
    rate = re.search(r"paper, layer 1.*?fast: code .*?, ([0-9.]+) images/s", done.stdout, re.DOTALL)
    times = {
        name: float(found[1])
        for name in ("ours, fast", r"opencv \+ faiss \+ NumPy")
        if (found := re.search(rf"{name}\s+([0-9.]+) ms (?:an|per) image", done.stdout))
    }
    ours, theirs = times.values()
    assert rate is not None
    return {"rate": float(rate[1]), "ratio": theirs / ours}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("before", type=Path, help="worktree of the earlier version")
    parser.add_argument("--scenes", type=Path, required=True, help="folder of Scene 15")
    parser.add_argument("--only", choices=[*SIZES, "encoding"])
    given = parser.parse_args()
    for folder in (given.before / "src" / "ddsfl", given.scenes):
        if not folder.is_dir():
            parser.error(f"{folder} is not a folder.")
    for preset in SIZES:
        if given.only in (None, preset):
            for job, ratio in preset_ratios(given.before, given.scenes, preset).items():
                print(f"{preset}, {job}: {ratio:.2f} times faster", flush=True)
                record(f"{preset}-{job}", ratio)
    if given.only in (None, "encoding"):
        before, now = encoding(given.before), encoding(ROOT)
        record("layer1", now["rate"] / before["rate"])
        record("pipeline", now["ratio"] / before["ratio"])


if __name__ == "__main__":
    main()

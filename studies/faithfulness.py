"""Do maps of evidence show what a model looks at? Deletion and randomisation on test images of Scene 15.

    python -m studies.faithfulness --data DIR --models DIR [--presets quick best] [--images 200]
        writes results/faithfulness/PRESET.json and the table of docs/explain.md
    python -m studies.faithfulness
        writes only the table, from those files

The data DIR contains the folder scene15. The models DIR has one file scene15-PRESET.safetensors per preset; a
missing one is trained on the training images of split 1. Unfinished measurements are stored there too: rerun
the same command to resume.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ddsfl import SceneClassifier
from ddsfl.compute.stages import fingerprint, write_whole
from ddsfl.datasets.protocols import protocol
from ddsfl.experiments.cells import current_commit, read_cell, write_cell
from ddsfl.explain import Faithfulness, masks
from ddsfl.explain.deletion import OCCLUSION
from ddsfl.explain.faithful import ImageRow, Trial, randomised_models
from ddsfl.explain.randomised import FILTERS, with_random_filters

ROOT = Path(__file__).resolve().parents[1]
CELLS, PAGE = ROOT / "results" / "faithfulness", ROOT / "docs" / "explain.md"
#: Text between these lines is written here; the rest of the page is kept.
START = "<!-- from here to the end mark: written by `python -m studies.faithfulness`, do not edit -->"
END = "<!-- end of what `python -m studies.faithfulness` writes -->"
PRESETS = ("quick", "best")
#: Training images per class for the SVM with shuffled labels.
N_SHUFFLED = 20


class Images:
    """The training images of split 1, and some of its test images, in which the classes take turns."""

    def __init__(self, data: Path, n_images: int) -> None:
        images, splits = protocol("scene15").read(data / "scene15")
        split = splits[0]
        labels = [str(label) for label in images.labels]
        self.training = [images.paths[index] for index in split.train]
        self.labels = [labels[index] for index in split.train]
        self.test = [images.paths[index] for index in _in_turns(labels, split.test)[:n_images]]
        some = _in_turns(labels, split.train)[: N_SHUFFLED * len(set(labels))]
        self.some_training = [images.paths[index] for index in some]
        self.some_labels = [labels[index] for index in some]


def _in_turns(labels: Sequence[str], indices: Sequence[int]) -> list[int]:
    """Return indices in random order, one of each class after the other."""
    shuffled = np.random.default_rng(0).permutation(indices).tolist()
    seen: dict[str, int] = {}
    ranked = []
    for index in shuffled:
        seen[labels[index]] = seen.get(labels[index], 0) + 1
        ranked.append((seen[labels[index]], labels[index], index))
    return [index for _, _, index in sorted(ranked)]


def model_of(name: str, images: Images, models: Path) -> SceneClassifier:
    """Return the model of a preset from its file; train it if there is none."""
    path = models / f"scene15-{name}.safetensors"
    if not path.exists():
        model = SceneClassifier(name, random_state=0)
        model.fit(images.training, images.labels, checkpoints=models / f"{name}.stages", report=_say)
        model.save(path)
    return SceneClassifier.load(path)


def unlearned_model(name: str, model: SceneClassifier, images: Images, models: Path) -> Any:
    """Return the model with random filters from its file; train it if there is none."""
    path = models / f"scene15-{name}-random-filters.safetensors"
    if not path.exists():
        unlearned: Any = with_random_filters(model, images.training, images.labels)
        unlearned.save(path)
    return SceneClassifier.load(path)


def measure(name: str, images: Images, models: Path, n_occluded: int, random_filters: bool) -> dict[str, Any]:
    """Return what is measured on the test images, one row per image."""
    model = model_of(name, images, models)
    randomised: dict[str, Any] = dict(randomised_models(model, images.some_training, images.some_labels))
    if random_filters:
        randomised[FILTERS] = [unlearned_model(name, model, images, models)]
    trial = Trial(model, images.test, randomised)
    like = {
        "preset": name,
        "training": model.training_["fingerprint"],
        "test": fingerprint([path.name for path in images.test]),
        "randomised": list(randomised),
        "n_occluded": n_occluded,
        "lengths": [masks.SMOOTHING, masks.BLUR],
    }
    stored = models / f"faithfulness-{name}.json"
    cell = read_cell(stored, like) or {**like, "commit": current_commit(), "images": []}
    for number in range(len(cell["images"]), len(images.test)):
        row = trial.measure(number, occluded=number < n_occluded)
        path = images.test[number]
        cell["images"].append({"image": f"{path.parent.name}/{path.name}", **_rounded(row._asdict())})
        write_cell(stored, cell)
        print(f"{name}: {number + 1} of {len(images.test)}", flush=True)
    return cell


def read_cells() -> dict[str, Any]:
    """Return what was measured, by preset."""
    found = {name: CELLS / f"{name}.json" for name in PRESETS}
    return {name: json.loads(path.read_text()) for name, path in found.items() if path.exists()}


def faithfulness_of(cell: dict[str, Any]) -> Faithfulness:
    """Return what was measured with one preset."""
    rows = ({key: value for key, value in row.items() if key != "image"} for row in cell["images"])
    return Faithfulness(tuple(ImageRow(**row) for row in rows))


def draw(cells: dict[str, Any]) -> str:
    """Return the table, one column per preset."""
    measured = {name: faithfulness_of(cell) for name, cell in cells.items()}
    counts = [f"`{name}`, {len(one.rows)} images" for name, one in measured.items()]
    lines = [f"| | {' | '.join(counts)} |", "|---" * (len(counts) + 1) + "|"]
    tables = [dict(one.table()) for one in measured.values()]
    for label in dict.fromkeys(label for table in tables for label in table):
        lines.append(f"| {label} | {' | '.join(table.get(label, '') for table in tables)} |")
    notes = [
        f"`{name}`: the occlusion map was made for {one.drops[OCCLUSION].n_images} images."
        for name, one in measured.items()
        if OCCLUSION in one.drops
    ]
    return "\n".join([*lines, "", *notes]).rstrip()


def write_page(cells: dict[str, Any]) -> None:
    """Replace the table of the page; the rest is kept."""
    before, start, rest = PAGE.read_text().partition(START)
    _, end, after = rest.partition(END)
    if not (start and end):
        raise ValueError(
            f"{PAGE} lacks the lines between which the table stands; expected {START} and {END}."
        )
    write_whole(PAGE, f"{before}{START}\n\n{draw(cells)}\n\n{END}{after}".encode())


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    return round(value, 5)


def _say(stage: str, stored: bool) -> None:
    print(stage, flush=True)


def main() -> None:
    """Measure if there are images, then draw the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--models", type=Path)
    parser.add_argument("--presets", nargs="+", choices=PRESETS, default=PRESETS)
    parser.add_argument("--images", type=int, default=200)
    parser.add_argument("--occluded", type=int, default=30, help="images with an occlusion map")
    parser.add_argument("--random-filters", action="store_true", help="train models without learned filters")
    options = parser.parse_args()
    if options.data is not None:
        if options.models is None:
            parser.error("--data needs --models, the folder of model files.")
        images = Images(options.data, options.images)
        for name in options.presets:
            cell = measure(name, images, options.models, options.occluded, options.random_filters)
            write_cell(CELLS / f"{name}.json", cell)
    write_page(read_cells())


if __name__ == "__main__":
    main()

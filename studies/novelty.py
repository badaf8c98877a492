"""Which images are flagged as unlike the training images, over several image sets and splits.

    python -m studies.novelty --data DIR [--sets scene15 steel6 ...]     writes results/novelty.json
    python -m studies.novelty                                            docs/novelty.md from that file

DIR contains one folder per image set. Novelty depends on images and labels only, so no classifier is trained:
it is learned from the training images of each split and asked about the test images of all sets and about
noise, empty frames and pages of text.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from ddsfl.classify.novelty import Novelty, statistics_of
from ddsfl.compute.stages import write_whole
from ddsfl.datasets.protocols import protocol
from ddsfl.datasets.splits import Split
from ddsfl.experiments.cells import current_commit
from ddsfl.images.image_list import ImageList
from ddsfl.images.labels import Labels
from studies.strange_images import KINDS, strange_image

ROOT = Path(__file__).resolve().parents[1]
CELLS, PAGE = ROOT / "results" / "novelty.json", ROOT / "docs" / "novelty.md"
#: The image sets, by the names of their protocols.
SETS = ("scene15", "steel6", "sports8", "indoor10", "objects102")
N_STRANGE = 100
HEAD = """# Images unlike the training images

A classifier has an answer for every image, also for noise. `ddsfl predict` therefore marks images that are
unlike the training images (`unlike` and `novelty` in `--json` and `--csv`, `SceneClassifier.novelty` in
Python; above 1 is unlike).

How it works: brightness, contrast and the distribution of gradients at four scales, 32 numbers
(`images/statistics.py`), are measured on the whole image and on nine windows. Their distribution in each
class of training images is learned (`classify/novelty.py`). The level above which an image is flagged is
chosen on held-out training images in five folds: about 4 % of them lie above it.

What it does not do: it compares how images look, not what they show. Sports photographs look like scene
photographs, and few of them are flagged. It never changes a label or a probability.

## How many are flagged

Percent of images flagged, mean and standard deviation over the splits of the protocol; in brackets the
AUROC against test images of the model's own set. Rows are training sets, columns are what is asked about.
Written by `python -m studies.novelty` from `results/novelty.json`.

"""
TAIL = """
The constants in `classify/novelty.py` were chosen on random samples of the sets above (60 images per class of
scene15 and steel6, 25 of sports8, up to 30 of the others), by drawing training images and asking about the
rest. The splits of the table contain the images of the samples too. They were looked at three times, with
three rules for the level. The 96 % quantile of the held-out images flagged 5.2 % of steel6's own test images
and 95 % of scene15; the rank of conformal prediction, which is stricter for few images, flagged 2.7 % and
53 %, and between 0 and 95 % of scene15 from split to split. The rule in use, 1.5 times the distance of the
90 % quantile from the median, is the one that flagged at most 5 % of the own images in every sample.

With fewer than about 60 training images the level is uncertain. On samples with 5 images per class of steel6,
4 % of its own images and 73 % of the Gaussian noise were flagged.
"""


def measure(data: Path, names: Sequence[str]) -> dict[str, Any]:
    """Return the measures of all sets: per training set and split, what was flagged."""
    statistics, labels, splits = {}, {}, {}
    for name in names:
        image_set, splits[name] = protocol(name).read(data / name)
        statistics[name], labels[name] = statistics_of(ImageList(image_set.paths)), image_set.labels
        print(f"{name}: {len(image_set)} images", flush=True)
    strange = {
        kind: statistics_of(ImageList([strange_image(kind, number) for number in range(N_STRANGE)]))
        for kind in KINDS
    }
    cells = []
    for name in names:
        for split in splits[name]:
            others = {other: statistics[other][splits[other][0].test] for other in names if other != name}
            cells.append(
                {"train": name, "split": split.name, "n_train": len(split.train)}
                | _asked(statistics[name], labels[name], split, {**strange, **others})
            )
    return {"commit": current_commit(), "cells": cells}


def _asked(own: Any, labels: Any, split: Split, others: dict[str, Any]) -> dict[str, Any]:
    """Return the share of flagged images and the AUROC for everything that is asked about."""
    novelty = Novelty().fit(own[split.train], Labels.read([labels[index] for index in split.train]))
    test = novelty.score(own[split.test])
    flagged, auroc = {"own test images": float((test > 1).mean())}, {}
    for kind, statistics in others.items():
        scores = novelty.score(statistics)
        flagged[kind] = float((scores > 1).mean())
        truth = np.repeat([0, 1], [len(test), len(scores)])
        auroc[kind] = float(roc_auc_score(truth, np.concatenate([test, scores])))
    return {"flagged": flagged, "auroc": auroc}


def draw(measured: dict[str, Any]) -> str:
    """Return the page with its table."""
    cells = measured["cells"]
    names = list(dict.fromkeys(cell["train"] for cell in cells))
    columns = ["own test images", *KINDS, *names]
    lines = [f"| trained on | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    for name in names:
        mine = [cell for cell in cells if cell["train"] == name]
        row = [f"{name}, {mine[0]['n_train']} images, {len(mine)} split{'s' * (len(mine) > 1)}"]
        for column in columns:
            flagged = [100 * cell["flagged"][column] for cell in mine if column in cell["flagged"]]
            if not flagged:
                row.append("")
                continue
            text = f"{np.mean(flagged):.1f} ± {np.std(flagged):.1f}"
            if column in mine[0]["auroc"]:
                text += f" ({np.mean([cell['auroc'][column] for cell in mine]):.3f})"
            row.append(text)
        lines.append(f"| {' | '.join(row)} |")
    return HEAD + "\n".join(lines) + "\n" + TAIL


def main() -> None:
    """Measure if there are images, then draw the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=SETS)
    options = parser.parse_args()
    if options.data is not None:
        write_whole(CELLS, json.dumps(measure(options.data, options.sets), indent=1).encode())
    write_whole(PAGE, draw(json.loads(CELLS.read_text())).encode())


if __name__ == "__main__":
    main()

"""Is evidence exact, and what does it cost? Sums of maps against scores, on photographs and drawn scenes.

    python -m studies.exactness --data DIR --models DIR [--presets quick paper best] [--images 200]
        [--device cpu] [--sets scene15 drawn]                          writes results/exactness.json

The data DIR contains the folder scene15. The models DIR has one file SET-PRESET.safetensors per image set and
preset (scene15-quick.safetensors); a missing one is trained: on the training images of split 1, or on drawn
scenes. Results of other sets, presets and devices in the file are kept.

For each image, the scores of the predicted class and of the runner-up are compared with the sums of their
parts, |start + sum of the map + what has no place - decision_function|, raw and relative to the average
training image. Cost is CPU time of explaining over that of predicting, for one image at a time: of `explain`
alone, and with the map of the difference of the two classes. Memory is the largest that a process of its own
needs to load the model and predict one image, and then to explain it (Linux).
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ddsfl import SceneClassifier, make_scenes
from ddsfl.compute.stages import write_whole
from ddsfl.datasets.protocols import protocol
from ddsfl.experiments.cells import current_commit

CELLS = Path(__file__).resolve().parents[1] / "results" / "exactness.json"
PRESETS = ("quick", "paper", "best")
SETS = ("scene15", "drawn")
#: Images whose cost is measured.
N_TIMED = 15
#: Drawn scenes per class to train on, and the seeds of training and test scenes.
N_DRAWN, TRAINING_SEED, TEST_SEED = 20, 0, 1

Images = tuple[list[Any], list[str]]


def photographs(data: Path, n_images: int) -> tuple[Images, list[Any]]:
    """Return training images and labels of split 1, and some of its test images, evenly over the classes."""
    images, splits = protocol("scene15").read(data / "scene15")
    train, test = splits[0].train, np.asarray(splits[0].test)
    chosen = test[np.linspace(0, len(test) - 1, min(n_images, len(test))).astype(int)]
    training = [images.paths[i] for i in train], [str(images.labels[i]) for i in train]
    return training, [images.paths[i] for i in chosen]


def drawn_scenes(n_images: int) -> tuple[Images, list[Any]]:
    """Return drawn scenes to train on with their labels, and others."""
    training = make_scenes(n_per_class=N_DRAWN, random_state=TRAINING_SEED)
    n_classes = len(set(training[1]))
    others, _ = make_scenes(n_per_class=-(-n_images // n_classes), random_state=TEST_SEED)
    return training, others[:n_images]


def model_of(path: Path, preset: str, training: Images, device: str) -> SceneClassifier:
    """Return the model of a file; train it if there is none."""
    if not path.exists():
        model = SceneClassifier(preset, device=device, random_state=0)
        model.fit(*training, checkpoints=path.with_suffix(".stages")).save(path)
    return SceneClassifier.load(path, device=device)


def largest_errors(model: SceneClassifier, images: Sequence[Any]) -> dict[str, float]:
    """Return the largest difference between a score and the sum of its parts, raw and relative.

    "batch" is how much the scores themselves differ between an image alone and in a batch: sums are rounded
    in another order, and a descriptor may then be coded by other words.
    """
    errors = {"raw": 0.0, "relative": 0.0}
    batch = 0.0
    together = model.scores_by_class(model.decision_function(images))
    for number, image in enumerate(images):
        scores = model.scores_by_class(model.decision_function([image]))[0]
        by_name = dict(zip(model.classes_.tolist(), scores.tolist()))
        batch = max(batch, float(np.abs(scores - together[number]).max()))
        [evidence] = model.explain([image])
        for name in evidence.classes:
            for kind in errors:
                relative = kind == "relative"
                parts = evidence.start(name, relative=relative) + evidence.unplaced(name, relative=relative)
                total = parts + float(evidence.map(name, relative=relative).sum())
                errors[kind] = max(errors[kind], abs(total - by_name[name]))
        if (number + 1) % 50 == 0:
            print(f"  {number + 1} images, largest errors {errors}", flush=True)
    return {**errors, "batch": batch}


def seconds_of(work: Callable[[], Any], device: str) -> float:
    """Return the CPU time of ``work``; on a GPU the time that passes."""
    clock = time.process_time if device == "cpu" else time.perf_counter
    start = clock()
    work()
    if device != "cpu":
        torch.cuda.synchronize()
    return clock() - start


def cost(model: SceneClassifier, images: Sequence[Any], device: str) -> dict[str, float]:
    """Return seconds per image and medians of ratios, each image alone."""
    rows: list[tuple[float, float, float]] = []
    for image in [images[0], *images]:  # the first twice: it warms up
        steps = (model.predict, partial(_explain, model), partial(_draw, model))
        predicting, explaining, drawing = (seconds_of(partial(step, [image]), device) for step in steps)
        rows.append((predicting, explaining, drawing))
    rows = rows[1:]
    return {
        "predict": statistics.median(row[0] for row in rows),
        "explain": statistics.median(row[1] for row in rows),
        "ratio": statistics.median(row[1] / row[0] for row in rows),
        "ratio with map": statistics.median(row[2] / row[0] for row in rows),
        "images": len(rows),
    }


def _explain(model: SceneClassifier, images: Sequence[Any]) -> None:
    list(model.explain(images))


def _draw(model: SceneClassifier, images: Sequence[Any]) -> None:
    for evidence in model.explain(images):
        evidence.difference()


def memory(path: Path, image: Any) -> dict[str, float]:
    """Return the most memory of a process, in MB, after one prediction on a CPU and after one explanation."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        predicted, explained, n_descriptors = pool.apply(_peaks, (path, image))
    return {"predict": predicted, "explain": explained, "descriptors": n_descriptors}


def _peaks(path: Path, image: Any) -> tuple[float, float, int]:
    model = SceneClassifier.load(path, device="cpu")
    model.predict([image])
    before = _peak()
    Path("/proc/self/clear_refs").write_text("5")  # forgets the peak
    [evidence] = model.explain([image])
    evidence.difference()
    counts = [0 if part.fields is None else len(part.fields) for part in evidence.parts]
    return before, _peak(), max(counts)


def _peak() -> float:
    """Return the most memory that this process had, in MB; `getrusage` would count that of its parent."""
    [line] = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) / 1024


def measure(name: str, preset: str, options: argparse.Namespace) -> dict[str, Any]:
    """Return the errors and the cost of one preset on one image set."""
    drawn = name == "drawn"
    training, images = drawn_scenes(options.images) if drawn else photographs(options.data, options.images)
    path = options.models / f"{name}-{preset}.safetensors"
    model = model_of(path, preset, training, options.device)
    return {
        "set": name,
        "preset": preset,
        "device": options.device,
        "commit": current_commit(),
        "images": len(images),
        "largest error": largest_errors(model, images),
        "seconds": cost(model, images[:: max(1, len(images) // N_TIMED)][:N_TIMED], options.device),
        "threads": torch.get_num_threads(),
        **({"megabytes": memory(path, images[0])} if options.device == "cpu" else {}),
    }


def main() -> None:
    """Measure, and write what was measured."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--models", type=Path, required=True)
    parser.add_argument("--presets", nargs="+", default=PRESETS, choices=PRESETS)
    parser.add_argument("--sets", nargs="+", default=SETS, choices=SETS)
    parser.add_argument("--images", type=int, default=200)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    options = parser.parse_args()
    for preset in options.presets:
        for name in options.sets:
            cell = measure(name, preset, options)
            print(json.dumps(cell), flush=True)
            cells = json.loads(CELLS.read_text()) if CELLS.exists() else []
            here = (name, preset, options.device)
            kept = [old for old in cells if (old["set"], old["preset"], old["device"]) != here]
            ordered = sorted([*kept, cell], key=lambda one: (one["set"], one["preset"], one["device"]))
            write_whole(CELLS, (json.dumps(ordered, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()

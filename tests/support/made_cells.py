"""Cells as methods write them, with made-up scores."""

from ddsfl.experiments.cells import write_cell
from ddsfl.experiments.evaluate import cell_path, settings_of_cell
from ddsfl.experiments.methods import method
from ddsfl.experiments.tables import NETWORKS

#: Paths of networks that need not exist; cells store only the file names.
NETWORK_FILES = {name: f"/somewhere/{name}.onnx" for name in NETWORKS}


def make_cell(name, score, split=1, dataset="scene15", **values):
    """Return a cell of two classes, a and b, whose accuracies are 0.1 above and below ``score``."""
    return {
        "dataset": dataset,
        "method": name,
        "split": f"random {split}" if isinstance(split, int) else split,
        "settings": settings_of_cell(method(name, NETWORK_FILES)),
        "seed": 0,
        "accuracy": score,
        "mean_class_accuracy": score,
        "per_class_accuracy": {"a": score + 0.1, "b": score - 0.1},
        "n_train": 1500,
        "n_test": 2985,
        "device": "a device",
        "commit": "0123456789ab",
        "version": "0.1.0",
        **values,
    }


def leave_cells(folder, name, scores, dataset="scene15", **values):
    """Write the cells of a method on the first splits."""
    for split, score in enumerate(scores, start=1):
        cell = make_cell(name, score, split, dataset, **values)
        write_cell(cell_path(folder / dataset, name, cell["split"]), cell)

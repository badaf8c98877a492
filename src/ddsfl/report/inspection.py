"""Inspection of a model: tables that describe it, pictures of what it learned."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table
from rich.text import Text

from ddsfl.encoder.block import Block
from ddsfl.learning.stack import FilterStack
from ddsfl.model.classifier import SceneClassifier
from ddsfl.report.plots import draw_filters, draw_objective, draw_sharing


def describe_model(model: SceneClassifier) -> list[Table]:
    """Return tables of provenance, layers, blocks and classes of a fitted model."""
    about = Table("", "", title="Model", show_header=False)
    training = model.training_
    about.add_row("preset", Text(model.settings_.preset or "none: custom settings"))
    for path, value in model.settings_.changes.items():
        about.add_row("changed", Text(f"{path} = {value}"))
    about.add_row("seed", "drawn" if model.random_state is None else str(model.random_state))
    about.add_row("trained on", f"{training['n_images']} images, pixels {training['fingerprint']}")
    about.add_row("device", model.device_)
    about.add_row("C of the SVM", f"{model.classifier_.C_:g}")

    tables = [about]
    if "stack" in model.sources_:
        tables.append(_layers_table(model))
    blocks = Table("block", "descriptors", "coding", "words", "cells", "weight", title="Blocks")
    for block, coding, weight in zip(model.settings_.blocks, model.codings_, model.weights_):
        cells = " + ".join(f"{rows}x{columns}" for rows, columns in block.levels) if block.coding else "-"
        chosen = " (chosen)" if block.weight == "cv" else ""
        blocks.add_row(
            Text(block.name),
            Text(_source_words(model, block)),
            block.coding["method"] if block.coding else "-",
            "-" if coding is None else str(coding.n_learned),
            cells,
            f"{weight:g}{chosen}",
        )

    classes = Table("class", "images", title="Classes")
    for name, count in zip(model.classes_, training["images_per_class"]):
        classes.add_row(Text(str(name)), str(count))

    seconds = Table("stage", "seconds", title="Time")
    for name, value in _by_kind(model.seconds_).items():
        seconds.add_row(Text(name), f"{value:.1f}")
    return [*tables, blocks, classes, seconds]


def _layers_table(model: SceneClassifier) -> Table:
    layers = Table("layer", "field", "step", "scales", "filters", "used per class", "shared", title="Layers")
    for number, (layer, sharing) in enumerate(zip(model.settings_.layers, model.stack_.sharing_), start=1):
        users = sharing.sum(axis=0)
        used = f"{sharing.sum(axis=1).mean():.0f}" if sharing.any() else "no sharing learned"
        layers.add_row(
            str(number),
            f"{layer.field} px",
            str(layer.step),
            str(layer.n_scales),
            str(len(model.stack_.learned_[number - 1].filters)),
            used,
            str(int((users > 1).sum())),
        )

    return layers


def _source_words(model: SceneClassifier, block: Block) -> str:
    """Return the name of a block's descriptors for people."""
    if block.source == "stack":
        layer = model.settings_.layers[block.output]
        if layer.bank is None:
            return f"pooled layer {block.output}"
        return f"layer {block.output + 1}" + (f", signs {layer.signs:g}" if layer.signs else "")
    method = model.settings_.source(block.source)["method"]
    named = method if method == block.source else f"{block.source} ({method})"
    network = model.networks_.files.get(block.source)
    return f"{named} {network['file']} {network['fingerprint'][:12]}" if network else named


def draw_model(model: SceneClassifier, folder: Path) -> list[Path]:
    """Draw filters, sharing and objective of each layer into ``folder``; return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    files: list[Path] = []
    if "stack" not in model.sources_:  # only learned layers can be drawn
        return files
    names = [str(name) for name in model.classes_]
    stack = model.stack_
    for index, pictures in enumerate(stack.pixel_filters_):
        layer = f"layer {index + 1}"
        path = folder / f"layer{index + 1}-filters.png"
        shown = pictures[:, 0] if pictures.shape[1] == 1 else pictures
        draw_filters(path, shown, f"What the {len(pictures)} filters of {layer} look for")
        files.append(path)
        if stack.sharing_[index].any():
            path = folder / f"layer{index + 1}-sharing.png"
            draw_sharing(path, stack.sharing_[index], names, f"Which classes share which filters, {layer}")
            files.append(path)
        if len(stack.objective_[index]) > 1:
            path = folder / f"layer{index + 1}-objective.png"
            draw_objective(path, *objective_curves(stack, index), f"Learning {layer}")
            files.append(path)
    return files


def objective_curves(stack: FilterStack, index: int) -> tuple[np.ndarray[Any, Any], tuple[str, ...]]:
    """Return the objective of a layer and those of its terms that were ever nonzero, with names."""
    values, names = stack.objective_[index], stack.objective_terms_[index]
    used = [
        column
        for column, name in enumerate(names)
        if name not in ("round", "leg") and values[:, column].any()
    ]
    return values[:, used], tuple(names[column] for column in used)


def _by_kind(seconds: dict[str, float]) -> dict[str, float]:
    """Add up the times of all parts of the encoding."""
    joined: dict[str, float] = {}
    for name, value in seconds.items():
        kind = "vectors" if name.rpartition(".")[2].startswith("vectors") else name
        joined[kind] = joined.get(kind, 0.0) + value
    return joined
